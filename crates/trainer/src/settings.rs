//! What a run is to do, and whether it can.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use updraft_precision::LossScale;

use crate::checkpoint::Keep;
use crate::criterion::Criterion;
use crate::early_stop::EarlyStop;
use crate::ema::EmaConfig;
use crate::error::TrainError;
use crate::guard::NonFinite;
use crate::plateau::Plateau;
use crate::schedule::Schedule;
use crate::step::StepSettings;

/// What a run is to do.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSettings {
    /// Passes over the training data.
    pub epochs: u64,
    /// Seeds everything random on the device; the loaders carry their own.
    pub seed: u64,
    /// The learning rate's peak.
    pub learning_rate: f64,
    /// How the learning rate moves.
    pub schedule: Schedule,
    /// What lowers it further when epochs stop getting better.
    pub plateau: Option<Plateau>,
    /// What each update does.
    pub step: StepSettings,
    /// Whether and how the loss is scaled up for the backward pass.
    pub loss_scale: LossScale,
    /// Batches whose mean gradient makes an update; the last update of an epoch may have fewer.
    pub accumulate: usize,
    /// The average of the parameters that is kept, scored and served.
    pub ema: Option<EmaConfig>,
    /// Where the statistics of the served model's batch norms come from.
    pub batch_norm: BatchNormStatistics,
    /// What makes one epoch better than another.
    pub criterion: Criterion,
    /// What ends the run before its last epoch.
    pub early_stop: Option<EarlyStop>,
    /// When a training batch is moved to the device.
    pub transfer: Transfer,
    /// Where checkpoints go and when.
    pub checkpoints: CheckpointSettings,
}

/// Where the statistics of batch norms come from when a model is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BatchNormStatistics {
    /// From training, which follows them batch by batch.
    #[default]
    Running,
    /// From so many training batches at each epoch's end, all of them for `usize::MAX`.
    Recomputed {
        /// The number of batches, at least 1.
        batches: usize,
    },
}

/// When a training batch is moved to the device; every number is the same either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transfer {
    /// When its step begins.
    #[default]
    WhenUsed,
    /// The first batch of a step before that, when the backward pass of the step before it was
    /// submitted: a device that works by itself computes meanwhile. It holds one batch more.
    ///
    /// On a device that computes on the calling thread, such as flex, nothing can overlap.
    Ahead,
}

/// Where checkpoints go and when they are written.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointSettings {
    /// The folder that holds them.
    pub folder: PathBuf,
    /// Also one after every so many steps, beside the one at each epoch's end.
    pub every_steps: Option<u64>,
    /// How many of the newest are kept; at least one.
    pub keep_last: usize,
    /// How many of the best are kept beside them; early stopping keeps at least one.
    pub keep_best: usize,
}

impl RunSettings {
    /// Checks every number that has a range.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the number that is out of range, or
    /// [`TrainError::Precision`] where the policy cannot train with this loss scale.
    pub fn validate(&self) -> Result<(), TrainError> {
        let refuse =
            |name, value: String, expected| Err(TrainError::Setting { name, value, expected });
        if self.epochs == 0 {
            return refuse("epochs", "0".to_owned(), "at least 1");
        }
        if !(self.learning_rate.is_finite() && self.learning_rate > 0.0) {
            return refuse(
                "learning_rate",
                self.learning_rate.to_string(),
                "a finite number above 0",
            );
        }
        self.step.loss.validate(self.step.label_smoothing)?;
        if let Some(norm) = self.step.clip_norm
            && !(norm.is_finite() && norm > 0.0)
        {
            return refuse("clip_norm", norm.to_string(), "a finite number above 0");
        }
        if self.step.non_finite == (NonFinite::Skip { at_most: 0 }) {
            return refuse("non_finite.at_most", "0".to_owned(), "at least 1");
        }
        self.step
            .policy
            .check_training_scaled(&self.loss_scale)
            .map_err(|source| TrainError::Precision { source })?;
        if self.accumulate == 0 {
            return refuse("accumulate", "0".to_owned(), "at least 1 batch");
        }
        if self.batch_norm == (BatchNormStatistics::Recomputed { batches: 0 }) {
            return refuse("recompute_batch_norms", "0".to_owned(), "at least 1 batch");
        }
        if self.checkpoints.keep_last == 0 {
            return refuse("keep_last", "0".to_owned(), "at least 1");
        }
        if self.checkpoints.every_steps == Some(0) {
            return refuse("checkpoint_every_steps", "0".to_owned(), "at least 1");
        }
        self.schedule.validate()?;
        self.plateau.map_or(Ok(()), |plateau| plateau.validate())?;
        self.ema.map_or(Ok(()), |ema| ema.validate())?;
        self.early_stop.map_or(Ok(()), |stop| stop.validate())
    }

    /// Whether an epoch's number decides anything.
    pub(crate) fn compares_epochs(&self) -> bool {
        self.plateau.is_some() || self.keep().best > 0
    }

    /// Which checkpoints stay.
    pub(crate) fn keep(&self) -> Keep {
        let for_the_best = usize::from(self.early_stop.is_some());
        Keep {
            last: self.checkpoints.keep_last,
            best: self.checkpoints.keep_best.max(for_the_best),
            criterion: self.criterion,
        }
    }
}
