//! Folders of class folders.

use image::ImageFormat;
use updraft_data::{DataError, ImageFolder, ImageSource};

use crate::files::{contents, encode, folder, picture, two_classes};

#[test]
fn classes_and_files_are_sorted_by_name() {
    let root = folder(&two_classes());
    let images = ImageFolder::open(root.path()).unwrap();
    assert_eq!(images.classes(), ["cat", "dog"]);
    let labels: Vec<usize> = (0..images.len()).map(|index| images.label(index)).collect();
    assert_eq!(labels, [0, 0, 0, 1, 1, 1]);
    assert!(images.name(4).ends_with("2.jpg"), "{}", images.name(4));
}

#[test]
fn the_bytes_say_the_format_and_lossless_formats_keep_every_pixel() {
    let original = picture(3, 5, 7);
    let files = [
        ("a/png-in-truth.jpg", encode(&original, ImageFormat::Png)),
        ("a/tiff.TIF", encode(&original, ImageFormat::Tiff)),
    ];
    let root = folder(&files);
    for (_, pixels) in contents(&ImageFolder::open(root.path()).unwrap()) {
        assert_eq!(&pixels, original.as_raw());
    }
}

#[test]
fn what_is_no_image_is_ignored() {
    let mut files = two_classes();
    files.push(("cat/.hidden.jpg", Vec::new()));
    files.push(("cat/notes.txt", Vec::new()));
    files.push(("cat/deeper/4.jpg", Vec::new()));
    files.push((".git/x.jpg", Vec::new()));
    files.push(("readme.md", Vec::new()));
    let root = folder(&files);
    assert_eq!(ImageFolder::open(root.path()).unwrap().len(), 6);
}

#[test]
fn a_missing_an_empty_and_a_class_less_folder_are_told_apart() {
    let root = folder(&[("full/1.jpg", Vec::new()), ("empty/notes.txt", Vec::new())]);
    let error = ImageFolder::open(root.path().join("nowhere")).unwrap_err();
    assert!(matches!(&error, DataError::Open { path, .. } if path.ends_with("nowhere")), "{error}");
    let error = ImageFolder::open(root.path().join("full")).unwrap_err();
    assert!(matches!(&error, DataError::NoClasses { path } if path.ends_with("full")), "{error}");
    let error = ImageFolder::open(root.path()).unwrap_err();
    assert!(matches!(&error, DataError::EmptyClass { path } if path.ends_with("empty")), "{error}");
}

#[test]
fn a_file_that_vanishes_is_named() {
    let root = folder(&two_classes());
    let images = ImageFolder::open(root.path()).unwrap();
    std::fs::remove_file(root.path().join("dog/1.jpg")).unwrap();
    let error = images.read(3).unwrap_err();
    assert!(matches!(&error, DataError::Read { place, .. } if place.index == Some(3)), "{error}");
    assert!(error.to_string().contains("1.jpg"), "{error}");
}
