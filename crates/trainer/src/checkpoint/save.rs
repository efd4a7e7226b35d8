//! Writing a checkpoint.

use std::fs;
use std::path::{Path, PathBuf};

use burn::module::{Module, Param};
use burn::optim::ModuleOptimizer;
use burn::tensor::{DType, Tensor, TensorData};
use safetensors::tensor::{Dtype, TensorView, serialize};

use super::error::{CheckpointError, fault};
use super::files::{
    AVERAGE, EXPORT, MANIFEST, MODEL, Manifest, OPTIMIZER, SERVED, SLOW, STATE, flush_names,
    write_flushed,
};
use super::optimizer::without_state;
use super::retention::{PARTIAL, REPLACED, discard, hidden};
use super::state::{RunState, StoredState};
use crate::paths::{PathVisitor, visit_paths};

/// The content of a checkpoint.
#[derive(Clone, Copy)]
pub struct Snapshot<'a, M> {
    /// The model after the last update.
    pub model: &'a M,
    /// The optimizer with its state.
    pub optimizer: &'a ModuleOptimizer,
    /// The state of the run.
    pub state: &'a RunState,
    /// The average of the parameters, if one is kept.
    pub average: Option<&'a M>,
    /// The slow weights of a lookahead, if there is one.
    pub slow: Option<&'a M>,
    /// The served model, if it is neither the average nor the model.
    pub served: Option<&'a M>,
}

impl<M> std::fmt::Debug for Snapshot<'_, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("state", self.state).finish_non_exhaustive()
    }
}

/// Writes a checkpoint under `folder` and returns its path.
///
/// # Errors
/// [`CheckpointError`]; the incomplete checkpoint is removed then.
pub fn save<M: Module>(
    folder: &Path,
    snapshot: &Snapshot<'_, M>,
) -> Result<PathBuf, CheckpointError> {
    let name = format!("step-{:08}", snapshot.state.step);
    let partial = hidden(folder, &name, PARTIAL);
    let whole = folder.join(name);
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(|source| fault("clear", &partial, source))?;
    }
    fs::create_dir_all(&partial).map_err(|source| fault("create", &partial, source))?;
    let saved = write_all(&partial, snapshot).and_then(|()| into_place(folder, &partial, &whole));
    if saved.is_err() {
        // Remove the incomplete checkpoint from a full disk; the error reports the cause.
        let _ = fs::remove_dir_all(&partial);
    }
    saved.map(|()| whole)
}

/// Writes every file of a checkpoint, the manifest last.
fn write_all<M: Module>(partial: &Path, snapshot: &Snapshot<'_, M>) -> Result<(), CheckpointError> {
    // `valid` brings the running statistics of batch norms up to date; a plain record is one
    // update behind.
    let model = snapshot.model.valid();
    let served = snapshot.served.or(snapshot.average).unwrap_or(&model);
    let mut manifest = Manifest::new();
    let mut write = |name: &str, bytes: &[u8]| {
        manifest.add(name, bytes);
        write_flushed(&partial.join(name), bytes)
    };
    let path = partial.join(EXPORT);
    write(EXPORT, &safetensors(served, &path)?)?;
    let models = [
        (MODEL, Some(&model)),
        (AVERAGE, snapshot.average),
        (SLOW, snapshot.slow),
        (SERVED, snapshot.served),
    ];
    for (name, model) in models {
        let Some(model) = model else { continue };
        let bytes = model.clone().into_record().into_bytes();
        let bytes =
            bytes.map_err(|cause| CheckpointError::Record { path: partial.join(name), cause })?;
        write(name, &bytes)?;
    }
    let bytes = snapshot
        .optimizer
        .to_record()
        .into_bytes()
        .map_err(|cause| CheckpointError::Record { path: partial.join(OPTIMIZER), cause })?;
    write(OPTIMIZER, &bytes)?;
    let without_optimizer_state = without_state(snapshot.model, bytes.to_vec())
        .map_err(|cause| CheckpointError::Record { path: partial.join(OPTIMIZER), cause })?;
    let state = StoredState { run: snapshot.state.clone(), without_optimizer_state };
    let json = |name: &str, cause| CheckpointError::Json { path: partial.join(name), cause };
    let bytes = serde_json::to_vec_pretty(&state).map_err(|source| json(STATE, source))?;
    write(STATE, &bytes)?;
    let bytes = serde_json::to_vec_pretty(&manifest).map_err(|source| json(MANIFEST, source))?;
    write_flushed(&partial.join(MANIFEST), &bytes)?;
    flush_names(partial)
}

/// Renames a finished folder to its name; an older one with that name stays complete until then.
fn into_place(folder: &Path, partial: &Path, whole: &Path) -> Result<(), CheckpointError> {
    let name = whole.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let replaced = hidden(folder, name, REPLACED);
    if whole.exists() {
        discard(&replaced)?;
        fs::rename(whole, &replaced).map_err(|source| fault("replace", whole, source))?;
    }
    fs::rename(partial, whole).map_err(|source| fault("rename", partial, source))?;
    flush_names(folder)?;
    discard(&replaced)
}

/// The tensors of a model by path, in the safetensors format.
fn safetensors<M: Module>(model: &M, path: &Path) -> Result<Vec<u8>, CheckpointError> {
    let mut collect = Collect { tensors: Vec::new() };
    visit_paths(model, &mut collect);
    let mut views = Vec::new();
    for (tensor, data) in &collect.tensors {
        let dtype = match data.dtype() {
            DType::F64 => Dtype::F64,
            DType::F32 | DType::Flex32 => Dtype::F32,
            DType::F16 => Dtype::F16,
            DType::BF16 => Dtype::BF16,
            _ => {
                let (path, tensor) = (path.to_owned(), tensor.clone());
                let dtype = format!("{:?}", data.dtype());
                return Err(CheckpointError::TensorType { path, tensor, dtype });
            }
        };
        let view = TensorView::new(dtype, data.shape().to_vec(), data.as_bytes());
        views.push((tensor, view.map_err(|source| export(path, source))?));
    }
    serialize(views, None).map_err(|source| export(path, source))
}

fn export(path: &Path, cause: safetensors::SafeTensorError) -> CheckpointError {
    CheckpointError::Safetensors { path: path.to_owned(), cause }
}

struct Collect {
    tensors: Vec<(String, TensorData)>,
}

impl PathVisitor for Collect {
    fn visit<const D: usize>(&mut self, path: &[String], param: &Param<Tensor<D>>) {
        self.tensors.push((path.join("."), param.base().into_data()));
    }
}
