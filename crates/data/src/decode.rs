//! From the bytes of a JPEG, PNG or TIFF file to an image.

use std::io::Cursor;

use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};

use crate::error::{DataError, DecodeError, Place};
use crate::image::Image;
use crate::jpeg;

/// The most pixels an image may have: 100 megapixels, 300 MB of RGB.
pub(crate) const MAX_PIXELS: u64 = 100_000_000;

/// The most bytes a decoder may take: 16-bit RGBA at [`MAX_PIXELS`], and room to work.
const MAX_DECODER_BYTES: u64 = 1 << 30;

/// Decodes a JPEG, PNG or TIFF file; its bytes say which, not its name.
///
/// Gray becomes RGB, 16 bits become 8, transparency is dropped.
/// The orientation that a camera notes beside the pixels is not applied.
/// `name` is what an error calls the bytes.
///
/// # Errors
/// [`DataError::Decode`] for anything that is no complete image of at most 100 megapixels.
///
/// # Example
/// ```
/// use updraft_data::{DataError, DecodeError, decode};
///
/// let error = decode(b"<html>", "cat.jpg").unwrap_err();
/// assert!(matches!(
///     error,
///     DataError::Decode { source: DecodeError::UnknownFormat { .. }, .. }
/// ));
/// ```
pub fn decode(bytes: &[u8], name: &str) -> Result<Image<'static>, DataError> {
    decode_bytes(bytes, None).map_err(|source| DataError::Decode {
        place: Place { name: name.to_owned(), index: None },
        source,
    })
}

/// `kept` is the height and width to which the caller shrinks the image, where that is known: it
/// may be decoded smaller than it is then.
pub(crate) fn decode_bytes(
    bytes: &[u8],
    kept: Option<(usize, usize)>,
) -> Result<Image<'static>, DecodeError> {
    if bytes.is_empty() {
        return Err(DecodeError::Empty);
    }
    let format = match image::guess_format(bytes) {
        Ok(format @ (ImageFormat::Jpeg | ImageFormat::Png | ImageFormat::Tiff)) => format,
        _ => {
            return Err(DecodeError::UnknownFormat { start: bytes[..bytes.len().min(8)].to_vec() });
        }
    };
    if format == ImageFormat::Jpeg {
        return jpeg::decode(bytes, kept);
    }
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(DecodeError::TooLarge { width, height, limit: MAX_PIXELS });
    }
    let image = DynamicImage::from_decoder(decoder).map_err(damaged)?.into_rgb8();
    Image::try_new(height as usize, width as usize, image.into_raw())
        .map_err(|source| DecodeError::Damaged { source: source.into() })
}

fn damaged(source: ImageError) -> DecodeError {
    DecodeError::Damaged { source: source.into() }
}
