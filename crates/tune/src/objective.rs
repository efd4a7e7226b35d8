//! What a study looks for: a number of each trial, and whether less or more of it is better.

use serde::{Deserialize, Serialize};

/// Whether less or more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Less is better.
    Minimize,
    /// More is better.
    Maximize,
}

impl Direction {
    /// The value as one of which less is better.
    #[must_use]
    pub fn loss(self, value: f64) -> f64 {
        match self {
            Self::Minimize => value,
            Self::Maximize => -value,
        }
    }
}

/// A number of each trial, and whether less or more of it is better.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objective {
    /// What it is called, such as `test-accuracy`.
    pub name: String,
    /// Whether less or more is better.
    pub direction: Direction,
}

/// The values of a trial, as numbers of which less is better.
pub(crate) fn losses(objectives: &[Objective], values: &[f64]) -> Vec<f64> {
    objectives.iter().zip(values).map(|(it, &value)| it.direction.loss(value)).collect()
}
