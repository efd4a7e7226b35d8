//! Image files, folders and archives made for the tests.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use image::{ImageFormat, RgbImage};
use tempfile::TempDir;
use updraft_data::{DataError, ImageSource};

/// An error as a program prints it: its text contains its cause, so there is no chain to follow.
pub(crate) fn message(error: &DataError) -> String {
    assert!(std::error::Error::source(error).is_none(), "a chain would print the cause twice");
    error.to_string()
}

/// A picture whose pixels follow from a number.
pub(crate) fn picture(number: u8, height: u32, width: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| image::Rgb([number, (x * 9) as u8, (y * 7) as u8]))
}

pub(crate) fn jpeg(number: u8) -> Vec<u8> {
    encode(&picture(number, 12, 16), ImageFormat::Jpeg)
}

pub(crate) fn encode(picture: &RgbImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// A temporary folder with the given files.
pub(crate) fn folder(files: &[(&str, Vec<u8>)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    folder
}

/// Two classes of three JPEGs each, out of order.
pub(crate) fn two_classes() -> Vec<(&'static str, Vec<u8>)> {
    let names = ["dog/2.jpg", "cat/1.jpg", "dog/1.jpg", "cat/3.jpg", "cat/2.jpg", "dog/3.jpg"];
    names.into_iter().zip(10..).map(|(name, number)| (name, jpeg(number))).collect()
}

pub(crate) fn tar(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = ::tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        archive.append(&header(name, bytes.len()), bytes.as_slice()).unwrap();
    }
    archive.into_inner().unwrap()
}

/// A header with any name, also one that the archive builder would refuse.
pub(crate) fn header(name: &str, bytes: usize) -> ::tar::Header {
    let mut header = ::tar::Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(bytes as u64);
    header.set_mode(0o644);
    header.set_cksum();
    header
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn write(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Label and pixels of every sample.
pub(crate) fn contents(source: &dyn ImageSource) -> Vec<(usize, Vec<u8>)> {
    (0..source.len())
        .map(|index| (source.label(index), source.read(index).unwrap().into_pixels()))
        .collect()
}

/// A file of the shared data, or `None` with a message where it is absent.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = root.join(name);
    if path.exists() {
        return Some(path);
    }
    let mut err = std::io::stderr().lock();
    writeln!(err, "skipped: `{}` is not there", path.display()).unwrap();
    None
}
