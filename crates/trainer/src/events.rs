//! What happens in a run, as values for whoever watches it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::monitor::StepTimes;

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// One update of the parameters.
    Step(StepReport),
    /// One pass over the training data, with the test data's verdict after it.
    Epoch(EpochReport),
    /// A checkpoint is about to be written: what a watcher wants to keep beside it has to be on
    /// disk when it answers, for a run that is killed and resumed starts from there.
    Saving {
        /// Updates made.
        step: u64,
    },
    /// A whole checkpoint stands on disk.
    Saved {
        /// Its folder.
        path: PathBuf,
        /// Updates made when it was written.
        step: u64,
    },
    /// Work between two epochs goes on; the answer can end the run here too.
    Between {
        /// What is being done.
        activity: Activity,
        /// The epoch that it belongs to, counted from 0.
        epoch: u64,
        /// Samples so far.
        samples: usize,
    },
}

/// What a run does between two epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Activity {
    /// Statistics of batch norms are computed anew.
    Recomputing,
    /// The test data is scored.
    Scoring,
}

#[cfg(feature = "tracing")]
impl Event {
    /// Emits the event to the application's subscriber.
    pub(crate) fn trace(&self) {
        match self {
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
                train_loss = report.train_loss,
                train_accuracy = report.train_accuracy,
                test_accuracy = report.test.and_then(|test| test.accuracy),
                samples_per_s = report.samples_per_s,
                "epoch"
            ),
            Self::Saving { step } => tracing::debug!(step, "saving a checkpoint"),
            Self::Saved { path, step } => {
                tracing::info!(path = %path.display(), step, "checkpoint saved");
            }
            Self::Between { activity, epoch, samples } => {
                tracing::trace!(?activity, epoch, samples, "between epochs");
            }
        }
    }
}

/// What one update of the parameters measured.
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
    /// Samples classified correctly, before the update, where targets are classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correct: Option<usize>,
    /// The learning rate of this update.
    pub learning_rate: f64,
    /// Global norm of the gradients, before clipping; `None` where nobody asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradient_norm: Option<f64>,
    /// What the loss was multiplied by before the backward pass, where it is scaled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<f64>,
    /// The first tensor that was not finite, where the update was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Microseconds from the start of training in this process to the start of the update.
    pub at_us: u64,
    /// Microseconds of the update, the wait for data not counted.
    pub step_us: u64,
    /// Where the time went.
    #[serde(flatten)]
    pub times: StepTimes,
}

/// What one epoch measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpochReport {
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// Updates made so far.
    pub step: u64,
    /// Mean loss over the epoch's training samples, each measured before its update.
    pub train_loss: f64,
    /// Share of the training samples classified correctly, each before its update, where targets
    /// are classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_accuracy: Option<f64>,
    /// The test data's verdict on the served model, where there is test data: the average of the
    /// parameters if one is kept, with recomputed batch norms if they are.
    pub test: Option<Evaluation>,
    /// Training samples per second of wall-clock time, evaluation not counted.
    pub samples_per_s: f64,
    /// Training samples that the loader left out, since the epoch began or was resumed.
    pub left_out: usize,
    /// Microseconds of the training part of the epoch.
    pub train_us: u64,
    /// Where the time of its updates went.
    #[serde(flatten)]
    pub times: StepTimes,
}

/// A model's score on a data set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Of classes the mean cross-entropy, without label smoothing; of values the mean squared
    /// error, in the square of the unit that targets have in a batch.
    pub loss: f64,
    /// Share of samples classified correctly, where targets are classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Share of the values' variance that the outputs explain, the mean over outputs, at most 1;
    /// `None` for classes, and where the values of an output do not differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r_squared: Option<f64>,
    /// Samples scored.
    pub samples: usize,
}

/// What the watcher of a run wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Go on.
    Continue,
    /// Save a checkpoint and end the run here.
    Stop,
}
