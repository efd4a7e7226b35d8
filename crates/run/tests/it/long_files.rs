//! Files of a run that are longer than any that a run writes.

use std::fs;

use updraft_run::{RunFolder, read_metrics};

use crate::plans::read;

#[test]
#[cfg(unix)]
fn metrics_that_are_too_long_are_refused_unread_with_both_lengths() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = RunFolder::create(dir.path(), &read("").expect("valid")).expect("made");
    let path = folder.path().join("metrics.jsonl");
    // Without blocks on the disk.
    fs::File::create(&path).and_then(|file| file.set_len((4 << 30) + 1)).expect("a sparse file");
    let error = read_metrics(&folder).expect_err("refused");
    assert!(matches!(error, updraft_run::RunError::TooLarge { .. }) && error.is_input(), "{error}");
    let expected = format!(
        "`{}` has 4294967297 bytes; at most 4294967296 are read of such a file: move it away to use \
         the run without its earlier metrics, or restore it from a copy",
        path.display()
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_line_of_metrics_that_is_too_long_is_left_out_and_counted() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = RunFolder::create(dir.path(), &read("").expect("valid")).expect("made");
    let long = vec![b' '; 17 << 20];
    let text = [b"{\"step\":1}\n", &long[..], b"\n{\"step\":2}\n"].concat();
    fs::write(folder.path().join("metrics.jsonl"), text).expect("written");
    let found = read_metrics(&folder).expect("read");
    assert_eq!((found.lines.len(), &found.damaged[..]), (2, &[2][..]));
}
