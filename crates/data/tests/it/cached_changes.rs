//! Cache files of images and samples whose files were replaced.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use updraft_data::{
    CacheUse, Delimiter, FileImages, FileSample, FileSamples, FileTarget, ImageFolder, ImageSource,
    Relabeled, Resized, SampleFiles, SampleSource, Subset, TarImages,
};

use crate::files::{encode, folder, picture, tar};

/// Replaces a file by one of the same length that is an hour older or newer.
fn replace(path: &Path, bytes: &[u8], time: SystemTime) {
    assert_eq!(fs::metadata(path).unwrap().len(), bytes.len() as u64);
    fs::write(path, bytes).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// An image without compression: equal sizes have equal lengths.
fn tiff(number: u8) -> Vec<u8> {
    encode(&picture(number, 4, 6), image::ImageFormat::Tiff)
}

const CHANGED: &str = "was made before a file of its source was changed";

/// Opens the cache of an image twice, and checks whether the first time made it, for a reason.
fn pixels(source: &dyn ImageSource, cache: &Path, expected: &CacheUse) -> Vec<u8> {
    let open = || FileImages::open(source, None, cache, 1, &mut |_| {}).unwrap();
    let (images, used) = open();
    match (&used, expected) {
        (CacheUse::Rebuilt { reason }, CacheUse::Rebuilt { .. }) => {
            assert!(reason.ends_with(CHANGED), "{reason}");
        }
        _ => assert_eq!(&used, expected),
    }
    assert_eq!(open().1, CacheUse::Reused);
    assert_eq!(images.fingerprint(), source.fingerprint());
    images.read(0).unwrap().into_pixels()
}

type Open<'a> = Box<dyn Fn() -> Arc<dyn ImageSource> + 'a>;

fn source(images: impl ImageSource + 'static) -> Arc<dyn ImageSource> {
    Arc::new(images)
}

#[test]
fn a_cache_file_is_made_again_when_an_image_was_replaced_by_one_of_the_same_length() {
    let names = ["a/1.tif", "b/1.tif"];
    let root = folder(&[(names[0], tiff(1)), (names[1], tiff(2))]);
    let manifest = root.path().join("images.csv");
    fs::write(&manifest, "path,class\na/1.tif,a\nb/1.tif,b\n").unwrap();
    let archive = root.path().join("images.tar");
    let archived = |first: u8| tar(&[(names[0], tiff(first)), (names[1], tiff(2))]);
    fs::write(&archive, archived(1)).unwrap();
    let classes = ["a".to_owned(), "b".to_owned()];
    let images = || source(ImageFolder::open(root.path()).unwrap());
    let listed = || ImageFolder::from_manifest(&manifest, Delimiter::Comma, "path", "class");
    let kinds: [(&str, Open<'_>); 6] = [
        ("folder", Box::new(images)),
        ("manifest", Box::new(|| source(listed().unwrap()))),
        ("archive", Box::new(|| source(TarImages::open(&archive, &mut |_| {}).unwrap()))),
        ("resized", Box::new(|| source(Resized::try_new(images(), 4, 6).unwrap()))),
        ("subset", Box::new(|| source(Subset::try_new(images(), vec![0]).unwrap()))),
        ("relabeled", Box::new(|| source(Relabeled::try_new(images(), &classes).unwrap()))),
    ];
    let now = SystemTime::now();
    let rebuilt = CacheUse::Rebuilt { reason: String::new() };
    let caches = tempfile::tempdir().unwrap();
    for (hours, expected) in [(0, &CacheUse::Built), (1, &rebuilt), (2, &rebuilt)] {
        // The last one is older than the one before.
        let time = now + Duration::from_secs([0, 3600, 1800][hours]);
        replace(&root.path().join(names[0]), &tiff(10 + hours as u8), time);
        replace(&archive, &archived(10 + hours as u8), time);
        for (kind, open) in &kinds {
            let images = open();
            let found = pixels(&*images, &caches.path().join(kind), expected);
            let own = images.read(0).unwrap().into_pixels();
            assert_eq!((found[0], found), (10 + hours as u8, own), "{kind}");
        }
    }
    // The set is the same for a run that continues on another machine.
    let before = images().fingerprint();
    replace(&root.path().join(names[0]), &tiff(20), now + Duration::from_secs(9000));
    assert_eq!(images().fingerprint(), before);
}

#[test]
fn a_cache_file_of_samples_is_made_again_when_a_file_was_replaced() {
    let root = folder(&[("a.tif", tiff(1)), ("mask.tif", tiff(2))]);
    let path = |name: &str| root.path().join(name);
    let open = || {
        let target = FileTarget::Image(vec![path("mask.tif")]);
        SampleFiles::try_new(vec![FileSample { inputs: vec![path("a.tif")], target }]).unwrap()
    };
    let cached = || FileSamples::open(&open(), path("cache"), 1, &mut |_| {}).unwrap();
    assert_eq!(cached().1, CacheUse::Built);
    assert_eq!(cached().1, CacheUse::Reused);
    for (file, at) in [("a.tif", 1), ("mask.tif", 2)] {
        replace(&path(file), &tiff(7), SystemTime::now() + Duration::from_secs(3600 * at));
        let (samples, used) = cached();
        let CacheUse::Rebuilt { reason } = used else { panic!("{used:?}") };
        assert!(reason.ends_with(CHANGED), "{reason}");
        assert_eq!(samples.read(0).unwrap(), open().read(0).unwrap());
        assert_eq!(cached().1, CacheUse::Reused);
    }
}

/// A copy that keeps the time of modification, moved over the file, and one written in place.
#[test]
#[cfg(unix)]
fn a_replacement_of_the_same_length_and_time_of_modification_is_noticed() {
    let root = folder(&[("a/1.tif", tiff(1)), ("b/1.tif", tiff(2))]);
    let path = root.path().join("a/1.tif");
    let caches = tempfile::tempdir().unwrap();
    let cache = caches.path().join("images");
    let found =
        |expected: &CacheUse| pixels(&ImageFolder::open(root.path()).unwrap(), &cache, expected)[0];
    let rebuilt = CacheUse::Rebuilt { reason: String::new() };
    assert_eq!(found(&CacheUse::Built), 1);
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let other = caches.path().join("other.tif");
    fs::write(&other, tiff(7)).unwrap();
    File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
    fs::rename(&other, &path).unwrap();
    assert_eq!(found(&rebuilt), 7);
    // The time of a change is that of the system's clock tick.
    std::thread::sleep(Duration::from_millis(30));
    replace(&path, &tiff(8), time);
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), time);
    assert_eq!(found(&rebuilt), 8);
}
