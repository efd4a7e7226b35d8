//! The bottleneck attention module: one weight for each value of the feature maps.

use burn::module::Module;
use burn::nn::conv::Conv2dConfig;
use burn::nn::{BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::{Device, Tensor, assert_shape};
use serde::{Deserialize, Serialize};
use updraft_conv::{Activation, BatchNorm, Conv2d, ConvNormActivation};
use updraft_transformer::timed_linear;

use super::error::AttentionConfigError;
use crate::global_pooling::{means, per_map};

/// The configuration of a [`Bam`].
///
/// # Example
/// ```
/// use burn::tensor::{Device, Tensor};
/// use updraft_models::BamConfig;
///
/// let device = Device::flex();
/// let attention = BamConfig::new(64).init(&device);
/// assert_eq!(attention.forward(Tensor::ones([2, 64, 8, 8], &device)).dims(), [2, 64, 8, 8]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BamConfig {
    /// Channels of the feature maps.
    pub channels: usize,
    /// The hidden features of both branches are `channels / reduction`, at least 1.
    pub reduction: usize,
    /// The dilation of the convolutions in the spatial branch.
    pub dilation: usize,
}

impl BamConfig {
    /// Attention for feature maps with `channels` channels, a reduction of 16 and a dilation of 4,
    /// as in the paper.
    #[must_use]
    pub const fn new(channels: usize) -> Self {
        Self { channels, reduction: 16, dilation: 4 }
    }

    /// Sets [`reduction`](Self::reduction).
    #[must_use]
    pub const fn with_reduction(mut self, reduction: usize) -> Self {
        self.reduction = reduction;
        self
    }

    /// Sets [`dilation`](Self::dilation).
    #[must_use]
    pub const fn with_dilation(mut self, dilation: usize) -> Self {
        self.dilation = dilation;
        self
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`AttentionConfigError`] for the first number that is 0.
    pub fn validate(&self) -> Result<(), AttentionConfigError> {
        AttentionConfigError::check(&[
            ("channels", self.channels),
            ("reduction", self.reduction),
            ("dilation", self.dilation),
        ])
    }

    /// Creates a module with random parameters.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> Bam {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let Self { channels, dilation, .. } = *self;
        let hidden = (channels / self.reduction).max(1);
        let norm = |channels| BatchNorm::new(&BatchNormConfig::new(channels), device);
        let pointwise = |from, to| Conv2d::new(&Conv2dConfig::new([from, to], [1, 1]), device);
        let dilated = || {
            let padding = PaddingConfig2d::Explicit(dilation, dilation, dilation, dilation);
            let conv = Conv2dConfig::new([hidden; 2], [3, 3])
                .with_dilation([dilation; 2])
                .with_padding(padding);
            let conv = Conv2d::new(&conv, device);
            ConvNormActivation::new(conv, norm(hidden), Activation::Relu)
        };
        Bam {
            squeeze: LinearConfig::new(channels, hidden).init(device),
            expand: LinearConfig::new(hidden, channels).init(device),
            channel_norm: norm(channels),
            reduce: pointwise(channels, hidden),
            dilated: vec![dilated(), dilated()],
            collapse: pointwise(hidden, 1),
            position_norm: norm(1),
        }
    }
}

/// The bottleneck attention module: `x + x·σ(c(x) + s(x))`.
///
/// `c(x) = norm(W₂ relu(W₁ mean(x)))` has one value per channel, `s(x)` one per position: a
/// pointwise convolution, two dilated ones with normalization and `ReLU`, and a pointwise one to a
/// single channel with normalization.
///
/// The normalization of `c(x)` is over the batch: with a single image in training, its result is β,
/// and the channels are not weighted.
///
/// # Source
/// Park et al. 2018, arXiv:1807.06514, equations 2 to 4, but `c(x)` is normalized last, and there
/// is no normalization after the first convolution of `s(x)`.
#[derive(Module, Debug)]
pub struct Bam {
    squeeze: Linear,
    expand: Linear,
    channel_norm: BatchNorm,
    reduce: Conv2d,
    dilated: Vec<ConvNormActivation>,
    collapse: Conv2d,
    position_norm: BatchNorm,
}

impl Bam {
    /// Weights `[batch, channels, height, width]`; returns the same shape.
    ///
    /// # Panics
    /// If the second axis is not the configuration's channels.
    #[must_use]
    pub fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        let [channels, _] = self.squeeze.weight.lazy_shape().dims();
        assert_shape!(maps, [_, channels, _, _]);
        let hidden = relu(timed_linear(&self.squeeze, means(maps.clone())));
        let of_channels = self.channel_norm.forward(timed_linear(&self.expand, hidden));
        let reduced = self.reduce.forward(maps.clone());
        let seen = self.dilated.iter().fold(reduced, |maps, layer| layer.forward(maps));
        let of_positions = self.position_norm.forward(self.collapse.forward(seen));
        let weights = sigmoid(per_map(of_channels) + of_positions);
        maps.clone() + maps * weights
    }
}
