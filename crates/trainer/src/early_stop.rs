//! The end of a run that no longer gets better.

use serde::{Deserialize, Serialize};

use crate::error::TrainError;

/// Ends a run after epochs without a gain and gives back its best checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlyStop {
    /// Epochs without a gain after which the run ends, at least 1.
    pub patience: u64,
    /// The smallest gain that counts, in the criterion's unit.
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
            return Err(TrainError::Setting {
                name: "early_stop.patience",
                value: "0".to_owned(),
                expected: "at least 1 epoch",
            });
        }
        if !(self.least_gain.is_finite() && self.least_gain >= 0.0) {
            return Err(TrainError::Setting {
                name: "early_stop.least_gain",
                value: self.least_gain.to_string(),
                expected: "a finite number of at least 0",
            });
        }
        Ok(())
    }
}
