//! JPEGs through libjpeg-turbo: faster than the default decoder, and decoded at reduced size.

use std::cell::RefCell;

use turbojpeg::{Colorspace, Decompressor, Image as Pixels, PixelFormat, ScalingFactor};

use crate::buffer_pool;
use crate::decode::MAX_PIXELS;
use crate::image::Image;

/// The minimum ratio between the decoded and the final size, in each direction.
///
/// The decoder shrinks by box averages; from twice the size on, the antialiased filter that follows
/// determines the result. Pillow's `reducing_gap` has the same default.
const GAP: usize = 2;

/// The decoder scales by eighths.
const EIGHTHS: usize = 8;

/// Files with more scans than this use the default decoder: each scan costs a pass over the image.
const MOST_SCANS: u32 = 500;

thread_local! {
    static DECODER: RefCell<Option<Decompressor>> = const { RefCell::new(None) };
}

/// Decodes a JPEG to RGB, not smaller than [`GAP`] times `kept`; at its full size without.
///
/// `None` for files that this library refuses or warns about: the default decoder handles them.
pub(super) fn decode(bytes: &[u8], kept: Option<(usize, usize)>) -> Option<Image<'static>> {
    DECODER.with_borrow_mut(|decoder| {
        if decoder.is_none() {
            let mut made = Decompressor::new().ok()?;
            made.set_scan_limit(MOST_SCANS).ok()?;
            *decoder = Some(made);
        }
        decode_with(decoder.as_mut()?, bytes, kept)
    })
}

fn decode_with(
    decoder: &mut Decompressor,
    bytes: &[u8],
    kept: Option<(usize, usize)>,
) -> Option<Image<'static>> {
    let header = decoder.read_header(bytes).ok()?;
    let is_of_ink = matches!(header.colorspace, Colorspace::CMYK | Colorspace::YCCK);
    if (header.width * header.height) as u64 > MAX_PIXELS || header.is_lossless || is_of_ink {
        return None;
    }
    let scale = kept.map_or(ScalingFactor::ONE, |kept| scale((header.height, header.width), kept));
    decoder.set_scaling_factor(scale).ok()?;
    let (height, width) = (scale.scale(header.height), scale.scale(header.width));
    let pitch = Image::CHANNELS * width;
    let mut pixels = buffer_pool::any(pitch * height);
    let to = Pixels { pixels: &mut pixels[..], width, pitch, height, format: PixelFormat::RGB };
    if decoder.decompress(bytes, to).is_err() {
        buffer_pool::keep(pixels);
        return None;
    }
    Image::try_new(height, width, pixels).ok()
}

/// The smallest of the decoder's sizes that is large enough.
fn scale(
    (height, width): (usize, usize),
    (kept_height, kept_width): (usize, usize),
) -> ScalingFactor {
    let is_enough = |eighths: &usize| {
        let scale = ScalingFactor::new(*eighths, EIGHTHS);
        scale.scale(height) >= GAP * kept_height && scale.scale(width) >= GAP * kept_width
    };
    ScalingFactor::new((1..EIGHTHS).find(is_enough).unwrap_or(EIGHTHS), EIGHTHS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_photograph_is_decoded_at_twice_what_is_kept_of_it() {
        let eighths = |size, kept| {
            let scale = scale(size, kept);
            EIGHTHS * scale.num() / scale.denom()
        };
        assert_eq!(eighths((1600, 2400), (100, 100)), 1);
        assert_eq!(eighths((1600, 2400), (200, 300)), 2);
        assert_eq!(eighths((1600, 2400), (201, 300)), 3);
        assert_eq!(eighths((375, 500), (224, 224)), 8);
        // Rounded up: an eighth of 9 is 2.
        assert_eq!(eighths((9, 9), (1, 1)), 1);
        assert_eq!(eighths((8, 8), (64, 64)), 8);
    }
}
