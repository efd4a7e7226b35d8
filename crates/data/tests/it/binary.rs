//! IDX, CIFAR's binary form and manifests, whole and damaged.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use updraft_data::{
    CifarFiles, CifarLabels, CifarPart, DataError, Delimiter, FormatError, IdxArray, ImageFolder,
    ImageSource, InMemoryTensors, Loader, Order, StreamConfig, TargetBatch, Targets, Workers,
    read_cifar,
};

use crate::files::{contents, folder, gzip, jpeg, message, tar, two_classes, write};

fn idx(shape: &[u32], body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, shape.len() as u8];
    bytes.extend(shape.iter().flat_map(|length| length.to_be_bytes()));
    bytes.extend(body);
    bytes
}

#[test]
fn an_idx_pair_becomes_batches_for_any_number_of_workers() {
    let root = tempfile::tempdir().unwrap();
    let body: Vec<u8> = (0..50_u32 * 6).map(|at| (at * 7 % 256) as u8).collect();
    let images = write(&root, "images", &gzip(&idx(&[50, 2, 3], &body)));
    let labels: Vec<u8> = (0..50).map(|at| at % 10).collect();
    let labels = write(&root, "labels", &idx(&[50], &labels));
    let read = |path: &Path| IdxArray::read(path).unwrap();
    let open = |workers| {
        let samples = InMemoryTensors::from_idx(read(&images), read(&labels), 10, &images)
            .and_then(|samples| samples.with_normalization(0.5, 0.25))
            .unwrap();
        assert_eq!(samples.sample_shape(), [2, 3]);
        let config = StreamConfig::new(8)
            .with_order(Order::Shuffled)
            .with_seed(3)
            .with_workers(Workers::Count(workers));
        Loader::collating(samples, config).unwrap()
    };
    let expected: Vec<_> = open(0).epoch(1).map(Result::unwrap).collect();
    for batch in &expected {
        let TargetBatch::Classes(classes) = batch.targets() else { panic!() };
        for (at, &index) in batch.indices().iter().enumerate() {
            assert_eq!(classes[at], index % 10);
            for (value, &byte) in batch.values()[6 * at..][..6].iter().zip(&body[6 * index..]) {
                let exact = (f64::from(byte) / 255.0 - 0.5) / 0.25;
                assert!((f64::from(*value) - exact).abs() < 1e-6);
            }
        }
    }
    for workers in [1, 2, 8] {
        let batches: Vec<_> = open(workers).epoch(1).map(Result::unwrap).collect();
        assert_eq!(batches, expected, "{workers} workers");
    }
}

