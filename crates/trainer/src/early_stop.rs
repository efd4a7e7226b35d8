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
    /// Checks the ranges of its numbers.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the number that is out of range.
    pub fn validate(&self) -> Result<(), TrainError> {
        if self.patience == 0 {
            return Err(TrainError::setting(
                "early_stop.patience",
                "0".to_owned(),
                "at least 1 epoch",
            ));
        }
        if !(self.least_gain.is_finite() && self.least_gain >= 0.0) {
            return Err(TrainError::setting(
                "early_stop.least_gain",
                self.least_gain.to_string(),
                "a finite number of at least 0",
            ));
        }
        Ok(())
    }
}
