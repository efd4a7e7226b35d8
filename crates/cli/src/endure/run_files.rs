//! The folder of a run: its files, their sizes, and its plan.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::command::cannot;

/// The only run in a folder.
pub(super) fn only(runs: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(runs).ok()?.flatten().map(|entry| entry.path());
    let mut found = entries.filter(|path| path.join("plan.toml").is_file());
    found.next()
}

/// A partial file or folder that a failed save did not remove.
pub(super) fn unfinished(run: &Path) -> Option<PathBuf> {
    let folders = [run.to_owned(), run.join("checkpoints")];
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let is_unfinished =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "partial" || end == "part");
    entries.map(|entry| entry.path()).find(is_unfinished)
}

/// Sets the number of data-loading threads in a run's plan.
pub(super) fn load_with(run: &Path, workers: i64) -> Result<()> {
    let path = run.join("plan.toml");
    let text = fs::read_to_string(&path).map_err(|cause| cannot("read", &path, cause))?;
    let mut plan: Table = text.parse().context("the plan of a run")?;
    let train = plan.get_mut("train").and_then(Value::as_table_mut).context("a plan trains")?;
    train.insert("workers".to_owned(), Value::Integer(workers));
    fs::write(&path, plan.to_string()).map_err(|cause| cannot("write", &path, cause))
}

pub(super) fn made(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|cause| cannot("create", path, cause))
}

/// Total size of the files in a folder, in bytes.
pub(super) fn size(folder: &Path) -> u64 {
    files(folder).map(|file| file.len()).sum()
}

/// Total size of the files in a folder, each rounded up to whole pages, plus one page per folder.
pub(super) fn pages(folder: &Path) -> u64 {
    files(folder).map(|file| file.len().next_multiple_of(4096).max(4096)).sum()
}

fn files(folder: &Path) -> Box<dyn Iterator<Item = fs::Metadata>> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    Box::new(entries.flat_map(|entry| -> Box<dyn Iterator<Item = fs::Metadata>> {
        match entry.metadata() {
            Ok(data) if data.is_dir() => Box::new(files(&entry.path()).chain([data])),
            Ok(data) => Box::new([data].into_iter()),
            Err(_) => Box::new(std::iter::empty()),
        }
    }))
}
