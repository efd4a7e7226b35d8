//! Where a run stands between two steps.

use serde::{Deserialize, Serialize};
use updraft_data::LoaderState;
use updraft_precision::LossScaleState;

use crate::criterion::Record;
use crate::events::Evaluation;
use crate::plateau::PlateauState;

/// Where a run stands between two steps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunState {
    /// Updates made.
    pub step: u64,
    /// The epoch the next batch belongs to, counted from 0.
    pub epoch: u64,
    /// Where that epoch's stream stands; `None` before its first batch.
    pub loader: Option<LoaderState>,
    /// The epoch's sums so far.
    pub sums: EpochSums,
    /// Updates left out in a row, because something was not finite.
    pub skipped_in_a_row: u64,
    /// Where the loss scale stands, where there is one.
    pub loss_scale: Option<LossScaleState>,
    /// How often the average of the parameters moved, where one is kept.
    pub ema_updates: Option<u64>,
    /// The test data's verdict, where an epoch ends here.
    pub test: Option<Evaluation>,
    /// The bits of the epoch's number by which epochs are compared, where one ends here.
    pub(crate) score_bits: Option<u64>,
    /// The best epoch so far.
    pub(crate) best: Record,
    /// Where the learning rate's reductions stand.
    pub(crate) plateau: PlateauState,
}

/// What a checkpoint's state file says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredState {
    #[serde(flatten)]
    pub(super) run: RunState,
    /// The paths of trained parameters that the optimizer kept no state of; unknown of files that
    /// were written before it was noted.
    #[serde(default)]
    pub(super) without_optimizer_state: Option<Vec<String>>,
}

impl RunState {
    /// The number by which the epoch that ends here is compared with others.
    #[must_use]
    pub fn score(&self) -> Option<f64> {
        self.score_bits.map(f64::from_bits)
    }
}

/// Running sums of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct EpochSums {
    /// The bits of the `f64` sum of losses, one per sample: JSON readers may round a decimal.
    loss_sum_bits: u64,
    /// Samples classified correctly, where targets are classes.
    pub correct: Option<usize>,
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
    pub fn add(&mut self, mean_loss: f64, correct: Option<usize>, samples: usize) {
        self.loss_sum_bits = (self.loss_sum() + mean_loss * samples as f64).to_bits();
        if let Some(correct) = correct {
            *self.correct.get_or_insert(0) += correct;
        }
        self.samples += samples;
    }
}
