//! Samples in PNG and TIFF files: their own types and channels, and what is no sample.

use std::fs;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

use image::{DynamicImage, ImageBuffer, ImageFormat, Luma, Rgba};
use updraft_data::{
    DataError, FileSample, FileTarget, Loader, Pixels, Raster, SampleConfig, SampleFiles,
    SampleSource, SampleTarget, TargetBatch, TiffWriteConfig, Volume, write_volume,
};

use crate::files::message;

fn bytes(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn gray16(number: u16) -> DynamicImage {
    ImageBuffer::from_fn(3, 2, |x, y| Luma([number + 1000 * y as u16 + x as u16])).into()
}

fn mask() -> DynamicImage {
    ImageBuffer::from_fn(3, 2, |x, _| Luma([x as u8])).into()
}

/// A folder with three pictures of 16 bits, one of RGBA, and a mask.
fn folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let rgba: DynamicImage =
        ImageBuffer::from_fn(3, 2, |x, y| Rgba([x as u8, y as u8, 7, 255])).into();
    for (name, image, format) in [
        ("a.tif", gray16(10), ImageFormat::Tiff),
        ("b.png", gray16(20), ImageFormat::Png),
        ("c.tif", gray16(30), ImageFormat::Tiff),
        ("rgba.png", rgba, ImageFormat::Png),
        ("mask.png", mask(), ImageFormat::Png),
    ] {
        fs::write(root.path().join(name), bytes(&image, format)).unwrap();
    }
    root
}

#[test]
fn files_of_one_channel_each_become_channels_with_their_own_values() {
    let root = folder();
    let path = |name: &str| root.path().join(name);
    let sample = |inputs: &[&str], target| FileSample {
        inputs: inputs.iter().map(|name| path(name)).collect(),
        target,
    };
    let files = SampleFiles::try_new(vec![
        sample(&["a.tif", "b.png"], FileTarget::Labels(path("mask.png"))),
        sample(&["c.tif"], FileTarget::Image(vec![path("a.tif"), path("rgba.png")])),
        sample(&["rgba.png"], FileTarget::Values(vec![0.5])),
    ])
    .unwrap();
    let first = files.read(0).unwrap();
    let expected: Vec<u16> = vec![10, 20, 11, 21, 12, 22, 1010, 1020, 1011, 1021, 1012, 1022];
    assert_eq!(first.raster, Raster::try_new(2, &[2, 3], expected).unwrap());
    let labels = Raster::try_new(1, &[2, 3], vec![0_u8, 1, 2, 0, 1, 2]).unwrap();
    assert_eq!(first.target, SampleTarget::Labels(labels));
    // Sixteen bits and eight do not go together.
    assert_eq!(
        message(&files.read(1).unwrap_err()),
        format!(
            "`{}` (sample 1) has u8 1 channel of 2x3; expected u16 1 channel of 2x3, as `{}` has",
            path("rgba.png").display(),
            path("a.tif").display()
        )
    );
    let third = files.read(2).unwrap();
    assert_eq!(third.raster.spec().channels, 4);
    let Pixels::U8(values) = third.raster.pixels() else { panic!() };
    assert_eq!(values[..8], [0, 0, 7, 255, 1, 0, 7, 255]);
    let part = SampleFiles::try_new(vec![sample(&["a.tif", "b.png"], {
        FileTarget::Labels(path("mask.png"))
    })])
    .unwrap();
    let loader = Loader::from_samples(Arc::new(part), SampleConfig::new(1)).unwrap();
    let batch = loader.epoch(0).next().unwrap().unwrap();
    assert_eq!(batch.sample_shape(), [2, 2, 3]);
    assert!((batch.values()[6] - 20.0 / 65_535.0).abs() < 1e-9);
    assert!(matches!(batch.targets(), TargetBatch::Labels { labels, .. } if labels[2] == 2));
}

