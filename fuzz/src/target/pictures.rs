//! Images as files, and caches of what was decoded.

use std::io::Cursor;

use image::{ImageFormat, RgbImage};
use updraft_data::{
    Cue, FileImages, FileSamples, GeneratedConfig, GeneratedImages, ImageSource, InMemorySamples,
    PngVolume, Raster, Region, Sample, SampleSource, SampleTarget, VolumeSource,
};

use crate::scratch;

pub(super) fn image(bytes: &[u8]) {
    if let Ok(image) = updraft_data::decode(bytes, "fuzz") {
        assert_eq!(image.pixels().len(), 3 * image.height() * image.width());
    }
}

pub(super) fn image_seeds() -> Vec<Vec<u8>> {
    let encoded = |format| encode(5, 3, format);
    vec![encoded(ImageFormat::Png), encoded(ImageFormat::Jpeg), encoded(ImageFormat::Tiff)]
}

pub(super) fn png(width: u32, height: u32) -> Vec<u8> {
    encode(width, height, ImageFormat::Png)
}

fn encode(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let color = |x, y| image::Rgb([x as u8 * 40, y as u8 * 60, 90]);
    let mut bytes = Cursor::new(Vec::new());
    let image = RgbImage::from_fn(width, height, color);
    image.write_to(&mut bytes, format).expect("encoded");
    bytes.into_inner()
}

pub(super) fn png_volume(bytes: &[u8]) {
    let Ok(volume) = PngVolume::open(scratch::file(bytes)) else { return };
    let [slices, rows, columns] = volume.spec().sides();
    let sides = [slices, rows.min(8), columns.min(8)];
    let region = Region { frame: 0, origin: [0, rows - sides[1], columns - sides[2]], sides };
    assert_eq!(volume.read(&region).expect("decoded before").spec().height, sides[1]);
}

fn drawn() -> GeneratedImages {
    let config = GeneratedConfig::new(Cue::Color, 4).with_size(16, 16);
    GeneratedImages::try_new(config).expect("valid settings")
}

/// Any bytes where a cache of decoded images is expected: never read, always made anew.
pub(super) fn image_cache(bytes: &[u8]) {
    let (source, file) = (drawn(), scratch::file(bytes));
    let (images, _) = FileImages::open(&source, None, file, 1, &mut |_| {}).expect("made anew");
    assert_eq!(images.read(0).expect("whole"), source.read(0).expect("drawn"));
}

pub(super) fn image_cache_seeds() -> Vec<Vec<u8>> {
    let file = scratch::file(b"");
    FileImages::open(&drawn(), None, &file, 1, &mut |_| {}).expect("made anew");
    vec![scratch::read(&file)]
}

fn samples() -> InMemorySamples {
    let sample = |class: usize| {
        let raster = Raster::try_new(1, &[2, 2], vec![class as u8; 4]).expect("four values");
        (format!("sample {class}"), Sample { raster, target: SampleTarget::Class(class) })
    };
    InMemorySamples::try_new((0..2).map(sample).collect()).expect("two samples")
}

/// The same for a cache of samples.
pub(super) fn sample_cache(bytes: &[u8]) {
    let (source, file) = (samples(), scratch::file(bytes));
    let (cached, _) = FileSamples::open(&source, file, 1, &mut |_| {}).expect("made anew");
    assert_eq!(cached.len(), source.len());
    cached.read(1).expect("whole");
}

pub(super) fn sample_cache_seeds() -> Vec<Vec<u8>> {
    let file = scratch::file(b"");
    FileSamples::open(&samples(), &file, 1, &mut |_| {}).expect("made anew");
    vec![scratch::read(&file)]
}
