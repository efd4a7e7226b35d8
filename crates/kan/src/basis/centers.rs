//! Functions that are copies of one bump around centers.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use super::kind::BasisError;
use super::number::Number;

/// The centers of a basis: evenly from `low` to `high`, with a width equal to their distance.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default, deny_unknown_fields))]
pub struct Centers {
    /// How many functions there are.
    pub functions: usize,
    /// The first center, in units of the input.
    pub low: f64,
    /// The last center, in units of the input.
    pub high: f64,
}

/// Eight functions from −2 to 2, as fast-kan has them.
impl Default for Centers {
    fn default() -> Self {
        Self { functions: 8, low: -2.0, high: 2.0 }
    }
}

impl Centers {
    pub(super) fn validate(&self) -> Result<(), BasisError> {
        let Self { functions, low, high } = *self;
        // A single function has no neighbor.
        if functions < 2 {
            return Err(BasisError::Functions { functions, least: 2 });
        }
        if !(low.is_finite() && high.is_finite() && low < high) {
            return Err(BasisError::Domain { low, high });
        }
        Ok(())
    }

    /// The centers, then the reciprocal of the width.
    pub(super) fn parameters(&self) -> Vec<f64> {
        let step = (self.high - self.low) / (self.functions - 1) as f64;
        let centers = (0..self.functions).map(|index| self.low + step * index as f64);
        centers.chain([1.0 / step]).collect()
    }
}

/// `bump(u)` with `u = (x − center)·reciprocal`, for each center.
pub(super) fn bumps<V: Number>(x: &V, parameters: &[V], bump: impl Fn(V, &V) -> V) -> Vec<V> {
    let (reciprocal, centers) = parameters.split_last().expect("there is a width");
    let at = |center: &V| bump((x.clone() - center.clone()) * reciprocal.clone(), reciprocal);
    centers.iter().map(at).collect()
}
