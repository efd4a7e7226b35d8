//! Errors of runs.
// tidy: long because it is one enum of all errors of runs

use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use updraft_data::{DataError, TableError, system_message};
use updraft_device::DeviceError;
use updraft_quant::FileError;
use updraft_trainer::{CheckpointError, StreamError, TrainError};

use crate::config::{ConfigError, Edited};
use crate::record::METRICS;
use crate::task::NeedsSingleRank;

/// An error of another crate.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Errors of runs; the text contains the cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The configuration is invalid.
    #[error("{0}")]
    Config(ConfigError),
    /// No suitable device, or it cannot be opened.
    #[error("{0}")]
    Device(DeviceError),
    /// The data cannot be opened or delivered.
    #[error("{0}")]
    Data(DataError),
    /// A table cannot be read.
    #[error("{0}")]
    Table(TableError),
    /// Training failed.
    #[error("{0}{remedy}", remedy = training_remedy(.0))]
    Train(TrainError),
    /// A checkpoint cannot be read.
    #[error("{0}{remedy}", remedy = checkpoint_remedy(.0))]
    Checkpoint(CheckpointError),
    /// Batches cannot be delivered.
    #[error("{split} data: {cause}")]
    Stream {
        /// `training` or `test`.
        split: &'static str,
        /// The error of the stream.
        cause: StreamError,
    },
    /// The model cannot be built or changed as requested.
    #[error("model: {cause}")]
    Model {
        /// The error of the network.
        cause: Cause,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} `{path}`: {}", system_message(.cause))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
    /// Run folders cannot be created where they should be.
    #[error("cannot create run folders in `{path}`: {cause}; name a folder that can be written")]
    Place {
        /// The folder of run folders.
        path: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
    /// A file of a run folder has invalid content.
    #[error(
        "`{path}` is not what a run writes: {cause}; restore it from a copy, or train the run again"
    )]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser found.
        cause: serde_json::Error,
    },
    /// A file of a run folder that belongs to the trained model has another content than the run
    /// wrote.
    #[error(
        "`{path}` was changed or replaced, or `{}` was: the model belongs to what the run wrote; \
         restore both from a copy, or begin a new run with `train {}`",
        .run.join("digests.json").display(),
        .run.join("plan.toml").display()
    )]
    ChangedFile {
        /// The file.
        path: PathBuf,
        /// The run's folder.
        run: PathBuf,
    },
    /// A file of a run folder that belongs to the trained model is gone.
    #[error(
        "`{path}` is not there, and the model belongs to it; restore it from a copy, or begin a new \
         run with `train {}`",
        .run.join("plan.toml").display()
    )]
    LostFile {
        /// The file.
        path: PathBuf,
        /// The run's folder.
        run: PathBuf,
    },
    /// A run has no digests of the files that belong to the trained model.
    #[error("`{run}` was written by an earlier version, without `digests.json`; train it again")]
    NoDigests {
        /// The run's folder.
        run: PathBuf,
    },
    /// The folder is not a run folder.
    #[error("`{path}` is not a run folder: it has no plan.toml")]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// A plan of a run folder cannot be read.
    #[error("`{path}` is not a plan of this build: {}", without_place(.path, .cause))]
    Plan {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: Box<ConfigError>,
    },
    /// A plan of a run folder was edited in a key that decides what the model computes.
    #[error(
        "`{path}` was edited: {edited}; a trained model has no other value: set it back, or begin \
         a new run with `train {path}`"
    )]
    Edited {
        /// The file.
        path: PathBuf,
        /// The key with both values.
        edited: Edited,
    },
    /// Another process is using the run folder, or the folder of several runs.
    #[error("`{run}` is in use by {}; wait until that ends, or stop it", by_whom(.holder))]
    InUse {
        /// The run's folder.
        run: PathBuf,
        /// The process and its host, if known.
        holder: String,
    },
    /// A file is larger than any of its kind.
    #[error(
        "`{path}` has {bytes} bytes; at most {limit} are read of such a file: {}",
        too_large_remedy(.path)
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its length, as far as it was read.
        bytes: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A checkpoint is damaged, and another one is intact.
    #[error(
        "{cause}; the newest intact checkpoint is that of step {step}: use it with `--checkpoint {step}`"
    )]
    Damaged {
        /// The error of the damaged one.
        cause: CheckpointError,
        /// The step of the other.
        step: u64,
    },
    /// A checkpoint is damaged, another one is intact, and the served one is used without a choice.
    #[error(
        "{cause}; the newest intact checkpoint is that of step {step}: continue the run from it with \
         `train --resume {run} --checkpoint {step}`, then use it"
    )]
    ServedDamaged {
        /// The run's folder.
        run: PathBuf,
        /// The error of the damaged one.
        cause: Box<CheckpointError>,
        /// The step of the other.
        step: u64,
    },
    /// There is no checkpoint of the requested step.
    #[error("`{path}` has no checkpoint of step {step}; it has {}", steps(.known))]
    NoStep {
        /// The run's folder.
        path: PathBuf,
        /// The requested step.
        step: u64,
        /// The steps with a checkpoint, ascending.
        known: Vec<u64>,
    },
    /// A trained model has a non-finite parameter or result.
    #[error(
        "{what} of the model in `{run}` is not finite; the run diverged or its file was changed: \
         use another checkpoint with `--checkpoint STEP`, or train again with a lower learning rate"
    )]
    NotFinite {
        /// The run's folder.
        run: PathBuf,
        /// The parameter or the result.
        what: String,
    },
    /// A trained model has a non-finite parameter or result, and is used without a choice of the
    /// checkpoint.
    #[error(
        "{what} of the model in `{run}` is not finite; the run diverged or its file was changed: \
         continue it from another checkpoint with `train --resume {run} --checkpoint STEP`, or train \
         again with a lower learning rate"
    )]
    ServedNotFinite {
        /// The run's folder.
        run: PathBuf,
        /// The parameter or the result.
        what: String,
    },
    /// A run has no int8 network of the model that it serves.
    #[error("`{run}` has no int8 network: {reason}; `quantize {run}` writes one")]
    NoInt8 {
        /// The run's folder.
        run: PathBuf,
        /// Why it has none.
        reason: String,
    },
    /// The int8 network of a run cannot compute on a device.
    #[error(
        "the int8 network cannot run on `{device}`: {reason}; leave out `--device` to run it on the CPU"
    )]
    Int8Device {
        /// The device.
        device: String,
        /// Why: the first layer without a kernel there, or what the program or the device lacks.
        reason: String,
    },
    /// The file of an int8 network cannot be read.
    #[error("`{path}`: {cause}")]
    Int8File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: FileError,
    },
    /// The file of an int8 network has another network than the run's.
    #[error(
        "`{path}` is not of this run: its network is from {found}, the run's from {expected}; \
         quantize the run again"
    )]
    OtherInt8 {
        /// The file.
        path: PathBuf,
        /// The shapes of the run's inputs and outputs.
        expected: String,
        /// Those of the file.
        found: String,
    },
    /// A run has no complete checkpoint yet.
    #[error(
        "`{path}` has no intact checkpoint: training ended before its first; start again with \
         `train {}`",
        .path.join("plan.toml").display()
    )]
    NoCheckpoint {
        /// The run's folder.
        path: PathBuf,
    },
    /// The checkpoints of a run were removed or damaged.
    #[error(
        "`{path}` has no intact checkpoint: that of step {step} was removed or damaged; restore \
         `{}` from a copy, or start again with `train {}`",
        .path.join("checkpoints").display(),
        .path.join("plan.toml").display()
    )]
    LostCheckpoints {
        /// The run's folder.
        path: PathBuf,
        /// The step of the newest one that was there.
        step: u64,
    },
    /// The task does not support a command or setting.
    #[error("{what} is not for task `{task}`: {reason}")]
    NotForTask {
        /// The command or the setting.
        what: String,
        /// The task.
        task: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// The data of a configuration does not exist.
    #[error("{what}{}", hint(.how_to_get))]
    NoData {
        /// What is missing and where it was expected.
        what: String,
        /// The configuration's `data.how_to_get`.
        how_to_get: Option<String>,
    },
    /// The data differs from that of the run.
    #[error(
        "the data is not what the run `{run}` was trained on: {difference}; name the folder of \
         that data with --data"
    )]
    OtherData {
        /// The run's folder.
        run: PathBuf,
        /// In what it differs.
        difference: String,
    },
    /// The ranks of a run see different storage.
    #[error(
        "rank {rank} does not see what rank 0 writes into `{path}`; place it on storage that \
         all ranks share"
    )]
    NotShared {
        /// The run's folder.
        path: PathBuf,
        /// The first rank that does not see it.
        rank: usize,
    },
    /// A key of the plan has a value that a run on several ranks does not support.
    #[error("{0}")]
    SingleRank(NeedsSingleRank),
    /// Two models cannot be compared.
    #[error(
        "the models cannot be compared: {difference}, from test sample {sample} on; compare runs \
         with the same test data, in the same order and with the same normalization"
    )]
    NotComparable {
        /// The first sample of the batch in which they differ.
        sample: usize,
        /// In what they differ.
        difference: String,
    },
    /// The data cannot be used for training.
    #[error("{reason}")]
    Unusable {
        /// Why, and what to do.
        reason: String,
    },
    /// The input of a prediction cannot be read.
    #[error("`{path}`: {cause}")]
    Input {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: Cause,
    },
    /// The free memory of the device, or of the system that it is part of, is not known.
    #[error(
        "the free memory of the device is not known: neither its driver nor the system reports it; \
         set `train.auto_batch.budget_mib`, or give `--budget-mib` to `batch-find`"
    )]
    UnknownMemory,
    /// The work was stopped before it was finished.
    #[error("stopped before {what}")]
    Stopped {
        /// What was not reached.
        what: &'static str,
    },
    /// A file that the run holds open is no longer the one at its path.
    #[error(
        "`{path}` is no longer there: it was moved, removed or replaced while the run was trained"
    )]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// A part of the run's record could not be written; the run was stopped and saved.
    #[error(
        "the run was stopped and saved, because of this: {0}; when that is repaired, \
         `train --resume` continues it"
    )]
    Record(Box<RunError>),
    /// The run no longer has the lock of its folder; it ended without another checkpoint.
    #[error(
        "the run ended without saving its last steps, because another process may be using its \
         folder: {0}; when none does, `train --resume` continues from the newest checkpoint"
    )]
    LostLock(Box<RunError>),
    /// The saved model does not reproduce the results of the trained one: a bug in this program.
    #[error(
        "the model saved in `{run}` gives {difference}; this is a bug in updraft, please report it"
    )]
    NotRestored {
        /// The run's folder.
        run: PathBuf,
        /// What differs.
        difference: String,
    },
}

