//! The state of a run between two steps.

use serde::{Deserialize, Serialize};
use updraft_data::LoaderState;
use updraft_precision::LossScaleState;

use crate::criterion::{EpochScore, Record};
use crate::metric::{Evaluation, LossSums, stored};
use crate::plateau::PlateauState;

/// The state of a run between two steps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunState {
    /// Updates made.
    pub step: u64,
    /// The epoch the next batch belongs to, counted from 0.
    pub epoch: u64,
    /// The position in that epoch's stream; `None` before its first batch.
    pub loader: Option<LoaderState>,
    /// The epoch's losses so far.
    pub sums: LossSums,
    /// The epoch's score so far, as the task's score serializes; null before its first batch.
    pub epoch_score: serde_json::Value,
    /// Updates skipped in a row because a number was not finite.
    pub skipped_in_a_row: u64,
    /// The state of the loss scale, where there is one.
    pub loss_scale: Option<LossScaleState>,
    /// Updates of the average of the parameters, where one is kept.
    pub ema_updates: Option<u64>,
    /// The metrics of the test data, where an epoch ends here.
    #[serde(with = "stored")]
    pub test: Option<Evaluation>,
    /// The criterion's value, where an epoch ends here.
    pub(crate) score: Option<EpochScore>,
    /// The best epoch so far.
    pub(crate) best: Record,
    /// The state of the learning rate's reductions.
    pub(crate) plateau: PlateauState,
}

/// The content of a checkpoint's state file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredState {
    #[serde(flatten)]
    pub(super) run: RunState,
    /// The paths of trained parameters that the optimizer kept no state of.
    pub(super) without_optimizer_state: Vec<String>,
}

impl RunState {
    /// The criterion's value, where an epoch ends here.
    #[must_use]
    pub fn score(&self) -> Option<f64> {
        self.score.as_ref().map(EpochScore::value)
    }
}
