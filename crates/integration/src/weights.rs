//! The weight of each stream, as applied at each place.

use std::fmt;

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// Where in the network streams are integrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// After the residual blocks of a stage, counted from 0.
    Stage(usize),
    /// After pooling, before the classifier.
    Pooled,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stage(index) => write!(formatter, "stage {index}"),
            Self::Pooled => formatter.write_str("pooled"),
        }
    }
}

/// The weights that one integration applies to every sample; they sum to one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StageWeights {
    /// Where they are applied.
    pub stage: Place,
    /// α, the color pathway's.
    pub color: f64,
    /// β, the brightness pathway's.
    pub brightness: f64,
    /// γ, the carried stream's, or `None` without a stream.
    pub stream: Option<f64>,
}

/// The weights that one integration applied to the samples of a batch, part of the graph.
#[derive(Debug, Clone)]
pub struct PlaceWeights {
    /// Where they were applied.
    pub place: Place,
    /// `[batch, streams]`: the columns are color, brightness and, where one arrives, the integrated
    /// stream. Each row sums to one. In f32, and in f64 for parameters in f64.
    pub weights: Tensor<2>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_print_for_a_table() {
        assert_eq!(Place::Stage(1).to_string(), "stage 1");
        assert_eq!(Place::Pooled.to_string(), "pooled");
    }
}
