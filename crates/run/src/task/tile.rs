//! A small image with a caption, stored as PNG.

use std::io::Cursor;

use image::{ImageFormat, RgbImage};
use serde::{Deserialize, Serialize};

use crate::error::RunError;

/// Alphabet of base64 (RFC 4648, section 4).
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A small RGB image with a caption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tile {
    /// Rows.
    pub height: usize,
    /// Pixels in a row.
    pub width: usize,
    /// The image as PNG, in base64.
    pub png: String,
    /// The text below it.
    pub caption: String,
}

impl Tile {
    /// Encodes `rgb`: `3 · height · width` bytes, red, green and blue of each pixel.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for another number of bytes or an image without pixels.
    pub fn try_new(
        height: usize,
        width: usize,
        rgb: Vec<u8>,
        caption: String,
    ) -> Result<Self, RunError> {
        let refuse = |why: &dyn std::fmt::Display| RunError::Unusable {
            reason: format!("an image of {height} x {width} cannot be written as PNG: {why}"),
        };
        // The buffer may be longer than the image: `image` would truncate it.
        let is_whole = rgb.len() == 3 * height * width;
        let image = RgbImage::from_raw(width as u32, height as u32, rgb).filter(|_| is_whole);
        let image = image.ok_or_else(|| refuse(&"it has another number of bytes"))?;
        let mut png = Cursor::new(Vec::new());
        image.write_to(&mut png, ImageFormat::Png).map_err(|error| refuse(&error))?;
        Ok(Self { height, width, png: base64(png.get_ref()), caption })
    }
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, &byte| group << 8 | u32::from(byte));
        let group = group << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let sextet = (group >> (18 - 6 * at) & 63) as usize;
            text.push(if at <= chunk.len() { ALPHABET[sextet] as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_the_standard_hold() {
        let cases = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (length, expected) in cases.into_iter().enumerate() {
            assert_eq!(base64(&b"foobar"[..length]), expected);
        }
    }

    #[test]
    fn an_image_is_kept_as_png_and_one_of_another_length_is_refused() {
        let tile = |height, width, rgb| Tile::try_new(height, width, rgb, "a".to_owned());
        let found = tile(1, 2, vec![255, 0, 0, 0, 255, 0]).expect("two pixels");
        assert!(found.png.starts_with("iVBORw0KGgo"), "{found:?}");
        assert_eq!(found, tile(1, 2, vec![255, 0, 0, 0, 255, 0]).expect("the same again"));
        for (height, width, bytes) in [(2, 2, 6), (1, 1, 6), (0, 0, 0)] {
            let error = tile(height, width, vec![0; bytes]).expect_err("refused").to_string();
            assert!(error.contains("cannot be written as PNG"), "{error}");
        }
    }

    #[test]
    fn smooth_pixels_take_fewer_characters_than_they_have_bytes() {
        let rgb: Vec<u8> = (0..128 * 128).flat_map(|at| [(at % 128) as u8; 3]).collect();
        let tile = Tile::try_new(128, 128, rgb.clone(), String::new()).expect("an image");
        assert!(tile.png.len() < rgb.len() / 2, "{}", tile.png.len());
    }
}
