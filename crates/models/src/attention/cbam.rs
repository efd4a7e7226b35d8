//! The convolutional block attention module: weights for channels, then for positions.

use burn::module::Module;
use burn::nn::conv::Conv2dConfig;
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::{Device, Tensor, assert_shape};
use serde::{Deserialize, Serialize};
use updraft_conv::Conv2d;
use updraft_transformer::timed_linear;

use super::error::AttentionConfigError;
use crate::global_pooling::{maxima, means, per_map};

/// The configuration of a [`Cbam`].
///
/// # Example
/// ```
/// use burn::tensor::{Device, Tensor};
/// use updraft_models::CbamConfig;
///
/// let device = Device::flex();
/// let attention = CbamConfig::new(64).init(&device);
/// assert_eq!(attention.forward(Tensor::ones([2, 64, 8, 8], &device)).dims(), [2, 64, 8, 8]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CbamConfig {
    /// Channels of the feature maps.
    pub channels: usize,
    /// The hidden features of the channel branch are `channels / reduction`, at least 1.
    pub reduction: usize,
}

/// The kernel size of the spatial branch: section 3 of the paper.
const KERNEL: usize = 7;

impl CbamConfig {
    /// Attention for feature maps with `channels` channels, with a reduction of 16.
    #[must_use]
    pub const fn new(channels: usize) -> Self {
        Self { channels, reduction: 16 }
    }

    /// Sets [`reduction`](Self::reduction).
    #[must_use]
    pub const fn with_reduction(mut self, reduction: usize) -> Self {
        self.reduction = reduction;
        self
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`AttentionConfigError`] for the first number that is 0.
    pub fn validate(&self) -> Result<(), AttentionConfigError> {
        AttentionConfigError::check(&[("channels", self.channels), ("reduction", self.reduction)])
    }

    /// Creates a module with random parameters.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> Cbam {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let hidden = (self.channels / self.reduction).max(1);
        let linear =
            |inputs, outputs| LinearConfig::new(inputs, outputs).with_bias(false).init(device);
        let half = KERNEL / 2;
        let positions = Conv2dConfig::new([2, 1], [KERNEL; 2])
            .with_padding(PaddingConfig2d::Explicit(half, half, half, half))
            .with_bias(false);
        Cbam {
            reduce: linear(self.channels, hidden),
            expand: linear(hidden, self.channels),
            positions: Conv2d::new(&positions, device),
        }
    }
}

/// The convolutional block attention module: `y = x·c(x)`, then `y·s(y)`.
///
/// `c(x) = σ(W₂ relu(W₁ mean(x)) + W₂ relu(W₁ max(x)))` has a weight for each channel, and `s(y) =
/// σ(conv([mean; max]))` one for each position, a 7×7 convolution of the mean and the maximum over
/// the channels.
///
/// # Source
/// Woo et al. 2018, arXiv:1807.06521, equations 1 to 3.
#[derive(Module, Debug)]
pub struct Cbam {
    reduce: Linear,
    expand: Linear,
    positions: Conv2d,
}

impl Cbam {
    /// Weights `[batch, channels, height, width]`; returns the same shape.
    ///
    /// # Panics
    /// If the second axis is not the configuration's channels.
    #[must_use]
    pub fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        let [channels, _] = self.reduce.weight.lazy_shape().dims();
        assert_shape!(maps, [_, channels, _, _]);
        let perceptron =
            |numbers| timed_linear(&self.expand, relu(timed_linear(&self.reduce, numbers)));
        let weights = perceptron(means(maps.clone())) + perceptron(maxima(maps.clone()));
        let maps = maps * per_map(sigmoid(weights));
        let pooled = Tensor::cat(vec![maps.clone().mean_dim(1), maps.clone().max_dim(1)], 1);
        maps * sigmoid(self.positions.forward(pooled))
    }
}
