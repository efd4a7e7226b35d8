//! Small images as PNG, inside a page.

use std::io::Cursor;

use anyhow::{Context, Result, ensure};
use image::{ImageFormat, RgbImage};

/// Alphabet of base64 (RFC 4648, section 4).
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// An RGB image as the address of a PNG that holds all of it.
pub(super) fn data_address(height: usize, width: usize, rgb: &[u8]) -> Result<String> {
    ensure!(rgb.len() == 3 * height * width, "an image of {height} x {width} has another length");
    let image = RgbImage::from_raw(width as u32, height as u32, rgb.to_vec());
    let mut png = Cursor::new(Vec::new());
    image
        .context("an image has another size")?
        .write_to(&mut png, ImageFormat::Png)
        .context("an image cannot be written as PNG")?;
    Ok(format!("data:image/png;base64,{}", base64(png.get_ref())))
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
        let cases = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]
            .into_iter()
            .enumerate();
        for (length, expected) in cases {
            assert_eq!(base64(&b"foobar"[..length]), expected);
        }
    }

    #[test]
    fn an_image_becomes_an_address_and_one_of_another_length_is_refused() {
        let address = data_address(1, 2, &[255, 0, 0, 0, 255, 0]).expect("two pixels");
        assert!(address.starts_with("data:image/png;base64,iVBORw0KGgo"), "{address}");
        assert!(data_address(2, 2, &[0; 6]).is_err());
    }
}