/// Whether a checkpoint is damaged, and not impossible to write.
fn can_be_fixed(error: &CheckpointError) -> bool {
    match error {
        CheckpointError::Io { action, .. } => matches!(*action, "read" | "list"),
        CheckpointError::Gone { .. } => false,
        _ => true,
    }
}

/// What to do about a checkpoint whose files are lost or damaged.
fn checkpoint_remedy(error: &CheckpointError) -> &'static str {
    let is_lost = match error {
        CheckpointError::Io { action: "read", cause, .. } => {
            matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput)
        }
        CheckpointError::NoManifest { .. }
        | CheckpointError::Json { .. }
        | CheckpointError::TooLarge { .. }
        | CheckpointError::State { .. }
        | CheckpointError::Damaged { .. } => true,
        _ => false,
    };
    if is_lost { "; restore it from a copy, or train the run again" } else { "" }
}

fn training_remedy(error: &TrainError) -> &'static str {
    match error {
        TrainError::Checkpoint { cause } => checkpoint_remedy(cause),
        _ => "",
    }
}

/// What to do about a file that is longer than any of its kind.
fn too_large_remedy(path: &Path) -> &'static str {
    match path.file_name().is_some_and(|name| name == METRICS) {
        true => {
            "move it away to use the run without its earlier metrics, or restore it from a copy"
        }
        false => "restore it from a copy, or name another file",
    }
}

