//! Reading a checkpoint.

use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::store::ModuleRecord;
use burn::tensor::Bytes;

use super::error::CheckpointError;
use super::files::{AVERAGE, MODEL, Manifest, OPTIMIZER, SERVED, SLOW, STATE};
use super::kinds::check_kinds;
use super::optimizer::{require_state, restored};
use super::state::{RunState, StoredState, check_numbers};

/// The content of a checkpoint that a run resumes from.
pub struct Loaded<M> {
    /// The model after the last update.
    pub model: M,
    /// The optimizer with its state.
    pub optimizer: ModuleOptimizer,
    /// The state of the run.
    pub state: RunState,
    /// The average of the parameters, on the device without autodiff, if one was kept.
    pub average: Option<M>,
    /// The slow weights of a lookahead, on the device without autodiff, if there were any.
    pub slow: Option<M>,
}

impl<M> std::fmt::Debug for Loaded<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Reads the served model of a checkpoint into `model`.
///
/// This is the one with recomputed batch norms if they were recomputed, otherwise the average of
/// the parameters if one is kept, otherwise the model after the last update.
///
/// # Errors
/// [`CheckpointError`]; nothing is changed then.
pub fn load_model<M: Module>(path: &Path, model: M) -> Result<M, CheckpointError> {
    let manifest = Manifest::read(path)?;
    read_model(path, &manifest, served_name(&manifest), model)
}

/// The file of the served model: with recomputed batch norms, or the average, or the last update.
fn served_name(manifest: &Manifest) -> &'static str {
    let served = [SERVED, AVERAGE].into_iter().find(|name| manifest.holds(name));
    served.unwrap_or(MODEL)
}

/// The path and the bytes of the served model.
pub(super) fn served(path: &Path) -> Result<(PathBuf, Vec<u8>), CheckpointError> {
    let manifest = Manifest::read(path)?;
    let name = served_name(&manifest);
    Ok((path.join(name), manifest.read_file(path, name)?))
}

/// Reads the file of the served model of a checkpoint and compares it with its hash: what
/// [`load_model`] and [`load_part`](crate::load_part) would refuse as damaged.
///
/// # Errors
/// [`CheckpointError`] for a file that is missing or damaged.
pub fn check_served(path: &Path) -> Result<(), CheckpointError> {
    served(path).map(drop)
}

/// Reads everything that a run resumes from.
///
/// # Errors
/// [`CheckpointError`]; nothing is changed then.
pub fn load<M: Module>(
    path: &Path,
    model: M,
    optimizer: ModuleOptimizer,
) -> Result<Loaded<M>, CheckpointError> {
    let manifest = Manifest::read(path)?;
    let StoredState { run: state, without_optimizer_state } = stored_state(path)?;
    let saved = manifest.read_file(path, OPTIMIZER)?;
    let optimizer = restored(path, optimizer, saved.clone(), manifest.read_file(path, MODEL)?)?;
    let beside = |name| match manifest.holds(name) {
        // `valid` copies the statistics; a clone would share the live model's.
        true => read_model(path, &manifest, name, model.valid()).map(Some),
        false => Ok(None),
    };
    let (average, slow) = (beside(AVERAGE)?, beside(SLOW)?);
    let model = read_model(path, &manifest, MODEL, model)?;
    require_state(path, &model, saved, &without_optimizer_state)?;
    Ok(Loaded { model, optimizer, state, average, slow })
}

/// Reads every file of a checkpoint, compares it with its hash, and returns the state of the
/// run.
///
/// # Errors
/// [`CheckpointError`] about the first file that differs.
pub fn check(path: &Path) -> Result<RunState, CheckpointError> {
    let manifest = Manifest::read(path)?;
    for name in manifest.names() {
        manifest.read_file(path, name)?;
    }
    state(path)
}

/// Reads the state of a checkpoint's run.
///
/// # Errors
/// [`CheckpointError`].
pub(crate) fn state(path: &Path) -> Result<RunState, CheckpointError> {
    Ok(stored_state(path)?.run)
}

fn stored_state(path: &Path) -> Result<StoredState, CheckpointError> {
    let bytes = Manifest::read(path)?.read_file(path, STATE)?;
    let json = |cause| CheckpointError::Json { path: path.join(STATE), cause };
    let stored: serde_json::Value = serde_json::from_slice(&bytes).map_err(json)?;
    check_numbers(path, &stored)?;
    serde_json::from_value(stored).map_err(json)
}

fn read_model<M: Module>(
    path: &Path,
    manifest: &Manifest,
    name: &str,
    model: M,
) -> Result<M, CheckpointError> {
    let bytes = manifest.read_file(path, name)?;
    let record = |cause| CheckpointError::Record { path: path.join(name), cause };
    check_kinds(&path.join(name), &bytes, &model)?;
    let stored = ModuleRecord::from_bytes(Bytes::from_bytes_vec(bytes)).map_err(record)?;
    model.try_load_record(stored).map_err(record)
}
