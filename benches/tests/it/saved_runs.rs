//! The index of the saved runs lists each of them, and one per processor and subject.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_saved_run_has_one_row_and_no_other_run_has_its_subject() {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs");
    let index = fs::read_to_string(runs.join("README.md")).unwrap();
    let rows: Vec<Vec<&str>> = index
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains("run.json"))
        .map(|line| line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect())
        .collect();
    let subjects: BTreeSet<_> = rows.iter().map(|row| (row[0], row[2])).collect();
    assert_eq!(subjects.len(), rows.len(), "two runs of one processor and subject");
    let listed: BTreeSet<String> = rows
        .iter()
        .map(|row| row[3].split_once("](").unwrap().1.split('/').next().unwrap().to_owned())
        .collect();
    let saved: BTreeSet<String> = fs::read_dir(&runs)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert!(saved.len() > 20, "{saved:?}");
    assert_eq!(listed, saved);
}
