//! The events of a run.

use std::path::PathBuf;

use serde::Serialize;

use crate::metric::{Evaluation, Metric, as_map};
use crate::monitor::{RankTimes, StepTimes};
use crate::read_interval::ReadEachReason;
use crate::transfer::Upload;

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// The device is read after each update, although
    /// [`RunSettings::read_every`](crate::RunSettings::read_every) is more than 1; once, before the
    /// first update. The return value is ignored.
    ReadEach {
        /// Why.
        reason: ReadEachReason,
    },
    /// One update of the parameters.
    Step(StepReport),
    /// One pass over the training data, with the evaluation after it.
    Epoch(EpochReport),
    /// A checkpoint is about to be written. Data that an observer stores with it must be on disk
    /// when it returns: a run that is killed later resumes from this checkpoint.
    /// [`Control::Abort`] ends the run before it is written.
    Saving {
        /// Updates made.
        step: u64,
    },
    /// A checkpoint was written.
    Saved {
        /// Its folder.
        path: PathBuf,
        /// The number of updates when it was written.
        step: u64,
    },
    /// The statistics of batch norms were recomputed.
    Recomputed {
        /// The epoch, counted from 0.
        epoch: u64,
        /// Training batches that they were computed from.
        batches: u64,
        /// Layers with a training switch that were off, such as dropout.
        switched_off: usize,
    },
    /// Progress of the work between two epochs; [`Control::Stop`] ends the run here, too.
    Between {
        /// What is being done.
        activity: Activity,
        /// The epoch, counted from 0.
        epoch: u64,
        /// Samples so far.
        samples: usize,
    },
}

/// The work between two epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Activity {
    /// Statistics of batch norms are recomputed.
    Recomputing,
    /// The model is evaluated on the test data.
    Scoring,
}

#[cfg(feature = "tracing")]
impl Event {
    /// Emits the event to the application's subscriber.
    pub(crate) fn trace(&self) {
        match self {
            Self::ReadEach { reason } => tracing::info!(%reason, "the device is read each update"),
            Self::Step(report) => tracing::debug!(
                epoch = report.epoch,
                step = report.step,
                loss = report.loss,
                learning_rate = report.learning_rate,
                gradient_norm = report.gradient_norm,
                skipped = report.skipped,
                data_wait_us = report.times.data_wait_us,
                step_us = report.step_us,
                "step"
            ),
            Self::Epoch(report) => tracing::info!(
                epoch = report.epoch,
                step = report.step,
                train_loss = report.train.loss(),
                test_loss = report.test.as_ref().map(Evaluation::loss),
                samples_per_s = report.samples_per_s,
                "epoch"
            ),
            Self::Saving { step } => tracing::debug!(step, "saving a checkpoint"),
            Self::Saved { path, step } => {
                tracing::info!(path = %path.display(), step, "checkpoint saved");
            }
            Self::Recomputed { epoch, batches, switched_off } => tracing::info!(
                epoch,
                batches,
                switched_off,
                "batch norms recomputed, with dropout layers switched off"
            ),
            Self::Between { activity, epoch, samples } => {
                tracing::trace!(?activity, epoch, samples, "between epochs");
            }
        }
    }
}

/// What was measured in an update of the parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepReport {
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// Updates before this one.
    pub step: u64,
    /// All updates of the run.
    pub steps: u64,
    /// Samples in its batches.
    pub samples: usize,
    /// Mean loss over the samples, before the update.
    pub loss: f64,
    /// The other metrics of the samples, before the update: the parts of the loss, then the task's
    /// metrics.
    #[serde(serialize_with = "as_map", skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// The learning rate of this update.
    pub learning_rate: f64,
    /// Global norm of the gradients, before clipping; `None` if it is not needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradient_norm: Option<f64>,
    /// The loss scale, if the loss is scaled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<f64>,
    /// The first non-finite tensor, if the update was skipped; of several updates that are read
    /// together, whether it was the loss or a gradient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Microseconds from the start of training in this process to the start of the update.
    pub at_us: u64,
    /// Microseconds of the update, without the wait for data. Of several updates that are read
    /// together, until it was submitted to the device; the last of them includes the read, which
    /// waits for all of them.
    pub step_us: u64,
    /// Where the time went.
    #[serde(flatten)]
    pub times: StepTimes,
    /// When the first batch of the next update was moved to the device, if that was during this
    /// one.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub upload: Option<Upload>,
}

/// What was measured in an epoch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpochReport {
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// Updates made so far.
    pub step: u64,
    /// The metrics of the training samples, each before its update.
    pub train: Evaluation,
    /// The metrics of the served model on the test data, if there is any: of the average of the
    /// parameters if one is kept, with recomputed batch norms if they are.
    pub test: Option<Evaluation>,
    /// Training samples per second of wall-clock time, without the evaluation.
    pub samples_per_s: f64,
    /// Training samples that the stream skipped, since the epoch began or was resumed.
    pub left_out: usize,
    /// Microseconds of the training part of the epoch.
    pub train_us: u64,
    /// Where the time of its updates went.
    #[serde(flatten)]
    pub times: StepTimes,
    /// The times and parameters of every rank, in their order; none of a run on a single rank.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankTimes>,
}

/// The answer of an observer: whether the run continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Continue.
    Continue,
    /// Save a checkpoint and end the run here.
    Stop,
    /// After [`Event::Saving`]: end the run without writing or deleting a checkpoint, with
    /// [`TrainError::Aborted`](crate::TrainError::Aborted). Of several ranks the answer of rank 0
    /// counts. Elsewhere as [`Stop`](Self::Stop).
    Abort,
}
