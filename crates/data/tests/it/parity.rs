//! Decoding and resizing beside torchvision's.

use updraft_data::{Image, decode};

/// The green channel of the picture below as torchvision 0.29.2 shrinks it to 10 rows of 7:
/// `v2.functional.resize(x, [10, 7], antialias=True)` of a `uint8` tensor, bilinear.
const TORCHVISION: [u8; 70] = [
    129, 113, 119, 120, 124, 119, 118, 115, 109, 126, 123, 124, 141, 131, 111, 117, 145, 133, 124,
    126, 128, 122, 117, 144, 136, 132, 115, 124, 121, 112, 136, 140, 121, 110, 142, 115, 120, 128,
    143, 125, 108, 123, 117, 134, 107, 147, 108, 121, 157, 133, 127, 82, 75, 57, 103, 137, 133,
    146, 95, 105, 123, 105, 154, 119, 121, 137, 128, 119, 124, 121,
];

#[test]
fn a_shrunk_picture_is_within_one_level_of_torchvisions() {
    let (height, width) = (24, 30);
    let mut pixels = Vec::new();
    for row in 0..height {
        for column in 0..width {
            for channel in 0..3 {
                let value = row * row * 37 + column * 53 + row * column * 11 + channel * 91;
                pixels.push((value % 251) as u8);
            }
        }
    }
    let shrunk = Image::try_new(height, width, pixels).unwrap().resize(10, 7);
    let green = shrunk.pixels().iter().skip(1).step_by(3);
    let furthest = green.zip(TORCHVISION).map(|(&got, expected)| got.abs_diff(expected)).max();
    assert!(furthest.unwrap() <= 1, "{furthest:?} levels");
}

/// Levels between two pictures: the largest difference and the mean one.
fn difference(got: &[u8], expected: &[u8]) -> (u8, f64) {
    assert_eq!(got.len(), expected.len());
    let levels = || got.iter().zip(expected).map(|(got, expected)| got.abs_diff(*expected));
    let sum: u64 = levels().map(u64::from).sum();
    (levels().max().unwrap(), sum as f64 / got.len() as f64)
}

/// `parity/make.py` made both files.
#[test]
fn a_photograph_is_decoded_and_shrunk_to_torchvisions_pixels() {
    let image = decode(include_bytes!("parity/photo.jpg"), "photo.jpg").unwrap();
    assert_eq!(image.size(), (120, 160));
    let expected = include_bytes!("parity/photo-72x64.rgb");
    let (largest, mean) = difference(image.resize(64, 72).pixels(), expected);
    assert!(largest <= 3 && mean < 0.5, "at most {largest} levels, {mean} in the mean");
}
