//! The build with libjpeg-turbo: the same pictures, smaller on the way, and the same refusals.
#![cfg(feature = "turbojpeg")]

use std::fs;
use std::sync::Arc;

use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageEncoder};
use updraft_data::{
    CachedImages, DataError, DecodeError, ImageFolder, ImageSource, Relabeled, Resized, Subset,
    TarImages, decode,
};

const PHOTO: &[u8] = include_bytes!("it/parity/photo.jpg");

/// Levels between two pictures: the largest difference and the mean one.
fn difference(got: &[u8], expected: &[u8]) -> (u8, f64) {
    assert_eq!(got.len(), expected.len());
    let levels = || got.iter().zip(expected).map(|(got, expected)| got.abs_diff(*expected));
    let sum: u64 = levels().map(u64::from).sum();
    (levels().max().expect("pixels"), sum as f64 / got.len() as f64)
}

/// A JPEG of slow waves with grain of two pixels, as photographs have both.
fn photograph(height: usize, width: usize) -> Vec<u8> {
    let mut pixels = Vec::new();
    let mut state = 1_u32;
    let mut grain = vec![0.0; width.div_ceil(2)];
    for row in 0..height {
        if row % 2 == 0 {
            for grain in &mut grain {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *grain = f64::from(state >> 16) / 2_730.0 - 12.0;
            }
        }
        for column in 0..width {
            let (y, x) = (row as f64 / height as f64, column as f64 / width as f64);
            for channel in 0..3 {
                let wave = 50.0 * ((9.0 * y + f64::from(channel)).sin() + (13.0 * x).cos());
                pixels.push((127.5 + wave + grain[column / 2]) as u8);
            }
        }
    }
    let mut bytes = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut bytes, 90);
    let (width, height) = (width as u32, height as u32);
    encoder.write_image(&pixels, width, height, ExtendedColorType::Rgb8).expect("encodable");
    bytes
}

/// torchvision decodes with the same library; what is left is the resize.
#[test]
fn a_photograph_is_within_a_level_of_torchvisions() {
    let image = decode(PHOTO, "photo.jpg").unwrap();
    assert_eq!(image.size(), (120, 160));
    let expected = include_bytes!("it/parity/photo-72x64.rgb");
    let (largest, mean) = difference(image.resize(64, 72).pixels(), expected);
    assert!(largest <= 1 && mean < 0.25, "at most {largest} levels, {mean} in the mean");
}

#[test]
fn large_photographs_are_decoded_smaller_and_look_the_same() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("one")).unwrap();
    fs::write(folder.path().join("one/large.jpg"), photograph(600, 803)).unwrap();
    let files: Arc<dyn ImageSource> = Arc::new(ImageFolder::open(folder.path()).unwrap());
    let (height, width) = (75, 100);
    let archive = folder.path().join("images.tar");
    let mut tar = tar::Builder::new(fs::File::create(&archive).unwrap());
    tar.append_dir_all("one", folder.path().join("one")).unwrap();
    tar.finish().unwrap();
    let archived = TarImages::open(&archive, &mut |_| {}).unwrap();
    let part = Subset::try_new(Arc::clone(&files), vec![0]).unwrap();
    let renamed = Relabeled::try_new(Arc::clone(&files), &["one".to_owned()]).unwrap();
    for source in [&*files, &archived, &part, &renamed] {
        // A quarter of 803, rounded up.
        assert_eq!(source.read_for(0, (height, width)).unwrap().size(), (150, 201));
    }
    assert_eq!(files.read_for(0, (400, 400)).unwrap().size(), (600, 803));
    let whole = files.read(0).unwrap().into_owned();
    assert_eq!(whole.size(), (600, 803));
    let whole = whole.resize(height, width);
    let resized = Resized::try_new(Arc::clone(&files), height, width).unwrap();
    let cached = CachedImages::try_new(files, Some((height, width)), 1 << 20).unwrap();
    for source in [&resized as &dyn ImageSource, &cached] {
        let shrunk = source.read(0).unwrap();
        assert_eq!(shrunk.size(), (height, width));
        let (largest, mean) = difference(shrunk.pixels(), whole.pixels());
        assert!(largest > 0, "decoded at its full size");
        assert!(largest <= 4 && mean < 0.6, "at most {largest} levels, {mean} in the mean");
    }
}

/// Four inks, which libjpeg-turbo does not turn into RGB.
#[test]
fn pictures_that_only_the_plain_path_reads_are_read() {
    let image = decode(include_bytes!("it/parity/ink.jpg"), "ink.jpg").unwrap();
    assert_eq!(image.size(), (16, 24));
    for pixel in image.pixels().chunks(3) {
        let off = pixel.iter().zip([204, 102, 51]).map(|(&got, expected)| got.abs_diff(expected));
        assert!(off.max().unwrap() <= 3, "{pixel:?}");
    }
}

#[test]
fn damaged_pictures_are_decoded_or_refused() {
    let mut state = 7_u32;
    let mut refused = 0;
    for _ in 0..500 {
        let mut bytes = PHOTO.to_vec();
        for _ in 0..4 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = (state >> 8) as usize % bytes.len();
            bytes[at] = (state >> 24) as u8;
        }
        match decode(&bytes, "damaged") {
            Ok(image) => assert_eq!(image.pixels().len(), 3 * image.height() * image.width()),
            Err(DataError::Decode { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!((1..500).contains(&refused), "{refused}");
    // The library is whole after that.
    assert_eq!(decode(PHOTO, "photo.jpg").unwrap().size(), (120, 160));
    let cut = decode(&PHOTO[..PHOTO.len() / 2], "cut.jpg").unwrap_err();
    assert!(matches!(cut, DataError::Decode { cause: DecodeError::Truncated { .. }, .. }));
}
