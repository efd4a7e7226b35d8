//! Refuses a run whose newest checkpoint was lost, instead of using an older one.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use updraft_trainer::{CheckpointError, check_checkpoint, checkpoint_step};

use crate::error::RunError;
use crate::folder::RunFolder;

/// The file with the result of a run.
pub(crate) const SUMMARY: &str = "summary.json";

/// The file that every complete checkpoint has.
pub(crate) const MANIFEST: &str = "manifest.json";

/// The checkpoint that a command uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needed {
    /// The one with the most updates.
    Newest,
    /// The one of the best epoch, by early stopping.
    Served,
}

/// What the summary of a run says about its checkpoints.
#[derive(Debug, Deserialize)]
struct Recorded {
    /// The step of the newest one.
    steps: u64,
    /// The served one.
    checkpoint: PathBuf,
}

/// Returns an error if the needed checkpoint of a run was written and is not among the complete
/// ones, `found`.
///
/// A run writes a checkpoint completely before it gets its name, so a folder of that name without a
/// manifest was damaged later. One whose folder was removed is known by the run's summary.
pub(crate) fn refuse_lost(
    folder: &RunFolder,
    found: &[PathBuf],
    needed: Needed,
) -> Result<(), RunError> {
    let Some(step) = lost(folder, found, needed) else { return Ok(()) };
    if found.is_empty() {
        return Err(RunError::LostCheckpoints { path: folder.path().to_owned(), step });
    }
    let path = folder.checkpoints().join(format!("step-{step:08}")).join(MANIFEST);
    let cause = CheckpointError::NoManifest { path };
    let intact = found.iter().rev().find(|path| check_checkpoint(path).is_ok());
    Err(match intact.and_then(|path| checkpoint_step(path)) {
        Some(step) => RunError::Damaged { cause, step },
        None => RunError::Checkpoint(cause),
    })
}

/// Removes the summary of a run that continues from an earlier step than its last.
pub(crate) fn remove_later_summary(folder: &RunFolder, step: u64) -> Result<(), RunError> {
    match recorded(folder) {
        Some(recorded) if recorded.steps > step => folder.remove(SUMMARY),
        _ => Ok(()),
    }
}

/// The step of the needed checkpoint, if it was lost.
fn lost(folder: &RunFolder, found: &[PathBuf], needed: Needed) -> Option<u64> {
    let newest = found.last().and_then(|path| checkpoint_step(path));
    let recorded = recorded(folder);
    let steps = recorded.as_ref().map(|recorded| recorded.steps);
    let written = incomplete(&folder.checkpoints()).max(steps);
    if written > newest {
        return written;
    }
    // The summary of a run that was continued is not that of its newest checkpoint.
    let recorded = recorded.filter(|_| needed == Needed::Served && steps == newest)?;
    let served = checkpoint_step(&recorded.checkpoint)?;
    let is_there = found.iter().any(|path| checkpoint_step(path) == Some(served));
    (!is_there).then_some(served)
}

/// A run in progress has no summary, and a damaged one is no reason to refuse its checkpoints.
fn recorded(folder: &RunFolder) -> Option<Recorded> {
    folder.read_json(SUMMARY).ok()
}

/// The highest step among the folders that have the name of a checkpoint and no manifest.
fn incomplete(checkpoints: &Path) -> Option<u64> {
    let entries = fs::read_dir(checkpoints).into_iter().flatten().flatten();
    let plain = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    let folders = plain.map(|entry| entry.path()).filter(|path| path.is_dir());
    folders
        .filter(|path| !path.join(MANIFEST).is_file())
        .filter_map(|path| checkpoint_step(&path))
        .max()
}
