//! The end of a run that no longer improves.

use serde::{Deserialize, Serialize};

use crate::criterion::Criterion;
use crate::error::TrainError;

/// Ends a run after epochs without an improvement; the run returns the model of its best checkpoint,
/// also if it ends by its number of epochs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlyStop {
    /// The metric; `None` is [`RunSettings::criterion`](crate::RunSettings::criterion).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Criterion>,
    /// Epochs without an improvement after which the run ends, at least 1.
    pub patience: u64,
    /// The smallest improvement that counts, in the metric's unit.
    #[serde(default)]
    pub least_gain: f64,
}

impl EarlyStop {
    /// Its metric in a run with this criterion.
    #[must_use]
    pub fn metric_or<'a>(&'a self, criterion: &'a Criterion) -> &'a Criterion {
        self.metric.as_ref().unwrap_or(criterion)
    }

    /// Checks the ranges of all values.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the number that is out of range.
    pub fn validate(&self) -> Result<(), TrainError> {
        let Self { patience, least_gain, .. } = self;
        let is_gain = least_gain.is_finite() && *least_gain >= 0.0;
        TrainError::check(&[
            ("early_stop.patience", patience, *patience > 0, "at least 1 epoch"),
            ("early_stop.least_gain", least_gain, is_gain, "a finite number of at least 0"),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        let stop = |patience, least_gain| EarlyStop { metric: None, patience, least_gain };
        for allowed in [stop(1, 0.0), stop(9, 0.5)] {
            assert!(allowed.validate().is_ok(), "{allowed:?}");
        }
        for (refused, message) in [
            (stop(0, 0.0), "`early_stop.patience` is 0"),
            (stop(1, -0.5), "`early_stop.least_gain` is -0.5"),
            (stop(1, f64::INFINITY), "`early_stop.least_gain` is inf"),
            (stop(1, f64::NAN), "`early_stop.least_gain` is NaN"),
        ] {
            let error = refused.validate().expect_err(message).to_string();
            assert!(error.starts_with(message), "{error}");
        }
        let read: EarlyStop = serde_json::from_str(r#"{"patience":3}"#).expect("the gain is 0");
        assert_eq!(read, stop(3, 0.0));
    }
}
