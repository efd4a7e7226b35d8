//! Encoders of trained masked autoencoders, for other networks.

use std::path::{Path, PathBuf};

use super::TASKS;
use super::masked_images::MASKED_IMAGES;
use crate::error::RunError;
use crate::folder::RunFolder;

/// The path of the encoder in the parameters of a masked autoencoder.
pub(super) const ENCODER: &str = "encoder";

/// The checkpoint of a run of `masked-images`: its served one, or the path itself if it is a
/// checkpoint.
///
/// # Errors
/// [`RunError::NoRun`] for a path that is neither, [`RunError::Unusable`] for a run of another task.
pub(super) fn checkpoint_of(path: &Path) -> Result<PathBuf, RunError> {
    if path.join("manifest.json").is_file() {
        return Ok(path.to_owned());
    }
    let folder = RunFolder::open(path)?;
    let plan = folder.plan(TASKS)?;
    let task = plan.kind().name();
    if task != MASKED_IMAGES {
        let reason = format!(
            "`model.encoder` is `{}`, a run of `{task}`; it must be one of `{MASKED_IMAGES}`",
            path.display()
        );
        return Err(RunError::Unusable { reason });
    }
    folder.served_checkpoint(&plan)
}
