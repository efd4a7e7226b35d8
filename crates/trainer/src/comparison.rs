//! The metrics that compare the epochs of a run, and their values.

use serde::{Deserialize, Serialize};

use crate::bits::Bits;
use crate::criterion::{Criterion, Split};
use crate::error::TrainError;
use crate::events::EpochReport;
use crate::metric::{Direction, MetricSpec};
use crate::settings::RunSettings;

/// The metric of each decision that compares epochs.
pub(crate) struct Comparisons {
    pub(crate) early_stop: Comparison,
    pub(crate) plateau: Comparison,
    pub(crate) best: Comparison,
}

/// A metric that compares epochs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Comparison {
    pub(crate) criterion: Criterion,
    pub(crate) direction: Direction,
}

impl Comparisons {
    /// The metrics of a run whose task has `metrics`.
    ///
    /// # Errors
    /// [`TrainError::Setting`] for a metric that the task does not have, or that needs test data if
    /// there is none and epochs are compared by it.
    pub(crate) fn new(
        settings: &RunSettings,
        metrics: &[MetricSpec],
        has_test_data: bool,
    ) -> Result<Self, TrainError> {
        settings.criterion.direction(metrics)?;
        let chosen = |name, own: Option<&Criterion>, is_used| {
            let (setting, criterion) = match own {
                Some(own) => (name, own),
                None => ("criterion", &settings.criterion),
            };
            let direction = criterion.direction_of(setting, metrics)?;
            if is_used && criterion.split == Split::Test && !has_test_data {
                let value = format!("`{criterion}`, and there is no test data");
                return Err(TrainError::setting(setting, value, "a metric of the training data"));
            }
            Ok(Comparison { criterion: criterion.clone(), direction })
        };
        let (early_stop, plateau) = (settings.early_stop.as_ref(), settings.plateau.as_ref());
        let checkpoints = &settings.checkpoints;
        Ok(Self {
            early_stop: chosen(
                "early_stop.metric",
                early_stop.and_then(|stop| stop.metric.as_ref()),
                early_stop.is_some(),
            )?,
            plateau: chosen(
                "plateau.metric",
                plateau.and_then(|plateau| plateau.metric.as_ref()),
                plateau.is_some(),
            )?,
            best: chosen(
                "checkpoints.best_metric",
                checkpoints.best_metric.as_ref(),
                checkpoints.keep_best > 0,
            )?,
        })
    }

    /// The values by which checkpoints are compared: of early stopping and of the best that are
    /// kept.
    pub(crate) fn scores(&self, report: &EpochReport) -> Vec<EpochScore> {
        let mut scores: Vec<_> = self.early_stop.score(report).into_iter().collect();
        if self.best != self.early_stop {
            scores.extend(self.best.score(report));
        }
        scores
    }
}

impl Comparison {
    /// The value in an epoch; `None` if it was not measured or is not defined.
    pub(crate) fn value(&self, report: &EpochReport) -> Option<f64> {
        self.criterion.value(report)
    }

    fn score(&self, report: &EpochReport) -> Option<EpochScore> {
        let value = self.value(report)?;
        Some(EpochScore { of: self.clone(), bits: Bits::of(value) })
    }
}

/// A metric's value at a checkpoint that ends an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EpochScore {
    #[serde(flatten)]
    pub(crate) of: Comparison,
    /// The bits of the value, because JSON readers may round decimals.
    bits: Bits,
}

impl EpochScore {
    pub(crate) fn value(&self) -> f64 {
        self.bits.number()
    }
}

/// The best value so far, and the number of epochs since.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The metric; a value of another metric starts a new record.
    of: Option<Comparison>,
    /// The bits of the best value, because JSON readers may round decimals.
    best_bits: Option<Bits>,
    /// Epochs since.
    pub(crate) waited: u64,
}

impl Record {
    /// Records an epoch's value; it is the new best if it is better by more than `least`; NaN never
    /// is.
    pub(crate) fn take(&mut self, of: &Comparison, value: f64, least: f64) {
        if self.of.as_ref() != Some(of) {
            *self = Self { of: Some(of.clone()), ..Self::default() };
        }
        let best = self.best_bits.map(Bits::number);
        let is_better = best.map_or(!value.is_nan(), |best| of.direction.gain(value, best) > least);
        if is_better {
            (self.best_bits, self.waited) = (Some(Bits::of(value)), 0);
        } else {
            self.waited += 1;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn compared(text: &str, direction: Direction) -> Comparison {
        Comparison { criterion: text.parse().expect("a criterion"), direction }
    }

    pub(crate) fn scored(of: Comparison, value: f64) -> EpochScore {
        EpochScore { of, bits: Bits::of(value) }
    }

    #[test]
    fn an_epoch_is_the_best_if_it_gains_enough_and_never_with_nan() {
        let waits = |direction, least, values: &[f64]| -> Vec<u64> {
            let mut record = Record::default();
            let take = |value: &f64| {
                record.take(&compared("test-a", direction), *value, least);
                record.waited
            };
            values.iter().map(take).collect()
        };
        let values = [0.5, 0.6, 0.6, 0.55, 0.7, f64::NAN];
        assert_eq!(waits(Direction::HigherIsBetter, 0.0, &values), [0, 0, 1, 2, 0, 1]);
        assert_eq!(waits(Direction::HigherIsBetter, 0.15, &values), [0, 1, 2, 3, 0, 1]);
        assert_eq!(waits(Direction::LowerIsBetter, 0.0, &values), [0, 1, 2, 3, 4, 5]);
        assert_eq!(waits(Direction::LowerIsBetter, 0.0, &[f64::NAN, 2.0, 1.0]), [1, 0, 0]);
    }

    #[test]
    fn a_record_of_another_metric_begins_anew() {
        let loss = compared("test-loss", Direction::LowerIsBetter);
        let accuracy = compared("test-accuracy", Direction::HigherIsBetter);
        let mut record = Record::default();
        record.take(&loss, 0.9, 0.0);
        record.take(&loss, 1.0, 0.0);
        assert_eq!(record.waited, 1);
        record.take(&accuracy, 0.3, 0.0);
        assert_eq!(record.waited, 0, "0.3 is no worse accuracy than a loss of 0.9");
        record.take(&accuracy, 0.2, 0.0);
        assert_eq!(record.waited, 1);
    }
}
