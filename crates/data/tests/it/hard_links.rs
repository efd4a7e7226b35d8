//! Files that have two names, of which one would be trained on and the other tested.

use std::fs;
use std::path::Path;

use updraft_data::{Delimiter, ImageFolder, VolumeManifest};

use crate::files::{folder, jpeg, message, two_classes, write};

#[test]
fn a_hard_link_to_a_listed_image_is_refused() {
    let root = folder(&[("a.jpg", jpeg(1)), ("b.jpg", jpeg(2))]);
    fs::hard_link(root.path().join("a.jpg"), root.path().join("hard.jpg")).unwrap();
    let list = write(&root, "list.csv", b"image,kind\na.jpg,cat\nhard.jpg,dog\n");
    let error = ImageFolder::from_manifest(&list, Delimiter::Comma, "image", "kind").unwrap_err();
    let shown = message(&error);
    assert!(shown.starts_with("lines 2 and 3 of `"), "{shown}");
    assert!(shown.contains("list the same file"), "{shown}");

    let train = write(&root, "train.csv", b"image,kind\na.jpg,cat\nb.jpg,dog\n");
    let test = write(&root, "test.csv", b"image,kind\nhard.jpg,cat\n");
    let manifests: [&Path; 2] = [&train, &test];
    let error = ImageFolder::pair_from_manifests(manifests, "image", "kind").unwrap_err();
    let shown = message(&error);
    assert!(shown.contains("hard.jpg`; list it once"), "{shown}");
}

#[test]
fn class_folders_have_no_image_in_common_under_any_name() {
    let (train, test) = (folder(&two_classes()), folder(&[("cat/9.jpg", jpeg(90))]));
    let open = |root: &Path| ImageFolder::open(root).unwrap();
    open(train.path()).check_apart(&open(test.path())).unwrap();
    open(train.path()).check_no_repeats().unwrap();

    fs::hard_link(train.path().join("cat/1.jpg"), train.path().join("dog/4.jpg")).unwrap();
    let error = open(train.path()).check_no_repeats().unwrap_err();
    let shown = message(&error);
    assert!(shown.contains("cat/1.jpg` and `") && shown.contains("dog/4.jpg`"), "{shown}");
    assert!(shown.contains("what is learned from must not be tested"), "{shown}");
    // What is only learned from may be there twice.
    open(train.path()).check_apart(&open(test.path())).unwrap();

    let link = test.path().join("cat/10.jpg");
    for is_hard in [false, true] {
        let original = train.path().join("cat/2.jpg");
        match is_hard {
            true => fs::hard_link(original, &link).unwrap(),
            false => std::os::unix::fs::symlink(original, &link).unwrap(),
        }
        let error = open(train.path()).check_apart(&open(test.path())).unwrap_err();
        let shown = message(&error);
        assert!(shown.contains("cat/2.jpg` and `") && shown.contains("cat/10.jpg`"), "{shown}");
        fs::remove_file(&link).unwrap();
    }
}

#[test]
fn a_volume_under_two_names_is_neither_in_two_splits_nor_twice_in_one() {
    let root = folder(&[("a.tif", vec![1]), ("b.tif", vec![2])]);
    fs::hard_link(root.path().join("a.tif"), root.path().join("hard.tif")).unwrap();
    let list = write(&root, "list.csv", b"split,input\ntrain,a.tif\ntest,hard.tif\n");
    let shown = VolumeManifest::open(&list, Delimiter::Comma).unwrap_err().to_string();
    let expected = "hard.tif` is in split `train` on line 2 and `test` on line 3";
    assert!(shown.contains(expected), "{shown}");

    let list = write(&root, "list.csv", b"input\na.tif\nb.tif\nhard.tif\n");
    let shown = VolumeManifest::open(&list, Delimiter::Comma).unwrap_err().to_string();
    assert!(shown.contains("line 4") && shown.contains("the volume of line 2"), "{shown}");
}
