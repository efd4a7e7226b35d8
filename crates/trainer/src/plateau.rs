//! The learning rate, reduced when a metric stops improving.

use serde::{Deserialize, Serialize};

use crate::comparison::{Comparison, Record};
use crate::criterion::Criterion;
use crate::error::TrainError;

/// Multiplies the learning rate by a factor after epochs without an improvement.
///
/// It is combined with the schedule: the rate of a step is `peak · schedule · plateau`.
///
/// # Source
/// The rule of `PyTorch`'s `ReduceLROnPlateau` with an absolute threshold and no cool-down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plateau {
    /// The metric; `None` is [`RunSettings::criterion`](crate::RunSettings::criterion).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Criterion>,
    /// The factor of each reduction, above 0 and below 1.
    #[serde(default = "default_factor")]
    pub factor: f64,
    /// The number of epochs without an improvement that are tolerated; one more reduces the rate.
    #[serde(default = "default_patience")]
    pub patience: u64,
    /// The smallest improvement that counts, in the metric's unit.
    #[serde(default = "default_threshold")]
    pub threshold: f64,
    /// The lower bound of the product of all factors, in `[0, 1]`.
    #[serde(default)]
    pub floor: f64,
}

fn default_factor() -> f64 {
    0.1
}

fn default_patience() -> u64 {
    10
}

fn default_threshold() -> f64 {
    1e-4
}

impl Default for Plateau {
    fn default() -> Self {
        Self {
            metric: None,
            factor: default_factor(),
            patience: default_patience(),
            threshold: default_threshold(),
            floor: 0.0,
        }
    }
}

impl Plateau {
    /// Checks the ranges of all values.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the number that is out of range.
    pub fn validate(&self) -> Result<(), TrainError> {
        let Self { factor, threshold, floor, .. } = self;
        let is_factor = *factor > 0.0 && *factor < 1.0;
        let is_threshold = (0.0..f64::INFINITY).contains(threshold);
        let is_floor = (0.0..=1.0).contains(floor);
        TrainError::check(&[
            ("plateau.factor", factor, is_factor, "above 0 and below 1"),
            ("plateau.threshold", threshold, is_threshold, "a finite number of at least 0"),
            ("plateau.floor", floor, is_floor, "a factor between 0 and 1"),
        ])
    }
}

/// The state of a plateau between two epochs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct PlateauState {
    record: Record,
    /// The number of reductions.
    reductions: u32,
}

impl PlateauState {
    /// The factor in force.
    pub(crate) fn factor(&self, plateau: &Plateau) -> f64 {
        let exponent = i32::try_from(self.reductions).unwrap_or(i32::MAX);
        plateau.factor.powi(exponent).max(plateau.floor)
    }

    /// Takes an epoch's number.
    pub(crate) fn take(&mut self, plateau: &Plateau, compared: &Comparison, value: f64) {
        self.record.take(compared, value, plateau.threshold);
        if self.record.waited > plateau.patience {
            self.reductions += 1;
            self.record.waited = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::compared;
    use crate::metric::Direction;

    #[test]
    fn the_rate_follows_the_written_out_table() {
        let plateau =
            Plateau { metric: None, factor: 0.5, patience: 1, threshold: 0.01, floor: 0.2 };
        let loss = compared("test-loss", Direction::LowerIsBetter);
        let mut state = PlateauState::default();
        let losses = [1.0, 0.8, 0.795, 0.8, 0.9, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5];
        let expected = [1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2];
        for (epoch, (value, expected)) in losses.into_iter().zip(expected).enumerate() {
            state.take(&plateau, &loss, value);
            assert_eq!(state.factor(&plateau), expected, "after epoch {epoch}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        let cases = [
            (Plateau { factor: 1.0, ..Plateau::default() }, "`plateau.factor` is 1"),
            (Plateau { factor: 0.0, ..Plateau::default() }, "`plateau.factor` is 0"),
            (Plateau { threshold: -1.0, ..Plateau::default() }, "`plateau.threshold` is -1"),
            (Plateau { threshold: f64::INFINITY, ..Plateau::default() }, "`plateau.threshold` is"),
            (Plateau { floor: 2.0, ..Plateau::default() }, "`plateau.floor` is 2"),
            (Plateau { floor: -0.5, ..Plateau::default() }, "`plateau.floor` is -0.5"),
        ];
        for (plateau, message) in cases {
            let error = plateau.validate().expect_err("out of range").to_string();
            assert!(error.starts_with(message), "{error}");
        }
        for (threshold, floor) in [(1e-4, 0.0), (0.0, 1.0)] {
            let plateau = Plateau { threshold, floor, ..Plateau::default() };
            assert!(plateau.validate().is_ok(), "{plateau:?}");
        }
        // Those of PyTorch.
        let read: Plateau = serde_json::from_str("{}").expect("all numbers have defaults");
        let expected =
            Plateau { metric: None, factor: 0.1, patience: 10, threshold: 1e-4, floor: 0.0 };
        assert_eq!([&read, &Plateau::default()], [&expected; 2]);
    }
}
