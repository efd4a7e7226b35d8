//! Images whose files were replaced by others of the same length between two reads.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use updraft_data::{
    CachedImages, CenterCropped, DataError, Delimiter, FaultPolicy, FileImages, ImageFolder,
    ImageSource, InMemoryImages, Loader, LoaderConfig, Relabeled, Resized, Subset, TarImages,
    Workers, expect_contents,
};

use crate::files::{encode, folder, gzip, message, picture, tar};

/// An image without compression: equal sizes have equal lengths.
fn tiff(number: u8) -> Vec<u8> {
    encode(&picture(number, 4, 6), image::ImageFormat::Tiff)
}

const NAMES: [&str; 2] = ["a/1.tif", "b/1.tif"];

/// Two images in files, in a manifest and in archives; the number of the first one.
fn write(root: &Path, first: u8) {
    let files = [(NAMES[0], tiff(first)), (NAMES[1], tiff(2))];
    fs::write(root.join(NAMES[0]), &files[0].1).unwrap();
    fs::write(root.join("images.tar"), tar(&files)).unwrap();
    fs::write(root.join("images.tar.gz"), gzip(&tar(&files))).unwrap();
}

fn images() -> tempfile::TempDir {
    let root = folder(&[(NAMES[0], tiff(1)), (NAMES[1], tiff(2))]);
    fs::write(root.path().join("images.csv"), "path,class\na/1.tif,a\nb/1.tif,b\n").unwrap();
    write(root.path(), 1);
    root
}

type Opened = Arc<dyn ImageSource>;

fn opened(images: impl ImageSource + 'static) -> Opened {
    Arc::new(images)
}

fn open_folder(root: &Path) -> Opened {
    opened(ImageFolder::open(root).unwrap())
}

fn open_manifest(root: &Path) -> Opened {
    let (path, comma) = (root.join("images.csv"), Delimiter::Comma);
    opened(ImageFolder::from_manifest(path, comma, "path", "class").unwrap())
}

fn open_tar(root: &Path) -> Opened {
    opened(TarImages::open(root.join("images.tar"), &mut |_| {}).unwrap())
}

fn open_gzip(root: &Path) -> Opened {
    opened(TarImages::open(root.join("images.tar.gz"), &mut |_| {}).unwrap())
}

/// The text of the error of a replaced first image.
fn changed(error: &DataError) -> String {
    assert!(matches!(error, DataError::ChangedFile { .. }), "{error}");
    let text = message(error);
    assert!(text.contains("a/1.tif` (sample 0) has another content than when it"), "{text}");
    text
}

#[test]
fn an_image_that_was_replaced_after_its_first_read_is_refused_by_its_name() {
    for open in [open_folder, open_manifest, open_tar] {
        let root = images();
        let source = open(root.path());
        let first = source.read(0).unwrap().into_pixels();
        write(root.path(), 9);
        let text = changed(&source.read(0).unwrap_err());
        assert!(text.ends_with("put the file back as it was, or begin a new run with the new one"));
        changed(&source.read_for(0, (4, 6)).unwrap_err());
        assert_eq!(source.read(1).unwrap().pixels()[0], 2);
        write(root.path(), 1);
        assert_eq!(source.read(0).unwrap().into_pixels(), first);
    }
}

