//! Checkpoints: a folder that is either whole or not there.
//!
//! `step-00000042/` holds `model.bpk`, `optimizer.bpk` (both burnpack), `state.json` and, written
//! last, `manifest.json` with the SHA-256 of each. All are written to `.step-00000042.partial/`,
//! flushed to the disk, and the folder is renamed into place: a kill at any moment leaves the
//! previous checkpoint untouched.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::store::{ModuleRecord, RecordError};
use burn::tensor::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use updraft_data::LoaderState;

/// The format this code writes; it reads no other.
const VERSION: u32 = 1;

/// The largest file a checkpoint may hold, in bytes: read whole, so bounded before allocating.
const MAX_FILE_BYTES: u64 = 16 << 30;

const MODEL: &str = "model.bpk";
const OPTIMIZER: &str = "optimizer.bpk";
const STATE: &str = "state.json";
const MANIFEST: &str = "manifest.json";

/// Where a run stands between two steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// Updates made.
    pub step: u64,
    /// The epoch the next batch belongs to, counted from 0.
    pub epoch: u64,
    /// Where that epoch's stream stands; `None` before its first batch.
    pub loader: Option<LoaderState>,
    /// The epoch's sums so far.
    pub sums: EpochSums,
    /// Parameters that carried optimizer state.
    pub optimizer_tensors: usize,
}

/// Running sums of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct EpochSums {
    /// The bits of the `f64` sum of losses, one per sample: JSON readers may round a decimal.
    loss_sum_bits: u64,
    /// Samples classified correctly.
    pub correct: usize,
    /// Samples seen.
    pub samples: usize,
}

impl EpochSums {
    /// Sum of losses, one per sample.
    #[must_use]
    pub fn loss_sum(&self) -> f64 {
        f64::from_bits(self.loss_sum_bits)
    }

    /// Adds a batch.
    pub fn add(&mut self, mean_loss: f64, correct: usize, samples: usize) {
        self.loss_sum_bits = (self.loss_sum() + mean_loss * samples as f64).to_bits();
        self.correct += correct;
        self.samples += samples;
    }
}

/// Why a checkpoint cannot be written or read; nothing has changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file system refused.
    #[error("cannot {action} `{path}`")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// There is no manifest: the folder is no checkpoint, or was never finished.
    #[error("`{path}` is not there; this folder is no whole checkpoint")]
    NoManifest {
        /// The manifest that was looked for.
        path: PathBuf,
    },
    /// A JSON file does not say what it should.
    #[error("`{path}` is not a checkpoint file of this kind")]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser found.
        #[source]
        source: serde_json::Error,
    },
    /// The checkpoint was written in another format.
    #[error("`{path}` has format version {found}; this build reads version {expected}")]
    Version {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// A file is larger than any checkpoint file may be.
    #[error("`{path}` has {bytes} bytes; a checkpoint file has at most {limit}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A file's bytes are not the ones that were written.
    #[error("`{path}` is damaged: its SHA-256 is {found}, the manifest says {expected}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The hash of its bytes.
        found: String,
        /// The manifest's hash.
        expected: String,
    },
    /// The file belongs to another model, or burn refuses it.
    #[error("`{path}` does not fit this model")]
    Record {
        /// The file.
        path: PathBuf,
        /// burn's reason.
        #[source]
        source: RecordError,
    },
    /// A parameter has no optimizer state.
    #[error(
        "`{path}` restores {found} optimizer tensors of {expected}; resuming would silently \
         restart the others"
    )]
    OptimizerState {
        /// The file.
        path: PathBuf,
        /// Tensors restored.
        found: usize,
        /// Tensors saved.
        expected: usize,
    },
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    version: u32,
    files: Vec<ManifestEntry>,
}

#[derive(Serialize, Deserialize)]
struct ManifestEntry {
    name: String,
    sha256: String,
}

/// Writes a checkpoint under `folder` and returns its path.
///
/// # Errors
/// [`CheckpointError`]; a folder that does not bear the final name may be left behind.
pub fn save<M: Module>(
    folder: &Path,
    model: &M,
    optimizer: &ModuleOptimizer,
    state: &RunState,
) -> Result<PathBuf, CheckpointError> {
    let name = format!("step-{:08}", state.step);
    let partial = folder.join(format!(".{name}.partial"));
    let whole = folder.join(name);
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(|source| fault("clear", &partial, source))?;
    }
    fs::create_dir_all(&partial).map_err(|source| fault("create", &partial, source))?;

    let optimizer = optimizer.to_record();
    let state = RunState { optimizer_tensors: optimizer.len(), ..state.clone() };
    // `valid` brings the running statistics of batch norms up to date; a plain record is one
    // update behind.
    let model = model.valid().into_record();
    let record = |file: &str, source| CheckpointError::Record { path: partial.join(file), source };
    let json = |file: &str, source| CheckpointError::Json { path: partial.join(file), source };
    let contents = [
        (MODEL, model.into_bytes().map_err(|source| record(MODEL, source))?.to_vec()),
        (OPTIMIZER, optimizer.into_bytes().map_err(|source| record(OPTIMIZER, source))?.to_vec()),
        (STATE, serde_json::to_vec_pretty(&state).map_err(|source| json(STATE, source))?),
    ];
    let mut manifest = Manifest { version: VERSION, files: Vec::new() };
    for (name, bytes) in contents {
        write_flushed(&partial.join(name), &bytes)?;
        manifest.files.push(ManifestEntry { name: name.to_owned(), sha256: sha256(&bytes) });
    }
    let manifest = serde_json::to_vec_pretty(&manifest).map_err(|source| json(MANIFEST, source))?;
    write_flushed(&partial.join(MANIFEST), &manifest)?;

    if whole.exists() {
        fs::remove_dir_all(&whole).map_err(|source| fault("replace", &whole, source))?;
    }
    fs::rename(&partial, &whole).map_err(|source| fault("rename", &partial, source))?;
    Ok(whole)
}

