//! Damaged images and misbehaving sources: always an error that names the sample.

use std::sync::Arc;

use image::ImageFormat;
use updraft_data::{
    DataError, DecodeError, Image, ImageFolder, ImageSource, InMemoryImages, Loader, LoaderConfig,
    Raster, TiffWriteConfig, Volume, Workers, decode, write_volume,
};

use crate::files::{encode, folder, jpeg, message, picture, two_classes};

fn fault(bytes: &[u8]) -> DecodeError {
    match decode(bytes, "upload") {
        Err(DataError::Decode { place, cause }) if place.name == "upload" => cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_image_is_refused_with_the_reason() {
    assert!(matches!(fault(b""), DecodeError::Empty));
    assert!(matches!(fault(b"<!doctype html>"), DecodeError::UnknownFormat { .. }));
    assert!(matches!(fault(b"GIF89a______"), DecodeError::UnknownFormat { .. }));
    assert!(matches!(fault(&[0xFF, 0xD8, 0xFF, 0xD9]), DecodeError::Damaged { .. }));
}

#[test]
fn a_tiff_of_several_pages_is_no_image() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tif");
    for (depth, is_image) in [(1, true), (2, false)] {
        let raster = Raster::from_planes(1, &[depth, 4, 5], vec![9_u8; depth * 20]).unwrap();
        let volume = Volume::try_new("a", vec![raster], [None; 3]).unwrap();
        write_volume(&path, &volume, &TiffWriteConfig::default()).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        if is_image {
            assert!(decode(&bytes, "a").is_ok());
        } else {
            let message = fault(&bytes).to_string();
            assert!(
                message.contains("a TIFF of several pages, where an image has one"),
                "{message}"
            );
        }
    }
}

#[test]
fn a_jpeg_cut_anywhere_is_refused() {
    let whole = jpeg(1);
    assert_eq!(decode(&whole, "whole").unwrap().size(), (12, 16));
    for length in 4..whole.len() {
        assert!(decode(&whole[..length], "cut").is_err(), "{length} of {} bytes", whole.len());
    }
}

#[test]
fn a_png_cut_or_changed_is_refused() {
    let whole = encode(&picture(1, 12, 16), ImageFormat::Png);
    for length in 8..whole.len() - 12 {
        assert!(matches!(fault(&whole[..length]), DecodeError::Damaged { .. }), "{length}");
    }
}

#[test]
fn a_header_that_claims_60000_by_60000_allocates_next_to_nothing() {
    let mut jpeg = jpeg(1);
    // The frame header: marker FF C0, length, precision, then height and width.
    let frame = jpeg.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0xEA, 0x60, 0xEA, 0x60]);
    // The size lies in the first chunk, followed by two bytes on color and the chunk's checksum.
    let mut png = encode(&picture(1, 12, 16), ImageFormat::Png);
    png[16..24].copy_from_slice(&[0, 0, 0xEA, 0x60, 0, 0, 0xEA, 0x60]);
    png[29..33].copy_from_slice(&[0x0F, 0xB0, 0xE2, 0x15]);
    let mut tiff = encode(&picture(1, 12, 16), ImageFormat::Tiff);
    let little = tiff[0] == b'I';
    for tag in [[0x00, 0x01], [0x01, 0x01]] {
        // Tag, type (short or long), count 1, value: written little-endian by this encoder.
        assert!(little);
        let at =
            tiff.windows(4).position(|entry| entry[..2] == tag && matches!(entry[2..], [3 | 4, 0]));
        let value = at.unwrap() + 8;
        tiff[value..value + 2].copy_from_slice(&[0x60, 0xEA]);
    }
    for (format, bytes) in [("JPEG", jpeg), ("PNG", png), ("TIFF", tiff)] {
        let mut found = None;
        let used = allocation_counter::measure(|| found = Some(fault(&bytes)));
        let error = found.unwrap();
        // A TIFF's strips would have to be as many: its decoder refuses it for that.
        let is_damaged = format == "TIFF" && matches!(error, DecodeError::Damaged { .. });
        let is_large = matches!(error, DecodeError::TooLarge { width: 60_000, height: 60_000, .. });
        assert!(is_large || is_damaged, "{format}: {error:?}");
        assert!(used.bytes_max < 1 << 20, "{format}: {} bytes at once", used.bytes_max);
    }
}

#[test]
fn decoding_a_set_names_the_lowest_bad_sample_for_any_number_of_workers() {
    let mut files: Vec<(String, Vec<u8>)> =
        (0..300).map(|at| (format!("a/{at:03}.jpg"), jpeg(at as u8))).collect();
    files[70].1.truncate(50);
    files[200].1.clear();
    let files: Vec<(&str, Vec<u8>)> = files.iter().map(|(n, b)| (n.as_str(), b.clone())).collect();
    let root = folder(&files);
    let source = ImageFolder::open(root.path()).unwrap();
    for workers in [0, 1, 2, 8] {
        let error = InMemoryImages::decode(&source, None, workers, &mut |_| {}).unwrap_err();
        let text = message(&error);
        assert!(
            text.contains("070.jpg` (sample 70) cannot be decoded: the JPEG is truncated"),
            "{text}"
        );
    }
}

