//! Objectives of a study.

use serde::{Deserialize, Serialize};

/// Whether an objective is minimized or maximized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Lower is better.
    Minimize,
    /// Higher is better.
    Maximize,
}

impl Direction {
    /// The value as a loss: negated if higher is better.
    #[must_use]
    pub fn loss(self, value: f64) -> f64 {
        match self {
            Self::Minimize => value,
            Self::Maximize => -value,
        }
    }
}

/// A number that every trial returns, and its direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objective {
    /// Its name, such as `test-accuracy`.
    pub name: String,
    /// Whether it is minimized or maximized.
    pub direction: Direction,
}

/// The values of a trial as losses, so that lower is better.
pub(crate) fn losses(objectives: &[Objective], values: &[f64]) -> Vec<f64> {
    objectives.iter().zip(values).map(|(it, &value)| it.direction.loss(value)).collect()
}
