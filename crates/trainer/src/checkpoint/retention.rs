//! Listing checkpoints, finding the best, and deleting old ones.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::{CheckpointError, fault};
use super::files::MANIFEST;
use super::load::state;
use crate::comparison::EpochScore;
use crate::criterion::Criterion;

/// Suffix of a folder that is being replaced.
pub(super) const REPLACED: &str = "replaced";

/// Suffix of a folder that is being written.
pub(super) const PARTIAL: &str = "partial";

/// Prefix of a checkpoint that was set aside.
const SET_ASIDE: &str = "set-aside-";

/// Suffix of a folder that is being deleted.
const DELETED: &str = "deleted";

/// How many checkpoints are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    /// The newest.
    pub last: usize,
    /// The number of best ones by each metric, among those at the end of an epoch.
    pub best: Vec<(Criterion, usize)>,
}

/// The complete checkpoints under `folder`, oldest first; empty if the folder does not exist.
///
/// # Errors
/// [`CheckpointError::Io`] when the folder cannot be listed.
pub fn list(folder: &Path) -> Result<Vec<PathBuf>, CheckpointError> {
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    for path in entries(folder)? {
        let Some((name, step)) = named(&path) else { continue };
        // A save that was killed while replacing a checkpoint leaves the old one under this name.
        let is_replaced = path.file_name().is_some_and(|own| own != name);
        if !(is_replaced && folder.join(name).exists()) && path.join(MANIFEST).is_file() {
            found.push((step, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The step of a checkpoint, by its name; `None` for another path.
#[must_use]
pub fn step(path: &Path) -> Option<u64> {
    named(path).map(|(_, step)| step)
}

/// The name of a checkpoint, also of one that is about to be replaced, and its step.
fn named(path: &Path) -> Option<(&str, u64)> {
    let name = path.file_name()?.to_str()?;
    let replaced =
        name.strip_prefix('.').and_then(|name| name.strip_suffix(REPLACED)?.strip_suffix('.'));
    let name = replaced.unwrap_or(name);
    Some((name, name.strip_prefix("step-")?.parse().ok()?))
}

/// Renames the checkpoints of later steps to `set-aside-step-…`, damaged ones included, so that
/// they are no longer listed; returns how many.
///
/// # Errors
/// [`CheckpointError::Io`] when the folder cannot be listed or one cannot be renamed.
pub fn set_aside(folder: &Path, after: u64) -> Result<usize, CheckpointError> {
    let mut count = 0;
    for path in entries(folder)? {
        let is_later = path.is_dir() && step(&path).is_some_and(|step| step > after);
        let name = path.file_name().and_then(OsStr::to_str).filter(|_| is_later);
        let Some(name) = name else { continue };
        let place = folder.join(format!("{SET_ASIDE}{}", name.trim_start_matches('.')));
        if place.exists() {
            fs::remove_dir_all(&place).map_err(|source| fault("delete", &place, source))?;
        }
        fs::rename(&path, &place).map_err(|source| fault("rename", &path, source))?;
        count += 1;
    }
    Ok(count)
}

/// The checkpoint under `folder` with the best value of a metric; the older of two equal ones.
///
/// A checkpoint that ends an epoch stores the values of the metrics of early stopping and of
/// [`CheckpointSettings::keep_best`](crate::CheckpointSettings::keep_best); no other metric has one.
///
/// # Errors
/// [`CheckpointError`] when the folder or a checkpoint's state cannot be read.
pub fn best(folder: &Path, metric: &Criterion) -> Result<Option<PathBuf>, CheckpointError> {
    Ok(ranked(&list(folder)?, metric)?.into_iter().next())
}

/// Deletes all but the newest and the best checkpoints under `folder`, and remains of interrupted
/// operations.
///
/// If the best are kept, an old one whose state cannot be read is kept as well, because it may be
/// the best.
///
/// # Errors
/// [`CheckpointError`] when the folder cannot be listed or a checkpoint cannot be deleted.
pub fn prune(folder: &Path, keep: &Keep) -> Result<(), CheckpointError> {
    remove_remains(folder)?;
    let found = list(folder)?;
    let old = &found[..found.len().saturating_sub(keep.last)];
    if old.is_empty() {
        return Ok(());
    }
    let mut kept = Vec::new();
    if !keep.best.is_empty() {
        let (readable, damaged): (Vec<_>, Vec<_>) =
            found.iter().cloned().partition(|path| state(path).is_ok());
        for (metric, count) in &keep.best {
            kept.extend(ranked(&readable, metric)?.into_iter().take(*count));
        }
        kept.extend(damaged);
    }
    for path in old.iter().filter(|path| !kept.contains(path)) {
        discard(path)?;
    }
    Ok(())
}

/// Deletes what interrupted saves and deletions left under `folder`; complete checkpoints stay.
///
/// # Errors
/// [`CheckpointError::Io`] when the folder cannot be listed or something cannot be deleted.
pub fn remove_remains(folder: &Path) -> Result<(), CheckpointError> {
    for path in entries(folder)? {
        let is_hidden =
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_left =
            is_hidden && path.extension().is_some_and(|end| end == DELETED || end == PARTIAL);
        if is_left {
            fs::remove_dir_all(&path).map_err(|source| fault("delete", &path, source))?;
        }
    }
    Ok(())
}

/// Deletes a checkpoint, if it exists; no incomplete one ever has its name.
pub(super) fn discard(path: &Path) -> Result<(), CheckpointError> {
    if !path.exists() {
        return Ok(());
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let folder = path.parent().unwrap_or(Path::new(""));
    let deleted = hidden(folder, name.trim_start_matches('.'), DELETED);
    if deleted.exists() {
        fs::remove_dir_all(&deleted).map_err(|source| fault("delete", &deleted, source))?;
    }
    fs::rename(path, &deleted).map_err(|source| fault("rename", path, source))?;
    fs::remove_dir_all(&deleted).map_err(|source| fault("delete", &deleted, source))
}

/// An unused name in `folder`.
pub(super) fn hidden(folder: &Path, name: &str, ending: &str) -> PathBuf {
    folder.join(format!(".{name}.{ending}"))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, CheckpointError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).map_err(|source| fault("list", folder, source))?;
    entries
        .map(|entry| {
            entry.map(|entry| entry.path()).map_err(|source| fault("list", folder, source))
        })
        .collect()
}

/// Those that end an epoch and have a value of the metric, best first.
fn ranked(found: &[PathBuf], metric: &Criterion) -> Result<Vec<PathBuf>, CheckpointError> {
    let mut scored = Vec::new();
    for path in found {
        let scores = state(path)?.scores.into_iter();
        let is_of = |score: &EpochScore| score.of.criterion == *metric && !score.value().is_nan();
        scored.extend(scores.filter(is_of).map(|score| (score, path)));
    }
    // Stable: of two equal ones the older stays first.
    scored.sort_by(|(a, _), (b, _)| {
        a.of.direction.gain(a.value(), b.value()).total_cmp(&0.0).reverse()
    });
    Ok(scored.into_iter().map(|(_, path)| path.clone()).collect())
}