#[test]
fn images_of_different_sizes_need_a_common_one() {
    let files = [("a/1.jpg", jpeg(1)), ("a/2.png", encode(&picture(1, 20, 20), ImageFormat::Png))];
    let root = folder(&files);
    let source = ImageFolder::open(root.path()).unwrap();
    let error = InMemoryImages::decode(&source, None, 1, &mut |_| {}).unwrap_err();
    assert!(message(&error).contains("is 20x20 pixels, the first is 16x12; set a size"), "{error}");
    let images = InMemoryImages::decode(&source, Some((8, 10)), 1, &mut |_| {}).unwrap();
    assert_eq!(images.read(1).unwrap().size(), (8, 10));
}

/// Two fine samples, then one that misbehaves in a chosen way.
struct Faulty {
    fault: Fault,
    classes: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Panics,
    LabelTooHigh,
    OtherSize,
}

impl ImageSource for Faulty {
    fn len(&self) -> usize {
        3
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn label(&self, index: usize) -> usize {
        if index == 2 && self.fault == Fault::LabelTooHigh { 9 } else { 0 }
    }

    fn name(&self, index: usize) -> String {
        format!("item {index}")
    }

    fn read(&self, index: usize) -> Result<Image<'_>, DataError> {
        assert!(index < 2 || self.fault != Fault::Panics, "unreadable item");
        let side = if index == 2 && self.fault == Fault::OtherSize { 5 } else { 4 };
        Image::try_new(side, side, vec![0; side * side * 3])
    }

    fn fingerprint(&self) -> String {
        "faulty".to_owned()
    }
}

#[test]
fn a_source_that_misbehaves_ends_the_epoch_with_an_error_for_any_number_of_workers() {
    let expected = [
        (Fault::Panics, "`item 2` (sample 2): the worker panicked: unreadable item"),
        (Fault::LabelTooHigh, "`item 2` (sample 2) has label 9; the source has 1 classes"),
        (Fault::OtherSize, "`item 2` (sample 2) is 5x5 pixels, the first is 4x4"),
    ];
    for (fault, message) in expected {
        for workers in [0, 1, 2] {
            let source = Arc::new(Faulty { fault, classes: vec!["only".to_owned()] });
            let config = LoaderConfig::new(1).with_workers(Workers::Count(workers));
            let batches: Vec<_> = Loader::try_new(source, config).unwrap().epoch(0).collect();
            assert_eq!(batches.len(), 3);
            assert!(batches[0].is_ok() && batches[1].is_ok());
            let error = batches[2].as_ref().unwrap_err();
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }
}

#[test]
fn settings_out_of_range_are_named() {
    let root = folder(&two_classes());
    let source = Arc::new(ImageFolder::open(root.path()).unwrap());
    let refused = |config| Loader::try_new(source.clone(), config).unwrap_err().to_string();
    assert_eq!(refused(LoaderConfig::new(0)), "`batch` is 0; expected 1 to 16777216");
    let translate = updraft_data::Translate { max_pixels: 12 };
    let config = LoaderConfig::new(1).with_augment(vec![Arc::new(translate)]);
    assert_eq!(
        refused(config),
        "`translate.max_pixels` is 12; expected less than the shorter side, 12"
    );
}

#[test]
fn a_tiff_is_read_in_every_depth_and_a_damaged_one_is_refused() {
    use image::{DynamicImage, GrayImage, Luma};
    let gray = GrayImage::from_fn(7, 5, |x, y| Luma([(x * 30 + y * 5) as u8]));
    let deep = DynamicImage::ImageLuma8(gray.clone()).into_luma16();
    let encoded = |image: DynamicImage| {
        let mut bytes = std::io::Cursor::new(Vec::new());
        image.write_to(&mut bytes, ImageFormat::Tiff).unwrap();
        bytes.into_inner()
    };
    let expected: Vec<u8> = gray.pixels().flat_map(|pixel| [pixel.0[0]; 3]).collect();
    let whole = encoded(gray.into());
    for bytes in [&whole, &encoded(deep.into())] {
        let image = decode(bytes, "scan.tiff").unwrap();
        assert_eq!((image.size(), image.pixels()), ((5, 7), &expected[..]));
    }
    for length in 4..whole.len() {
        // Cut anywhere it is refused, but for bytes after the last one that the header needs.
        match decode(&whole[..length], "cut.tiff") {
            Err(DataError::Decode { .. }) => {}
            Ok(image) => assert_eq!(image.pixels(), expected, "{length}"),
            other => panic!("{length}: {other:?}"),
        }
    }
}