#[test]
fn contents_of_an_earlier_use_are_expected_through_any_cache() {
    for open in [open_folder, open_manifest, open_tar, open_gzip] {
        let root = images();
        let classes = ["a".to_owned(), "b".to_owned()];
        type Wrap<'a> = Box<dyn Fn(Opened) -> Opened + 'a>;
        let wraps: [(&str, Wrap<'_>); 6] = [
            ("plain", Box::new(|images| images)),
            ("resized", Box::new(|images| opened(Resized::try_new(images, 2, 3).unwrap()))),
            ("cropped", Box::new(|it| opened(CenterCropped::try_new(it, 2, 3, 1.0).unwrap()))),
            ("relabeled", Box::new(|it| opened(Relabeled::try_new(it, &classes).unwrap()))),
            ("kept", Box::new(|it| opened(CachedImages::try_new(it, None, 1 << 20).unwrap()))),
            (
                "decoded",
                Box::new(|it| opened(InMemoryImages::decode(&*it, None, 1, &mut |_| {}).unwrap())),
            ),
        ];
        let of_first = |source: &dyn ImageSource| {
            let read = source.read(0).map(|image| image.into_pixels());
            (read, source.known_contents().unwrap().to_text())
        };
        for (kind, wrap) in &wraps {
            write(root.path(), 1);
            let (pixels, text) = of_first(&*wrap(open(root.path())));
            // The same files: compared, and the same images.
            let again = wrap(open(root.path()));
            assert!(expect_contents(&*again, &text).unwrap(), "{kind}");
            assert_eq!(again.read(0).unwrap().into_pixels(), pixels.unwrap(), "{kind}");
            // The second image is known only where it was decoded.
            let known = again.known_contents().unwrap().known();
            assert_eq!(known, if *kind == "decoded" { 2 } else { 1 }, "{kind}");

            write(root.path(), 9);
            let replaced = wrap(open(root.path()));
            assert_eq!(replaced.fingerprint(), again.fingerprint(), "{kind}");
            match expect_contents(&*replaced, &text) {
                Err(error) => {
                    assert_eq!(*kind, "decoded");
                    changed(&error);
                }
                Ok(is_compared) => {
                    assert!(is_compared && *kind != "decoded", "{kind}");
                    changed(&replaced.read(0).unwrap_err());
                }
            }
            replaced.read(1).unwrap();
        }
    }
}

#[test]
fn a_set_of_other_files_is_not_compared() {
    let root = images();
    let source = open_folder(root.path());
    source.read(0).unwrap();
    let text = source.known_contents().unwrap().to_text();
    fs::write(root.path().join("a/0.tif"), tiff(3)).unwrap();
    let other = open_folder(root.path());
    assert!(!expect_contents(&*other, &text).unwrap());
    assert_eq!(other.read(1).unwrap().pixels()[0], 1);
    // Some of the images, in another order.
    let part = Subset::try_new(source, vec![1]).unwrap();
    assert!(part.known_contents().is_none() && !expect_contents(&part, &text).unwrap());
}

#[test]
fn a_cache_file_that_is_made_again_has_other_contents_than_before() {
    let (root, caches) = (images(), tempfile::tempdir().unwrap());
    let path = caches.path().join("images");
    let open =
        || FileImages::open(&*open_folder(root.path()), None, &path, 1, &mut |_| {}).unwrap();
    let text = open().0.known_contents().unwrap().to_text();
    // Reused: no file is read.
    let (reused, _) = open();
    assert_eq!(reused.known_contents().unwrap().known(), 0);
    assert!(expect_contents(&reused, &text).unwrap());
    fs::remove_file(&path).unwrap();
    write(root.path(), 9);
    changed(&expect_contents(&open().0, &text).unwrap_err());
}

#[test]
fn no_fault_policy_leaves_out_an_image_that_was_replaced() {
    let root = images();
    for faults in [FaultPolicy::Raise, FaultPolicy::Skip { at_most: 2 }] {
        for workers in [0, 2] {
            write(root.path(), 1);
            let config = LoaderConfig::new(1)
                .with_faults(faults.clone())
                .with_workers(Workers::Count(workers));
            let loader = Loader::try_new(open_folder(root.path()), config).unwrap();
            assert!(loader.epoch(0).all(|batch| batch.is_ok()));
            write(root.path(), 9);
            let batches: Vec<_> = loader.epoch(1).collect();
            changed(batches[0].as_ref().unwrap_err());
            assert_eq!(batches.len(), 1, "the first error ends the epoch");
        }
    }
}
