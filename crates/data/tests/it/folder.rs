//! Folders of class folders.

use std::sync::Arc;

use image::ImageFormat;
use image::codecs::jpeg::JpegEncoder;
use updraft_data::{DataError, ImageFolder, ImageSource, Resized, decode};

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
fn a_gray_jpeg_becomes_an_rgb_image_of_equal_channels() {
    let ramp = image::GrayImage::from_fn(24, 16, |x, y| image::Luma([(x * 9 + y) as u8]));
    let mut bytes = Vec::new();
    image::DynamicImage::ImageLuma8(ramp.clone())
        .write_with_encoder(JpegEncoder::new_with_quality(&mut bytes, 100))
        .unwrap();
    let decoded = decode(&bytes, "gray.jpg").unwrap();
    assert_eq!(decoded.size(), (16, 24));
    for (pixel, level) in decoded.pixels().chunks(3).zip(ramp.as_raw()) {
        assert!(pixel[0] == pixel[1] && pixel[1] == pixel[2], "{pixel:?}");
        assert!(pixel[0].abs_diff(*level) <= 2, "{pixel:?} {level}");
    }
}

#[test]
fn images_of_many_sizes_are_read_at_one_size_and_differ() {
    let files = [("a/1.png", picture(3, 5, 7)), ("a/2.png", picture(4, 9, 2))];
    let files = files.map(|(name, image)| (name, encode(&image, ImageFormat::Png)));
    let root = folder(&files);
    let images: Arc<dyn ImageSource> = Arc::new(ImageFolder::open(root.path()).unwrap());
    let resized = Resized::try_new(Arc::clone(&images), 6, 4).unwrap();
    for index in 0..2 {
        let expected = images.read(index).unwrap().resize(6, 4);
        assert_eq!(resized.read(index).unwrap(), expected);
    }
    let other = Resized::try_new(Arc::clone(&images), 4, 6).unwrap();
    assert_ne!(resized.fingerprint(), other.fingerprint());
    assert_ne!(resized.fingerprint(), images.fingerprint());
    assert!(matches!(Resized::try_new(images, 0, 6), Err(DataError::Setting { .. })));
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
fn other_formats_and_deeper_folders_of_a_class_are_counted_and_named() {
    let mut files = two_classes();
    files.extend(
        ["cat/a.webp", "cat/b.gif", "cat/deeper/4.jpg", "dog/notes.txt", "stray.png"]
            .map(|name| (name, Vec::new())),
    );
    // Hidden files, and files beside the classes that are no images, count as nothing.
    files.extend(["cat/._1.jpg", ".git/x.jpg", "readme.md"].map(|name| (name, Vec::new())));
    let root = folder(&files);
    let images = ImageFolder::open(root.path()).unwrap();
    assert_eq!(images.len(), 6);
    let passed_over = images.passed_over();
    assert_eq!(passed_over.first, ["cat/a.webp", "cat/b.gif", "cat/deeper"]);
    assert_eq!(passed_over.count, 5);
    let message = passed_over.message().unwrap();
    let expected = "passed over `cat/a.webp`, `cat/b.gif`, `cat/deeper` and 2 more: ";
    assert!(message.starts_with(expected) && message.ends_with(".tif, .tiff"), "{message}");
    let whole = folder(&two_classes());
    assert_eq!(ImageFolder::open(whole.path()).unwrap().passed_over().message(), None);
}

/// Other systems refuse such names themselves.
#[cfg(target_os = "linux")]
#[test]
fn names_that_differ_only_in_bytes_that_are_no_utf_8_are_refused_instead_of_merged() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    for place in ["", "cat"] {
        let root = folder(&two_classes());
        for name in [&b"c\xfe"[..], b"c\xff"] {
            let path = root.path().join(place).join(OsStr::from_bytes(name));
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("1.jpg"), crate::files::jpeg(1)).unwrap();
        }
        let error = ImageFolder::open(root.path()).unwrap_err();
        let expected = |path: &std::path::Path| path.to_string_lossy().contains("c\u{fffd}");
        assert!(matches!(&error, DataError::NotUtf8 { path } if expected(path)), "{error}");
    }
}

#[test]
fn a_missing_an_empty_and_a_class_less_folder_are_separate_errors() {
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
