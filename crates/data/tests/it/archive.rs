//! Tar archives, plain and gzipped, whole and damaged.

use updraft_data::{CacheUse, DataError, ImageFolder, ImageSource, ProgressUnit, TarImages};

use crate::files::{contents, folder, gzip, header, message, tar, two_classes, write};

fn open(bytes: &[u8]) -> Result<TarImages, DataError> {
    let root = tempfile::tempdir().unwrap();
    let path = write(&root, "images.tar", bytes);
    TarImages::open(path, &mut |_| {})
}

#[test]
fn a_folder_its_tar_and_its_gzipped_tar_are_the_same_set() {
    let files = two_classes();
    let root = folder(&files);
    let folder = ImageFolder::open(root.path()).unwrap();
    let archive = tar(&files);
    for bytes in [archive.clone(), gzip(&archive)] {
        let images = open(&bytes).unwrap();
        assert_eq!(images.fingerprint(), folder.fingerprint());
        assert_eq!(images.classes(), folder.classes());
        assert_eq!(contents(&images), contents(&folder));
    }
}

#[test]
fn the_class_is_the_last_folder_and_progress_reaches_the_end() {
    let files: Vec<_> =
        two_classes().into_iter().map(|(n, b)| (format!("./train/{n}"), b)).collect();
    let files: Vec<_> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let root = tempfile::tempdir().unwrap();
    let path = write(&root, "train.tar.gz", &gzip(&tar(&files)));
    let mut last = None;
    let images = TarImages::open(&path, &mut |progress| last = Some(progress)).unwrap();
    assert_eq!(images.classes(), ["cat", "dog"]);
    assert!(images.name(0).ends_with("train.tar.gz:./train/cat/1.jpg"), "{}", images.name(0));
    let last = last.unwrap();
    assert_eq!((last.done, last.unit), (last.total, ProgressUnit::Bytes));
    assert_eq!(last.total, std::fs::metadata(&path).unwrap().len());
}

#[test]
fn an_archive_cut_anywhere_is_an_error() {
    let archive = tar(&two_classes());
    // The end mark is two blocks of zeros; one is enough to know that nothing is missing.
    for cut in (0..archive.len() - 1024).step_by(97).chain([512, 1024, archive.len() - 1024]) {
        let error = open(&archive[..cut]).map(|images| images.len()).unwrap_err();
        let expected = matches!(error, DataError::ArchiveCut { .. } | DataError::Archive { .. });
        assert!(expected, "cut at {cut}: {}", message(&error));
    }
}

#[test]
fn a_gzip_that_is_cut_or_has_a_flipped_bit_is_an_error() {
    let whole = gzip(&tar(&two_classes()));
    assert!(matches!(open(&whole[..whole.len() / 2]), Err(DataError::Inflate { .. })));
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    assert!(matches!(open(&flipped), Err(DataError::Inflate { .. })));
}

#[test]
fn a_gzip_bomb_stops_at_the_limit() {
    let root = tempfile::tempdir().unwrap();
    let path = write(&root, "bomb.tar.gz", &gzip(&vec![0; 8 << 20]));
    let error = TarImages::open_within(&path, 1 << 20, &mut |_| {}).unwrap_err();
    assert!(matches!(error, DataError::InflatedTooLarge { limit: 1_048_576, .. }), "{error}");
}

#[test]
fn names_that_leave_the_archive_are_refused() {
    for name in ["/etc/x.jpg", "../x/1.jpg", "a/../../x/1.jpg", "C:/x/1.jpg", "a\\..\\1.jpg"] {
        let error = open(&tar(&[(name, vec![1])])).unwrap_err();
        assert!(
            matches!(&error, DataError::UnsafePath { entry, .. } if entry == name),
            "{}",
            message(&error)
        );
    }
}

#[test]
fn a_link_a_loose_image_and_an_archive_without_images_are_refused() {
    let mut link = ::tar::Builder::new(Vec::new());
    let mut entry = header("cat/1.jpg", 0);
    entry.set_entry_type(::tar::EntryType::Symlink);
    entry.set_link_name("/etc/passwd").unwrap();
    entry.set_cksum();
    link.append(&entry, std::io::empty()).unwrap();
    let error = open(&link.into_inner().unwrap()).unwrap_err();
    assert!(matches!(error, DataError::SpecialEntry { .. }), "{error}");
    let error = open(&tar(&[("1.jpg", vec![1])])).unwrap_err();
    assert!(matches!(error, DataError::Unclassified { .. }), "{error}");
    let error = open(&tar(&[("cat/notes.txt", vec![1])])).unwrap_err();
    assert!(matches!(error, DataError::NoClasses { .. }), "{error}");
}

