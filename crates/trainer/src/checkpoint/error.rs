//! Why a checkpoint cannot be written or read.

use std::io;
use std::path::{Path, PathBuf};

use burn::store::RecordError;

/// Errors of writing or reading a checkpoint; nothing is changed then. The text includes the cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file system reports an error.
    #[error("cannot {action} `{path}`: {cause}")]
    Io {
        /// The operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// There is no manifest: the folder is not a checkpoint, or was never finished.
    #[error("`{path}` is not there; this folder is not a complete checkpoint")]
    NoManifest {
        /// The manifest that was looked for.
        path: PathBuf,
    },
    /// A JSON file has another content than expected.
    #[error("`{path}` is not a checkpoint file of this kind: {cause}")]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser found.
        cause: serde_json::Error,
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
    /// The folder of checkpoints is gone.
    #[error("`{path}` is no longer there: the run's folder was moved or removed while it trained")]
    Gone {
        /// Where it was.
        path: PathBuf,
    },
    /// A number in a state file is out of range.
    #[error("`{path}` is not the state of a run: `{field}` is {value}; expected {expected}")]
    State {
        /// The file.
        path: PathBuf,
        /// The number's place in the file.
        field: String,
        /// What it is.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A tensor has another kind of numbers than the model's.
    #[error("`{path}`: `{tensor}` is of type {found}; the model's is of {expected}")]
    TensorKind {
        /// The file.
        path: PathBuf,
        /// The tensor's path in the model.
        tensor: String,
        /// `floating point`, `integers` or `booleans`.
        expected: &'static str,
        /// Its type.
        found: String,
    },
    /// A tensor has another shape than the model's.
    #[error("`{path}`: `{tensor}` has the shape {found:?}; the model's has {expected:?}")]
    TensorShape {
        /// The file.
        path: PathBuf,
        /// The tensor's path in the file.
        tensor: String,
        /// The model's shape.
        expected: Vec<usize>,
        /// The file's shape.
        found: Vec<usize>,
    },
    /// A tensor is missing.
    #[error("`{path}` has no tensor `{tensor}`, which the model has")]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// The tensor's path in the file.
        tensor: String,
    },
    /// A part of the file has a tensor more than the model's.
    #[error(
        "`{path}` has the tensor `{tensor}`, which the model does not have; read the part into a \
         model of the same layers"
    )]
    UnusedTensor {
        /// The file.
        path: PathBuf,
        /// The tensor's path in the file.
        tensor: String,
    },
    /// A file's bytes differ from those that were written.
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
    #[error("`{path}` does not fit this model: {cause}")]
    Record {
        /// The file.
        path: PathBuf,
        /// burn's reason.
        cause: RecordError,
    },
    /// A tensor has a type that safetensors does not support.
    #[error("`{path}` cannot hold `{tensor}`, which is of type {dtype}")]
    TensorType {
        /// The file.
        path: PathBuf,
        /// The tensor's path in the model.
        tensor: String,
        /// Its type.
        dtype: String,
    },
    /// The tensors cannot be stored as safetensors.
    #[error("`{path}` cannot be made of this model's tensors: {cause}")]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// The format's reason.
        cause: safetensors::SafeTensorError,
    },
    /// burn's default device, on which it creates an optimizer's state, cannot be used.
    #[error(
        "`{path}`: burn restores an optimizer on its default device, which cannot be used here; set \
         the environment variable BURN_DEVICE to a backend that can, such as flex"
    )]
    DefaultDevice {
        /// The file.
        path: PathBuf,
    },
    /// A part of the optimizer's state was not restored as it was saved.
    #[error(
        "`{path}`: `{tensor}` {fault}; resuming would silently restart it, so resume with the \
         optimizer and the model that were saved"
    )]
    OptimizerState {
        /// The file.
        path: PathBuf,
        /// The path of its parameter and its name, or its name alone.
        tensor: String,
        /// The reason.
        fault: &'static str,
    },
}

pub(super) fn fault(action: &'static str, path: &Path, cause: io::Error) -> CheckpointError {
    CheckpointError::Io { action, path: path.to_owned(), cause }
}