/// The error of a plan as part of one that names its file: only the line is left of its place.
fn without_place(path: &Path, cause: &ConfigError) -> String {
    let text = cause.to_string();
    let of_file = text.strip_prefix(&format!("{}", path.display()));
    match of_file.and_then(|rest| rest.strip_prefix(':')) {
        Some(rest) if rest.starts_with(|first: char| first.is_ascii_digit()) => {
            format!("line {rest}")
        }
        Some(rest) => rest.trim_start().to_owned(),
        None => text,
    }
}

fn by_whom(text: &str) -> &str {
    if text.is_empty() { "another process" } else { text }
}

fn steps(known: &[u64]) -> String {
    if known.is_empty() {
        return "none".to_owned();
    }
    let known: Vec<String> = known.iter().map(u64::to_string).collect();
    format!("those of the steps {}", known.join(", "))
}

fn hint(how_to_get: &Option<String>) -> String {
    how_to_get.as_ref().map_or_else(String::new, |text| format!("; {text}"))
}

impl RunError {
    /// Whether the user can fix it with other arguments, another configuration, other data or
    /// another device.
    ///
    /// `false` for training that failed on the way, for a device that failed while it computed, for
    /// a file that cannot be written, for work that was stopped, and for a bug in this crate.
    #[must_use]
    pub fn is_input(&self) -> bool {
        match self {
            Self::Train(error) => match error {
                TrainError::NonFiniteLoss { .. }
                | TrainError::Gradient { .. }
                | TrainError::GradientNorm { .. }
                | TrainError::GlobalNorm { .. }
                | TrainError::TooManySkips { .. }
                | TrainError::Aborted { .. } => false,
                TrainError::Checkpoint { cause } => can_be_fixed(cause),
                _ => true,
            },
            Self::Checkpoint(cause) | Self::Damaged { cause, .. } => can_be_fixed(cause),
            Self::ServedDamaged { cause, .. } => can_be_fixed(cause),
            Self::Device(error) => !matches!(
                error,
                DeviceError::Failed { .. }
                    | DeviceError::Gone { .. }
                    | DeviceError::KernelCache { .. }
                    | DeviceError::KernelCacheInUse
                    | DeviceError::Sampler { .. }
            ),
            Self::Record(_)
            | Self::LostLock(_)
            | Self::Stopped { .. }
            | Self::Replaced { .. }
            | Self::NotRestored { .. }
            | Self::InUse { .. } => false,
            Self::Data(DataError::Write { .. }) => false,
            Self::Io { action, .. } => matches!(*action, "read" | "open"),
            _ => true,
        }
    }