#[test]
fn other_formats_in_an_archive_are_counted_and_named_and_hidden_ones_are_nothing() {
    let mut files = two_classes();
    files.extend(["cat/a.webp", "dog/b.gif"].map(|name| (name, vec![1])));
    files.extend(["cat/._1.jpg", "._cat/1.jpg", "__MACOSX/cat/1.jpg"].map(|name| (name, vec![1])));
    let images = open(&tar(&files)).unwrap();
    assert_eq!((images.len(), images.classes().len()), (6, 2));
    let passed_over = images.passed_over();
    assert_eq!(
        (passed_over.count, &*passed_over.first),
        (2, &["cat/a.webp", "dog/b.gif"].map(str::to_owned)[..])
    );
}

#[test]
fn classes_of_an_archive_that_differ_only_in_bytes_that_are_no_utf_8_are_refused() {
    let mut archive = ::tar::Builder::new(Vec::new());
    for byte in [0xFE, 0xFF] {
        let mut entry = header("c?/1.jpg", 1);
        entry.as_mut_bytes()[1] = byte;
        entry.set_cksum();
        archive.append(&entry, &[1][..]).unwrap();
    }
    let error = open(&archive.into_inner().unwrap()).unwrap_err();
    let expected = |path: &std::path::Path| path.ends_with("c\u{fffd}/1.jpg");
    assert!(matches!(&error, DataError::NotUtf8 { path } if expected(path)), "{}", message(&error));
}

#[test]
fn a_file_that_is_no_archive_is_an_error() {
    for bytes in [&b""[..], b"hello", &[7; 2048]] {
        let error = open(bytes).unwrap_err();
        let expected = matches!(error, DataError::ArchiveCut { .. } | DataError::Archive { .. });
        assert!(expected, "{}", message(&error));
    }
}

#[test]
fn a_gzipped_tar_is_inflated_into_a_folder_once_and_never_read_damaged() {
    let root = tempfile::tempdir().unwrap();
    let path = write(&root, "images.tar.gz", &gzip(&tar(&two_classes())));
    let cache = root.path().join("cache/deeper");
    let open = || {
        let mut reports = 0;
        let (images, used) = TarImages::open_cached(&path, &cache, &mut |_| reports += 1).unwrap();
        (contents(&images), used, reports)
    };
    let (expected, used, reports) = open();
    assert_eq!(expected, contents(&TarImages::open(&path, &mut |_| {}).unwrap()));
    assert_eq!(used, CacheUse::Built);
    assert!(reports > 0);
    assert_eq!(open(), (expected.clone(), CacheUse::Reused, 0));
    let files = || -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
        let mut entries: Vec<_> = entries.collect();
        entries.sort();
        entries
    };
    let [ref tar_file, ref seal] = files()[..] else { panic!("{:?}", files()) };
    let mut bytes = std::fs::read(tar_file).unwrap();
    bytes[700] ^= 1;
    std::fs::write(tar_file, &bytes).unwrap();
    let (again, used, _) = open();
    assert_eq!(again, expected);
    let CacheUse::Rebuilt { reason } = used else { panic!("{used:?}") };
    assert!(reason.ends_with("does not fit its checksum"), "{reason}");
    std::fs::remove_file(seal).unwrap();
    assert!(matches!(open().1, CacheUse::Rebuilt { .. }));
    assert_eq!(open().1, CacheUse::Reused);
    assert_eq!(files().len(), 2, "nothing half-written is left");
}

#[test]
fn a_damaged_gzip_leaves_no_cached_tar() {
    let root = tempfile::tempdir().unwrap();
    let mut bytes = gzip(&tar(&two_classes()));
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    let path = write(&root, "images.tar.gz", &bytes);
    let cache = root.path().join("cache");
    let error = TarImages::open_cached(&path, &cache, &mut |_| {}).unwrap_err();
    assert!(matches!(error, DataError::Inflate { .. }), "{error}");
    assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 0);
    let plain = write(&root, "images.tar", &tar(&two_classes()));
    let (_, used) = TarImages::open_cached(plain, &cache, &mut |_| {}).unwrap();
    assert_eq!(used, CacheUse::NotNeeded);
}
