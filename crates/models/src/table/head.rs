//! The heads of a network: one output for each target.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};
use updraft_transformer::fused_linear;

use crate::error::TableNetConfigError;

/// What one output of a network is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Head {
    /// Numbers: one value, several, or the quantiles of one.
    Numbers(usize),
    /// One of several classes, with a logit for each; at least 2.
    Classes(usize),
    /// Any number of labels, with a logit for each.
    Labels(usize),
    /// One of several ordered classes; for each but the first, the logit that the class is at least
    /// that one; at least 2.
    Ordered(usize),
}

impl Head {
    /// How many numbers the output has.
    #[must_use]
    pub const fn width(self) -> usize {
        match self {
            Self::Numbers(count) | Self::Classes(count) | Self::Labels(count) => count,
            Self::Ordered(count) => count.saturating_sub(1),
        }
    }

    const fn is_valid(self) -> bool {
        match self {
            Self::Numbers(count) | Self::Labels(count) => count > 0,
            Self::Classes(count) | Self::Ordered(count) => count > 1,
        }
    }
}

pub(crate) fn validate(heads: &[Head]) -> Result<(), TableNetConfigError> {
    if heads.is_empty() {
        return Err(TableNetConfigError::NoHeads);
    }
    match heads.iter().position(|head| !head.is_valid()) {
        Some(index) => Err(TableNetConfigError::Head { index, head: heads[index] }),
        None => Ok(()),
    }
}

/// A linear layer for each target.
#[derive(Module, Debug)]
pub(crate) struct Heads {
    layers: Vec<Linear>,
}

impl Heads {
    pub(crate) fn new(features: usize, heads: &[Head], device: &Device) -> Self {
        let layer = |head: &Head| LinearConfig::new(features, head.width()).init(device);
        Self { layers: heads.iter().map(layer).collect() }
    }

    pub(crate) fn layers(&self) -> &[Linear] {
        &self.layers
    }

    /// The outputs, `[rows, width]` each.
    pub(crate) fn forward(&self, features: &Tensor<2>) -> Vec<Tensor<2>> {
        self.layers.iter().map(|layer| fused_linear(layer, features.clone())).collect()
    }
}
