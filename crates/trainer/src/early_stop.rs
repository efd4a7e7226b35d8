//! The end of a run that no longer improves.

use serde::{Deserialize, Serialize};

use crate::error::TrainError;

/// Ends a run after epochs without an improvement and returns the model of its best checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlyStop {
    /// Epochs without an improvement after which the run ends, at least 1.
    pub patience: u64,
    /// The smallest improvement that counts, in the criterion's unit.
    #[serde(default)]
    pub least_gain: f64,
}

impl EarlyStop {
    /// Checks the ranges of all values.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the number that is out of range.
    pub fn validate(&self) -> Result<(), TrainError> {
        let Self { patience, least_gain } = self;
        let is_gain = least_gain.is_finite() && *least_gain >= 0.0;
        TrainError::check(&[
            ("early_stop.patience", patience, *patience > 0, "at least 1 epoch"),
            ("early_stop.least_gain", least_gain, is_gain, "a finite number of at least 0"),
        ])
    }
}
