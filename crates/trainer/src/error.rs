//! Why a training run stops with an error.

use std::path::PathBuf;

use updraft_data::DataError;
use updraft_precision::PrecisionError;

use crate::checkpoint::CheckpointError;

/// Why a run cannot start, go on or be saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A sample or a batch could not be delivered.
    #[error("epoch {epoch}: the {split} data failed")]
    Data {
        /// The epoch, counted from 0.
        epoch: u64,
        /// `training` or `test`.
        split: &'static str,
        /// What the loader reported.
        #[source]
        source: DataError,
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
        /// The first tensor that is not finite, in the order in which a step meets them.
        tensor: String,
    },
    /// Too many updates in a row had to be left out.
    #[error(
        "step {step}: {skips} updates in a row were left out, this one because of {tensor}; lower \
         the learning rate, add warm-up, or look at the data"
    )]
    TooManySkips {
        /// The step, counted from 0.
        step: u64,
        /// Updates left out in a row, this one included.
        skips: u64,
        /// The first tensor that is not finite.
        tensor: String,
    },
    /// A gradient is not finite.
    #[error("step {step}: the gradients cannot be used")]
    Gradient {
        /// The step, counted from 0.
        step: u64,
        /// The tensor and its fault.
        #[source]
        source: PrecisionError,
    },
    /// The dtypes and the loss scale do not go together, or not with those of a checkpoint.
    #[error("the precision cannot be trained with")]
    Precision {
        /// What is missing or out of its range.
        #[source]
        source: PrecisionError,
    },
    /// A setting is out of its range.
    #[error("`{name}` is {value}; expected {expected}")]
    Setting {
        /// The setting's name.
        name: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// The training data yields no batch.
    #[error("the training data yields no batch: {samples} samples, batches of {batch}")]
    NoBatches {
        /// Samples in the source.
        samples: usize,
        /// Samples in a batch.
        batch: usize,
    },
    /// A checkpoint could not be written or read.
    #[error("checkpoint `{path}` failed")]
    Checkpoint {
        /// The checkpoint's folder.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: CheckpointError,
    },
}

impl TrainError {
    /// The tensor that is not finite, if that is what went wrong.
    #[must_use]
    pub fn bad_tensor(&self) -> Option<String> {
        match self {
            Self::NonFiniteLoss { tensor, .. } | Self::TooManySkips { tensor, .. } => {
                Some(tensor.clone())
            }
            Self::Gradient { source, .. } => Some(source.to_string()),
            _ => None,
        }
    }
}
