//! Errors of a training run.

use std::borrow::Cow;
use std::fmt::Display;

use updraft_distributed::CollectiveError;
use updraft_precision::PrecisionError;

use crate::checkpoint::CheckpointError;
use crate::stream::StreamError;

/// Why a run cannot start, continue or be saved; the text includes the cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A sample or a batch could not be delivered.
    #[error("epoch {}, {split} data: {cause}", .epoch + 1)]
    Data {
        /// The epoch, counted from 0; the text counts from 1.
        epoch: u64,
        /// `training` or `test`.
        split: &'static str,
        /// The error of the stream of batches, or of the task that placed one.
        cause: StreamError,
    },
    /// A sample or a batch of an evaluation could not be delivered.
    #[error("evaluation: {cause}")]
    Evaluation {
        /// The error of the stream of batches, or of the task that placed one.
        cause: StreamError,
    },
    /// The loss is not a finite number.
    #[error(
        "step {step}: the loss is {loss}; not finite first: {tensor}; lower the learning rate, add \
         warm-up, or look at the data"
    )]
    NonFiniteLoss {
        /// The step, counted from 0.
        step: u64,
        /// What the loss was.
        loss: f64,
        /// The first tensor that is not finite, in the order in which a step uses them.
        tensor: String,
    },
    /// The norm of a gradient is not finite; it was read after the update.
    #[error(
        "step {step}: the norm of the gradient of `{path}` is {norm}; lower the learning rate, add \
         warm-up, or look at the data"
    )]
    GradientNorm {
        /// The step, counted from 0.
        step: u64,
        /// The path of the first such parameter.
        path: String,
        /// The norm.
        norm: f64,
    },
    /// The global norm of the gradients is not finite; it was read after the update.
    #[error(
        "step {step}: the norm of the gradients is not finite; lower the learning rate, add \
         warm-up, or look at the data; with a `read_every` of 1 the error names the parameter"
    )]
    GlobalNorm {
        /// The step, counted from 0.
        step: u64,
    },
    /// Too many updates in a row were skipped.
    #[error(
        "step {step}: {skips} updates in a row were skipped, this one because of {tensor}; lower \
         the learning rate, add warm-up, or look at the data"
    )]
    TooManySkips {
        /// The step, counted from 0.
        step: u64,
        /// Consecutive skipped updates, including this one.
        skips: u64,
        /// The first tensor that is not finite.
        tensor: String,
    },
    /// A gradient is not finite.
    #[error("step {step}: {cause}")]
    Gradient {
        /// The step, counted from 0.
        step: u64,
        /// The tensor and the error.
        cause: PrecisionError,
    },
    /// The dtypes and the loss scale do not match each other, or those of a checkpoint.
    #[error("{cause}")]
    Precision {
        /// The missing or invalid setting.
        cause: PrecisionError,
    },
    /// A setting is out of its range.
    #[error("`{name}` is {value}; it must be {expected}")]
    Setting {
        /// The setting's name.
        name: &'static str,
        /// The given value.
        value: String,
        /// The allowed values.
        expected: Cow<'static, str>,
    },
    /// The training data yields no batch.
    #[error("the training data yields no batch: {samples} samples, batches of {batch}")]
    NoBatches {
        /// Samples in the source.
        samples: usize,
        /// Samples in a batch.
        batch: usize,
    },
    /// The score of an epoch cannot be stored in a checkpoint, or the checkpoint belongs to another
    /// task.
    #[error("the score of the epoch so far cannot be stored or restored: {cause}")]
    Score {
        /// What serde reported.
        cause: serde_json::Error,
    },
    /// The ranks of a data-parallel run could not exchange something.
    #[error("{cause}")]
    Collective {
        /// The error of the engine that connects them.
        cause: CollectiveError,
    },
    /// What a rank sent cannot be read.
    #[error("what the ranks exchange cannot be written or read: {cause}")]
    Exchange {
        /// What serde reported.
        cause: serde_json::Error,
    },
    /// Another rank failed.
    #[error("rank {rank}: {reason}")]
    Rank {
        /// The rank.
        rank: usize,
        /// Its error.
        reason: String,
    },
    /// A layer does not synchronize its statistics among the ranks.
    #[error(
        "the batch norm of `{path}` is not synchronized: rank {rank} has other statistics than \
         rank 0, because the layer does not run Updraft's kernels; use batch norms of each rank"
    )]
    NotSynchronized {
        /// The running statistic.
        path: String,
        /// The first rank whose value differs from that of rank 0.
        rank: usize,
    },
    /// The observer returned [`Control::Abort`](crate::Control::Abort).
    #[error("the run was ended before the checkpoint of step {step} was written")]
    Aborted {
        /// Updates made.
        step: u64,
    },
    /// A checkpoint could not be written or read.
    #[error("{cause}")]
    Checkpoint {
        /// The error, with the file.
        cause: CheckpointError,
    },
}

impl From<CheckpointError> for TrainError {
    fn from(cause: CheckpointError) -> Self {
        Self::Checkpoint { cause }
    }
}

impl From<CollectiveError> for TrainError {
    fn from(cause: CollectiveError) -> Self {
        Self::Collective { cause }
    }
}

impl From<PrecisionError> for TrainError {
    fn from(cause: PrecisionError) -> Self {
        Self::Precision { cause }
    }
}

impl TrainError {
    /// A setting that is out of its range.
    pub(crate) fn setting(
        name: &'static str,
        value: impl Display,
        expected: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Setting { name, value: value.to_string(), expected: expected.into() }
    }

    /// Returns an error for the first setting that is out of range; each has a name, a value,
    /// whether it is allowed, and the expected values.
    pub(crate) fn check(
        settings: &[(&'static str, &dyn Display, bool, &'static str)],
    ) -> Result<(), Self> {
        match settings.iter().find(|(_, _, is_allowed, _)| !is_allowed) {
            None => Ok(()),
            Some((name, value, _, expected)) => Err(Self::setting(name, value, *expected)),
        }
    }

    /// Segments that a task does not have.
    pub(crate) fn without_segments(reason: &str) -> Self {
        let expected = format!("false for this task: {reason}");
        Self::setting("step.in_segments", true, expected)
    }

    /// The non-finite tensor, if this is the error.
    #[must_use]
    pub fn bad_tensor(&self) -> Option<String> {
        match self {
            Self::NonFiniteLoss { tensor, .. } | Self::TooManySkips { tensor, .. } => {
                Some(tensor.clone())
            }
            Self::Gradient { cause, .. } => Some(cause.to_string()),
            _ => None,
        }
    }
}