    /// The same error where the checkpoint of a run cannot be chosen, as by a command without
    /// `--checkpoint`: it advises to continue the run from another one.
    #[must_use]
    pub fn without_choice(self, run: &Path) -> Self {
        let run = run.to_owned();
        match self {
            Self::Damaged { cause, step } => {
                Self::ServedDamaged { run, cause: Box::new(cause), step }
            }
            Self::NotFinite { what, .. } => Self::ServedNotFinite { run, what },
            other => other,
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path, cause: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), cause }
    }

    /// An image or volume that a task does not predict.
    pub(crate) fn predicts_no_images() -> Self {
        let reason = "the run's task predicts no images: leave out --out";
        Self::Unusable { reason: reason.to_owned() }
    }

    /// Rows of a table that a task does not predict.
    pub(crate) fn predicts_no_rows() -> Self {
        let reason =
            "the run's task predicts no rows of tables: name no .csv or .tsv file to write";
        Self::Unusable { reason: reason.to_owned() }
    }

    pub(crate) fn model(cause: impl Into<Cause>) -> Self {
        Self::Model { cause: cause.into() }
    }
}

macro_rules! from {
    ($($variant:ident $error:ty),+) => {$(
        impl From<$error> for RunError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )+};
}

from!(Config ConfigError, Device DeviceError, Data DataError, Table TableError, Checkpoint CheckpointError);

impl From<TrainError> for RunError {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::NoBatches { samples, batch } => Self::Config(ConfigError::Value {
                place: String::new(),
                key: "train.batch".to_owned(),
                value: batch.to_string(),
                expected: format!("at most {samples}, the training samples"),
            }),
            other => Self::Train(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_a_user_can_fix_are_distinguished_from_failures() {
        let system = || io::Error::from(ErrorKind::PermissionDenied);
        let io = |action| RunError::io(action, Path::new("a"), system());
        let checkpoint = |action| CheckpointError::Io { action, path: "a".into(), cause: system() };
        let damaged = || CheckpointError::Damaged {
            path: "a".into(),
            expected: String::new(),
            found: String::new(),
        };
        for error in [
            io("read"),
            io("open"),
            RunError::NoRun { path: "a".into() },
            RunError::UnknownMemory,
            RunError::Unusable { reason: String::new() },
            RunError::Checkpoint(damaged()),
            RunError::Train(damaged().into()),
            RunError::Train(TrainError::NoBatches { samples: 3, batch: 4 }),
            RunError::model("it has no place"),
        ] {
            assert!(error.is_input(), "{error:?}");
        }
        let norm = TrainError::GradientNorm { step: 3, path: "a".to_owned(), norm: f64::NAN };
        let steps = TrainError::TooManySkips { step: 3, skips: 2, tensor: "a".to_owned() };
        for error in [
            io("write"),
            io("create"),
            RunError::Train(steps),
            RunError::Train(norm),
            RunError::Train(TrainError::GlobalNorm { step: 3 }),
            RunError::Train(checkpoint("write").into()),
            RunError::Checkpoint(checkpoint("rename")),
            RunError::Device(DeviceError::Sampler { reason: "none".to_owned() }),
            RunError::Record(Box::new(io("read"))),
            RunError::LostLock(Box::new(io("read"))),
            RunError::Train(TrainError::Aborted { step: 3 }),
            RunError::Stopped { what: "all parts were tried" },
            RunError::Data(DataError::Write { path: "a".into(), cause: system() }),
        ] {
            assert!(!error.is_input(), "{error:?}");
        }
    }
}
