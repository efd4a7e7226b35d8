//! The number by which one epoch is better than another.

use serde::{Deserialize, Serialize};

use crate::events::EpochReport;

/// Which of an epoch's numbers says how good it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criterion {
    /// The share of test samples classified correctly; more is better. Values have none.
    #[default]
    TestAccuracy,
    /// The mean loss on the test data; less is better.
    TestLoss,
    /// The mean loss on the training data, each batch before its update; less is better.
    TrainLoss,
}

impl Criterion {
    /// The number of an epoch; `None` where there was no test data, or no classes to be right about.
    #[must_use]
    pub fn value(self, report: &EpochReport) -> Option<f64> {
        match self {
            Self::TestAccuracy => report.test.and_then(|test| test.accuracy),
            Self::TestLoss => report.test.map(|test| test.loss),
            Self::TrainLoss => Some(report.train_loss),
        }
    }

    /// Whether the number comes from test data.
    #[must_use]
    pub fn needs_test_data(self) -> bool {
        self != Self::TrainLoss
    }

    /// By how much `new` is better than `old`, in the number's own unit; negative if it is worse.
    #[must_use]
    pub fn gain(self, new: f64, old: f64) -> f64 {
        match self {
            Self::TestAccuracy => new - old,
            Self::TestLoss | Self::TrainLoss => old - new,
        }
    }
}

/// The best epoch so far, and how long ago it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The bits of the best number; JSON readers may round a decimal.
    best_bits: Option<u64>,
    /// Epochs since.
    pub(crate) waited: u64,
}

impl Record {
    /// Takes an epoch's number; it is a new best if it gains more than `least`.
    ///
    /// A number that is not one is never better.
    pub(crate) fn take(&mut self, criterion: Criterion, value: f64, least: f64) {
        let best = self.best_bits.map(f64::from_bits);
        let is_better = best.map_or(!value.is_nan(), |best| criterion.gain(value, best) > least);
        if is_better {
            *self = Self { best_bits: Some(value.to_bits()), waited: 0 };
        } else {
            self.waited += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_the_best_if_it_gains_enough_and_never_with_nan() {
        let waits = |criterion, least, values: &[f64]| -> Vec<u64> {
            let mut record = Record::default();
            let take = |value: &f64| {
                record.take(criterion, *value, least);
                record.waited
            };
            values.iter().map(take).collect()
        };
        let values = [0.5, 0.6, 0.6, 0.55, 0.7, f64::NAN];
        assert_eq!(waits(Criterion::TestAccuracy, 0.0, &values), [0, 0, 1, 2, 0, 1]);
        assert_eq!(waits(Criterion::TestAccuracy, 0.15, &values), [0, 1, 2, 3, 0, 1]);
        assert_eq!(waits(Criterion::TestLoss, 0.0, &values), [0, 1, 2, 3, 4, 5]);
        assert_eq!(waits(Criterion::TrainLoss, 0.0, &[f64::NAN, 2.0, 1.0]), [1, 0, 0]);
    }
}