#[test]
fn idx_files_that_do_not_belong_together_are_refused() {
    let array = |shape: &[u32], body: &[u8]| IdxArray::parse(&idx(shape, body)).unwrap();
    let images = array(&[2, 2], &[1, 2, 3, 4]);
    let fault = |labels| match InMemoryTensors::from_idx(images.clone(), labels, 3, "pair") {
        Err(DataError::Format { cause, .. }) => cause,
        other => panic!("{other:?}"),
    };
    let three = fault(array(&[3], &[0, 1, 2]));
    assert_eq!(three, FormatError::LabelCount { samples: 2, labels: 3 });
    let fourth = fault(array(&[2], &[2, 3]));
    assert_eq!(fourth, FormatError::Label { record: 1, label: 3, classes: 3 });
    let floats = IdxArray::parse(&[0, 0, 0x0D, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    assert!(matches!(fault(floats), FormatError::Values { got: "32-bit floating point", .. }));
    let error = InMemoryTensors::from_floats(2, &[3], vec![0.0; 5], Targets::None).unwrap_err();
    assert_eq!(error.to_string(), "2 samples of shape [3] have 6 values, got 5");
}

#[test]
fn a_damaged_idx_file_is_named() {
    let root = tempfile::tempdir().unwrap();
    let cut = write(&root, "cut", &idx(&[60_000, 28, 28], &[0; 100]));
    let text = message(&IdxArray::read(&cut).unwrap_err());
    assert!(text.ends_with("download it again: expected 47040016 bytes, got 116"), "{text}");
    let mut flipped = gzip(&idx(&[4], &[1, 2, 3, 4]));
    let middle = flipped.len() / 2;
    flipped[middle] ^= 16;
    let flipped = write(&root, "flipped", &flipped);
    assert!(matches!(IdxArray::read(&flipped), Err(DataError::Inflate { .. })));
    assert!(matches!(IdxArray::read(root.path().join("no")), Err(DataError::Open { .. })));
}

/// A folder as CIFAR-10's binary version unpacks, with two images in each file.
fn cifar10() -> TempDir {
    let names = "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";
    let mut files = vec![("batches.meta.txt".to_owned(), names.as_bytes().to_vec())];
    for at in 0..6_u8 {
        let mut bytes = Vec::new();
        for label in [at, 9] {
            bytes.push(label);
            bytes.extend((0..3072).map(|place| (place / 1024 * 50) as u8 + at));
        }
        let name =
            if at == 5 { "test_batch.bin".into() } else { format!("data_batch_{}.bin", at + 1) };
        files.push((name, bytes));
    }
    let files: Vec<_> = files.iter().map(|(name, bytes)| (&**name, bytes.clone())).collect();
    folder(&files)
}

#[test]
fn cifar10_is_read_in_the_order_of_its_files() {
    let root = cifar10();
    let train = read_cifar(root.path(), CifarLabels::Ten, CifarPart::Train).unwrap();
    assert_eq!(train.len(), 10);
    assert_eq!(train.label(4), 2);
    assert_eq!(train.classes()[9], "truck");
    assert_eq!(train.read(8).unwrap().pixels()[..3], [4, 54, 104]);
    assert!(train.name(9).ends_with("data_batch_5.bin:1"), "{}", train.name(9));
    let test = read_cifar(root.path(), CifarLabels::Ten, CifarPart::Test).unwrap();
    assert_eq!((test.len(), test.label(0)), (2, 5));
}

/// A folder as CIFAR-100's binary version unpacks, with three images in each file.
fn cifar100() -> Vec<(&'static str, Vec<u8>)> {
    let names = |count: usize, kind: &str| -> Vec<u8> {
        (0..count).flat_map(|at| format!("{kind}-{at}\n").into_bytes()).collect()
    };
    let records = |first: u8| -> Vec<u8> {
        let record = |at: u8| [vec![at % 20, 99 - at], vec![at; 3072]].concat();
        (first..first + 3).flat_map(record).collect()
    };
    vec![
        ("coarse_label_names.txt", names(20, "group")),
        ("fine_label_names.txt", names(100, "class")),
        ("train.bin", records(18)),
        ("test.bin", records(40)),
    ]
}

#[test]
fn cifar100_has_both_labels_in_a_folder_and_in_its_archive() {
    let files = cifar100();
    let unpacked = folder(&files);
    let inside: Vec<(String, Vec<u8>)> =
        files.iter().map(|(name, bytes)| (format!("cifar-100/{name}"), bytes.clone())).collect();
    let inside: Vec<_> = inside.iter().map(|(name, bytes)| (&**name, bytes.clone())).collect();
    let root = tempfile::tempdir().unwrap();
    let plain = write(&root, "plain.tar", &tar(&inside));
    let zipped = write(&root, "cifar.tar.gz", &gzip(&tar(&inside)));
    for path in [unpacked.path(), &plain, &zipped] {
        let files = CifarFiles::open(path, &mut |_| {}).unwrap();
        let fine = files.images(CifarLabels::Fine, CifarPart::Train).unwrap();
        let labels: Vec<usize> = (0..3).map(|index| fine.label(index)).collect();
        assert_eq!((labels, fine.classes().len()), (vec![81, 80, 79], 100));
        assert_eq!((fine.classes()[81].as_str(), fine.size()), ("class-81", (32, 32)));
        assert_eq!(fine.read(1).unwrap().pixels()[..3], [19; 3]);
        let coarse = files.images(CifarLabels::Coarse, CifarPart::Train).unwrap();
        let labels: Vec<usize> = (0..3).map(|index| coarse.label(index)).collect();
        assert_eq!((labels, coarse.classes()[19].as_str()), (vec![18, 19, 0], "group-19"));
        let test = files.images(CifarLabels::Fine, CifarPart::Test).unwrap();
        assert_eq!((test.len(), test.label(0)), (3, 59));
        assert!(test.name(2).ends_with("test.bin:2"), "{}", test.name(2));
    }
}

#[test]
fn a_damaged_cifar_archive_is_reported() {
    let mut files = cifar100();
    let root = tempfile::tempdir().unwrap();
    let open = |name: &str, bytes: &[u8]| {
        let path = write(&root, name, bytes);
        read_cifar(path, CifarLabels::Fine, CifarPart::Train).unwrap_err()
    };
    let whole = tar(&files);
    for cut in [300, 2000, whole.len() - 4000] {
        let text = message(&open("cut.tar", &whole[..cut]));
        assert!(text.contains("cut.tar"), "{cut}: {text}");
    }
    let mut flipped = gzip(&whole);
    let middle = flipped.len() / 2;
    flipped[middle] ^= 16;
    assert!(matches!(open("flipped.tar.gz", &flipped), DataError::Inflate { .. }));
    files[2].1[1] = 100;
    let text = message(&open("label.tar", &tar(&files)));
    assert!(text.ends_with("record 0 has label 100; there are 100 classes"), "{text}");
    files.remove(2);
    assert!(
        message(&open("few.tar", &tar(&files))).contains("few.tar/train.bin` cannot be opened")
    );
    let gone = read_cifar(root.path().join("gone"), CifarLabels::Fine, CifarPart::Train);
    assert!(matches!(gone, Err(DataError::Open { .. })));
}

#[test]
fn a_damaged_cifar_folder_is_reported() {
    let root = cifar10();
    let read =
        || message(&read_cifar(root.path(), CifarLabels::Ten, CifarPart::Train).unwrap_err());
    let third = root.path().join("data_batch_3.bin");
    fs::write(&third, vec![200; 3073]).unwrap();
    let text = read();
    assert!(text.contains("data_batch_3.bin` is damaged"), "{text}");
    assert!(text.ends_with("record 0 has label 200; there are 10 classes"), "{text}");
    fs::write(&third, vec![0; 3000]).unwrap();
    assert!(read().ends_with("expected a multiple of 3073 bytes and at least one, got 3000 bytes"));
    fs::remove_file(&third).unwrap();
    assert!(read().contains("data_batch_3.bin` cannot be opened"));
    fs::write(root.path().join("batches.meta.txt"), "cat\ndog\n").unwrap();
    assert!(read().ends_with("expected 10 class names, one a line, got 2"));
}

#[test]
fn a_manifest_lists_the_set_that_its_folder_is() {
    let files = two_classes();
    let root = folder(&files);
    let mut rows: Vec<String> =
        files.iter().map(|(name, _)| format!("{name},{},note", &name[..3])).collect();
    rows.sort();
    let text = format!("image,kind,remark\n{}\n", rows.join("\n"));
    let path = write(&root, "list.csv", text.as_bytes());
    let listed = ImageFolder::from_manifest(&path, Delimiter::Comma, "image", "kind").unwrap();
    assert_eq!(listed.classes(), ["cat", "dog"]);
    let direct = ImageFolder::open(root.path()).unwrap();
    assert_eq!(contents(&listed), contents(&direct));
    fs::write(root.path().join("other.jpg"), jpeg(3)).unwrap();
    let longer = write(&root, "more.csv", format!("{text}other.jpg,cat,\n").as_bytes());
    let longer = ImageFolder::from_manifest(longer, Delimiter::Comma, "image", "kind").unwrap();
    assert_ne!(longer.fingerprint(), listed.fingerprint());
}

#[test]
fn a_manifest_error_names_what_is_missing() {
    let root = folder(&[("a.jpg", jpeg(1))]);
    let open = |text: &str| {
        let path = write(&root, "list.tsv", text.as_bytes());
        ImageFolder::from_manifest(&path, Delimiter::of(&path), "image", "kind").unwrap_err()
    };
    assert!(
        message(&open("image\tclass\na.jpg\tx\n")).contains("has no column `kind`; it has `image`")
    );
    assert!(message(&open("image\tkind\nb.jpg\tx\n")).contains("b.jpg` cannot be opened"));
    assert!(matches!(open("image\tkind\n"), DataError::Empty));
    assert!(
        message(&open("image\tkind\na.jpg\n"))
            .contains("line 2 has 1 field; the header has 2: add the missing fields")
    );
}
