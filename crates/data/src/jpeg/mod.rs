//! Decoding JPEGs.

#[cfg(feature = "turbojpeg")]
mod turbo;

use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::buffer_pool;
use crate::decode::MAX_PIXELS;
use crate::error::DecodeError;
use crate::image::Image;

/// Decodes a JPEG of any color space to RGB; `kept` is the height and width to which the caller
/// will shrink it, if known.
#[cfg_attr(
    not(feature = "turbojpeg"),
    expect(unused_variables, reason = "the plain path decodes at full size")
)]
pub(crate) fn decode(
    bytes: &[u8],
    kept: Option<(usize, usize)>,
) -> Result<Image<'static>, DecodeError> {
    #[cfg(feature = "turbojpeg")]
    if let Some(image) = turbo::decode(bytes, kept) {
        return Ok(image);
    }
    decode_whole(bytes)
}

fn decode_whole(bytes: &[u8]) -> Result<Image<'static>, DecodeError> {
    if !has_end(bytes) {
        return Err(DecodeError::Truncated { bytes: bytes.len() });
    }
    let longest = usize::from(u16::MAX);
    let options = DecoderOptions::default()
        .set_max_width(longest)
        .set_max_height(longest)
        // Cameras write nonstandard markers.
        .set_strict_mode(false)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(damaged)?;
    let (width, height) = decoder.dimensions().expect("the headers were read");
    if (width * height) as u64 > MAX_PIXELS {
        let (width, height) = (width as u32, height as u32);
        return Err(DecodeError::TooLarge { width, height, limit: MAX_PIXELS });
    }
    let mut pixels = buffer_pool::zeros(Image::CHANNELS * width * height);
    decoder.decode_into(&mut pixels).map_err(damaged)?;
    Image::try_new(height, width, pixels)
        .map_err(|cause| DecodeError::Damaged { cause: cause.into() })
}

fn damaged(cause: DecodeErrors) -> DecodeError {
    DecodeError::Damaged { cause: cause.into() }
}

/// Whether the marker that ends the image is there.
///
/// Decoders fill the missing part of a truncated file with gray and report success, so the markers
/// are checked here. Segments are skipped by their length, so that the end marker of an embedded
/// thumbnail does not count; in entropy-coded data a 0xFF byte is always followed by 0x00 or a
/// restart marker, so whatever else follows it is a marker.
///
/// # Source
/// ITU-T T.81, annex B.1.1.
fn has_end(bytes: &[u8]) -> bool {
    const END_OF_IMAGE: u8 = 0xD9;
    let mut rest = bytes;
    loop {
        let Some(at) = first_ff(rest) else { return false };
        rest = &rest[at..];
        let Some(at) = rest.iter().position(|&byte| byte != 0xFF) else { return false };
        let marker = rest[at];
        rest = &rest[at + 1..];
        match marker {
            END_OF_IMAGE => return true,
            // A stuffed zero, a reserved marker without length, a restart, the start of image.
            0x00 | 0x01 | 0xD0..=0xD8 => {}
            _ => {
                let Some(length) = rest.first_chunk::<2>() else { return false };
                let length = usize::from(u16::from_be_bytes(*length));
                let Some(after) = rest.get(length.max(2)..) else { return false };
                rest = after;
            }
        }
    }
}

/// The first byte 0xFF, looked for in blocks because most have none.
fn first_ff(bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 64;
    let skipped = BLOCK * bytes.chunks(BLOCK).take_while(|block| !block.contains(&0xFF)).count();
    let at = bytes.get(skipped..)?.iter().position(|&byte| byte == 0xFF)?;
    Some(skipped + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_marker_of_the_image_itself_counts() {
        // Start, a comment of 4 bytes that holds an end marker, a scan with a stuffed byte.
        let image = [
            0xFF, 0xD8, 0xFF, 0xFE, 0x00, 0x04, 0xFF, 0xD9, 0xFF, 0xDA, 0x00, 0x02, 0x12, 0xFF,
            0x00, 0xFF, 0xD0, 0x34, 0xFF, 0xFF, 0xD9, 0x00,
        ];
        assert!(has_end(&image));
        for cut in 0..image.len() - 1 {
            assert!(!has_end(&image[..cut]), "{cut}");
        }
    }

    #[test]
    fn the_first_marker_byte_is_found_at_every_place() {
        for at in 0..200 {
            let mut bytes = vec![0; 200];
            assert_eq!(first_ff(&bytes), None);
            bytes[at..].fill(0xFF);
            assert_eq!(first_ff(&bytes), Some(at));
        }
    }
}
