//! Image manifests that list an image more than once.

use std::path::Path;

use tempfile::TempDir;
use updraft_data::{DataError, Delimiter, ImageFolder, ImageSource, TableError};

use crate::files::{folder, jpeg, message, write};

/// The error of a manifest with these rows of path and class.
fn refused(root: &TempDir, rows: &str) -> String {
    let path = write(root, "list.csv", format!("image,kind\n{rows}").as_bytes());
    let error = ImageFolder::from_manifest(&path, Delimiter::Comma, "image", "kind").unwrap_err();
    assert!(matches!(&error, DataError::Table(TableError::RepeatedFile { .. })), "{error}");
    without_folder(root, &error)
}

fn without_folder(root: &TempDir, error: &DataError) -> String {
    message(error).replace(&format!("{}/", root.path().display()), "")
}

#[test]
fn an_image_on_two_lines_is_refused_with_both() {
    let root = folder(&[("a.jpg", jpeg(1)), ("b.jpg", jpeg(2)), ("more/c.jpg", jpeg(3))]);
    assert_eq!(
        refused(&root, "a.jpg,cat\nb.jpg,dog\na.jpg,cat\n"),
        "lines 2 and 4 of `list.csv` list the same file, `a.jpg`; list it once: in one class, and \
         for training or for testing"
    );
    // In another class, and by other paths.
    for rows in
        ["a.jpg,cat\na.jpg,dog\n", "a.jpg,cat\n./a.jpg,cat\n", "a.jpg,cat\nmore/../a.jpg,dog\n"]
    {
        let error = refused(&root, rows);
        assert!(error.starts_with("lines 2 and 3 of `list.csv` list the same file"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_a_listed_image_is_refused() {
    let root = folder(&[("a.jpg", jpeg(1))]);
    std::os::unix::fs::symlink(root.path().join("a.jpg"), root.path().join("link.jpg")).unwrap();
    let error = refused(&root, "a.jpg,cat\nlink.jpg,dog\n");
    assert!(
        error.contains("lines 2 and 3 of `list.csv` list the same file, `link.jpg`"),
        "{error}"
    );
}

#[test]
fn two_manifests_have_no_image_in_common() {
    let root = folder(&[("a.jpg", jpeg(1)), ("b.jpg", jpeg(2)), ("c.jpg", jpeg(3))]);
    let train = write(&root, "train.csv", b"image,kind\na.jpg,cat\nb.jpg,dog\n");
    let open = |name: &str, text: &str| {
        let test = write(&root, name, text.as_bytes());
        let manifests: [&Path; 2] = [&train, &test];
        ImageFolder::pair_from_manifests(manifests, "image", "kind")
    };
    let [first, second] = open("test.tsv", "image\tkind\nc.jpg\tcat\n").unwrap();
    assert_eq!((first.len(), second.len()), (2, 1));
    let error = open("test.csv", "image,kind\nc.jpg,cat\n./b.jpg,dog\n").unwrap_err();
    assert_eq!(
        without_folder(&root, &error),
        "line 3 of `train.csv` and line 3 of `test.csv` list the same file, `./b.jpg`; list it \
         once: in one class, and for training or for testing"
    );
}