/// Reads a checkpoint's model into `model`.
///
/// # Errors
/// [`CheckpointError`]; nothing of it has been used then.
pub fn load_model<M: Module>(path: &Path, model: M) -> Result<M, CheckpointError> {
    let manifest = read_manifest(path)?;
    let bytes = read_checked(path, MODEL, &manifest)?;
    let record = |source| CheckpointError::Record { path: path.join(MODEL), source };
    let stored = ModuleRecord::from_bytes(Bytes::from_bytes_vec(bytes)).map_err(record)?;
    model.try_load_record(stored).map_err(record)
}

/// Reads a checkpoint's model, optimizer and state.
///
/// # Errors
/// [`CheckpointError`]; nothing of it has been used then.
pub fn load<M: Module>(
    path: &Path,
    model: M,
    optimizer: ModuleOptimizer,
) -> Result<(M, ModuleOptimizer, RunState), CheckpointError> {
    let manifest = read_manifest(path)?;
    let state = read_checked(path, STATE, &manifest)?;
    let state: RunState = serde_json::from_slice(&state)
        .map_err(|source| CheckpointError::Json { path: path.join(STATE), source })?;
    let bytes = read_checked(path, OPTIMIZER, &manifest)?;
    let optimizer = optimizer
        .from_bytes(Bytes::from_bytes_vec(bytes))
        .map_err(|source| CheckpointError::Record { path: path.join(OPTIMIZER), source })?;
    let found = optimizer.to_record().len();
    if found != state.optimizer_tensors {
        let (path, expected) = (path.join(OPTIMIZER), state.optimizer_tensors);
        return Err(CheckpointError::OptimizerState { path, found, expected });
    }
    Ok((load_model(path, model)?, optimizer, state))
}

/// The whole checkpoints under `folder`, oldest first; none where there is no folder.
///
/// # Errors
/// [`CheckpointError::Io`] when the folder cannot be listed.
pub fn list(folder: &Path) -> Result<Vec<PathBuf>, CheckpointError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).map_err(|source| fault("list", folder, source))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|source| fault("list", folder, source))?.path();
        let is_named = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with("step-"));
        if is_named && path.join(MANIFEST).is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Deletes all but the newest `keep` checkpoints under `folder`.
///
/// # Errors
/// [`CheckpointError::Io`] when a folder cannot be deleted.
pub fn prune(folder: &Path, keep: usize) -> Result<(), CheckpointError> {
    let found = list(folder)?;
    for path in &found[..found.len().saturating_sub(keep)] {
        fs::remove_dir_all(path).map_err(|source| fault("delete", path, source))?;
    }
    Ok(())
}

fn read_manifest(folder: &Path) -> Result<Manifest, CheckpointError> {
    let path = folder.join(MANIFEST);
    if !path.is_file() {
        return Err(CheckpointError::NoManifest { path });
    }
    let bytes = read_bounded(&path)?;
    let manifest: Manifest = serde_json::from_slice(&bytes)
        .map_err(|source| CheckpointError::Json { path: path.clone(), source })?;
    if manifest.version != VERSION {
        let found = manifest.version;
        return Err(CheckpointError::Version { path, found, expected: VERSION });
    }
    Ok(manifest)
}

fn read_checked(
    folder: &Path,
    name: &str,
    manifest: &Manifest,
) -> Result<Vec<u8>, CheckpointError> {
    let path = folder.join(name);
    let expected = manifest
        .files
        .iter()
        .find(|entry| entry.name == name)
        .map_or_else(|| "absent".to_owned(), |entry| entry.sha256.clone());
    let bytes = read_bounded(&path)?;
    let found = sha256(&bytes);
    if found == expected {
        Ok(bytes)
    } else {
        Err(CheckpointError::Damaged { path, found, expected })
    }
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    let bytes = fs::metadata(path).map_err(|source| fault("read", path, source))?.len();
    if bytes > MAX_FILE_BYTES {
        let path = path.to_owned();
        return Err(CheckpointError::TooLarge { path, bytes, limit: MAX_FILE_BYTES });
    }
    fs::read(path).map_err(|source| fault("read", path, source))
}

fn write_flushed(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    fs::write(path, bytes).map_err(|source| fault("write", path, source))?;
    File::open(path).and_then(|file| file.sync_all()).map_err(|source| fault("flush", path, source))
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn fault(action: &'static str, path: &Path, source: io::Error) -> CheckpointError {
    CheckpointError::Io { action, path: path.to_owned(), source }
}
