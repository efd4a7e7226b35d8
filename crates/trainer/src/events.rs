//! What happens in a run, as values for whoever watches it.

use std::path::PathBuf;

use serde::Serialize;

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// One update of the parameters.
    Step(StepReport),
    /// One pass over the training data, with the test data's verdict after it.
    Epoch(EpochReport),
    /// A whole checkpoint stands on disk.
    Saved {
        /// Its folder.
        path: PathBuf,
        /// Updates made when it was written.
        step: u64,
    },
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
                data_wait_us = report.data_wait_us,
                step_us = report.step_us,
                "step"
            ),
            Self::Epoch(report) => tracing::info!(
                epoch = report.epoch,
                step = report.step,
                train_loss = report.train_loss,
                train_accuracy = report.train_accuracy,
                test_accuracy = report.test.map(|test| test.accuracy),
                samples_per_s = report.samples_per_s,
                "epoch"
            ),
            Self::Saved { path, step } => {
                tracing::info!(path = %path.display(), step, "checkpoint saved");
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
    /// Samples in the batch.
    pub samples: usize,
    /// Mean loss of the batch, before the update.
    pub loss: f64,
    /// Samples of the batch classified correctly, before the update.
    pub correct: usize,
    /// The learning rate of this update.
    pub learning_rate: f64,
    /// Global norm of the gradients, before clipping.
    pub gradient_norm: f64,
    /// Microseconds spent waiting for the batch.
    pub data_wait_us: u64,
    /// Microseconds of the update, the wait not counted.
    pub step_us: u64,
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
    /// Share of the training samples classified correctly, each before its update.
    pub train_accuracy: f64,
    /// The test data's verdict on the updated model, where there is test data.
    pub test: Option<Evaluation>,
    /// Training samples per second of wall-clock time, evaluation not counted.
    pub samples_per_s: f64,
    /// Microseconds spent waiting for training batches.
    pub data_wait_us: u64,
    /// Microseconds of the training part of the epoch.
    pub train_us: u64,
}

/// A model's score on a data set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Evaluation {
    /// Mean cross-entropy, without label smoothing.
    pub loss: f64,
    /// Share of samples classified correctly.
    pub accuracy: f64,
    /// Samples scored.
    pub samples: usize,
}

/// What the watcher of a run wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Go on.
    Continue,
    /// Save a checkpoint and end the run after this step.
    Stop,
}