#[test]
fn what_is_no_sample_is_named() {
    let root = folder();
    let path = |name: &str| root.path().join(name);
    let open =
        |inputs: Vec<PathBuf>, target| SampleFiles::try_new(vec![FileSample { inputs, target }]);
    let nothing = open(Vec::new(), FileTarget::None).unwrap_err();
    assert_eq!(message(&nothing), "`inputs` is empty; expected at least one file");
    let nothing = open(vec![path("a.tif")], FileTarget::Image(Vec::new())).unwrap_err();
    assert_eq!(message(&nothing), "`target image` is empty; expected at least one file");
    let absent = open(vec![path("a.tif")], FileTarget::Labels(path("no.png"))).unwrap_err();
    assert!(message(&absent).contains("no.png` cannot be opened: No such file"), "{absent}");
    assert!(matches!(SampleFiles::try_new(Vec::new()), Err(DataError::Empty)));
    fs::write(path("cut.png"), &bytes(&gray16(1), ImageFormat::Png)[..40]).unwrap();
    let cut = open(vec![path("cut.png")], FileTarget::None).unwrap().read(0).unwrap_err();
    let text = message(&cut);
    assert!(text.contains("cut.png` (sample 0) cannot be decoded: the image is damaged"), "{text}");
}

/// A TIFF by hand: one row of two bytes on each of `pages` pages.
fn tiff(is_little: bool, pages: usize) -> Vec<u8> {
    let short = |number: u16| if is_little { number.to_le_bytes() } else { number.to_be_bytes() };
    let long = |number: u32| if is_little { number.to_le_bytes() } else { number.to_be_bytes() };
    let mut bytes = Vec::from(if is_little { b"II" } else { b"MM" });
    bytes.extend(short(42));
    bytes.extend(long(8));
    let entries = [(256, 2), (257, 1), (258, 8), (259, 1), (262, 1), (277, 1), (278, 1), (279, 2)];
    for page in 0..pages {
        let (start, length) = (bytes.len(), 2 + 12 * (entries.len() + 1) + 4);
        bytes.extend(short(entries.len() as u16 + 1));
        for (tag, value) in
            [&entries[..5], &[(273, (start + length) as u32)], &entries[5..]].concat()
        {
            bytes.extend(short(tag));
            bytes.extend(short(4));
            bytes.extend(long(1));
            bytes.extend(long(value));
        }
        let next = if page + 1 < pages { start + length + 2 } else { 0 };
        bytes.extend(long(next as u32));
        bytes.extend([page as u8, 9]);
    }
    bytes
}

#[test]
fn a_tiff_of_several_pages_is_a_volume_and_never_cut_to_its_first() {
    let root = tempfile::tempdir().unwrap();
    for (is_little, pages) in [(true, 1), (false, 1), (true, 2), (false, 3)] {
        let file = root.path().join("stack.tif");
        fs::write(&file, tiff(is_little, pages)).unwrap();
        let sample = FileSample { inputs: vec![file], target: FileTarget::None };
        let files = SampleFiles::try_new(vec![sample]).unwrap();
        let values: Vec<u8> = (0..pages as u8).flat_map(|page| [page, 9]).collect();
        let sides: &[usize] = if pages == 1 { &[1, 2] } else { &[pages, 1, 2] };
        let expected = Raster::try_new(1, sides, values).unwrap();
        assert_eq!(files.read(0).unwrap().raster, expected, "{pages}");
    }
}

#[test]
fn a_tiff_of_gray_f32_is_read_and_one_of_several_frames_or_damaged_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let read = |name: &str| {
        let sample = FileSample { inputs: vec![path(name)], target: FileTarget::None };
        SampleFiles::try_new(vec![sample]).unwrap().read(0).map(|sample| sample.raster.into_owned())
    };
    let gray = Raster::try_new(1, &[1, 2], vec![0.5_f32, -2.0]).unwrap();
    let write = |name: &str, frames: Vec<Raster<'static>>| {
        let volume = Volume::try_new(name, frames, [None; 3]).unwrap();
        write_volume(path(name), &volume, &TiffWriteConfig::default()).unwrap();
    };
    write("gray.ome.tif", vec![gray.clone()]);
    assert_eq!(read("gray.ome.tif").unwrap(), gray);
    write("time.ome.tif", vec![gray.clone(), gray]);
    let error = message(&read("time.ome.tif").unwrap_err());
    assert!(error.ends_with("(sample 0) has 2 frames; expected 1 frame"), "{error}");
    fs::write(path("cut.tif"), &tiff(true, 2)[..100]).unwrap();
    let error = message(&read("cut.tif").unwrap_err());
    assert!(error.contains("cut.tif"), "{error}");
}
