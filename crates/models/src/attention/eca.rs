//! Efficient channel attention: a weight for each channel from its neighboring channels.

use burn::module::Module;
use burn::nn::PaddingConfig1d;
use burn::nn::conv::Conv1dConfig;
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Tensor, assert_shape};
use serde::{Deserialize, Serialize};
use updraft_conv::Conv1d;

use super::error::AttentionConfigError;
use crate::global_pooling::{means, per_map};

/// The configuration of an [`Eca`].
///
/// # Example
/// ```
/// use burn::tensor::{Device, Tensor};
/// use updraft_models::EcaConfig;
///
/// let device = Device::flex();
/// let attention = EcaConfig::new(64).init(&device);
/// assert_eq!(attention.forward(Tensor::ones([2, 64, 8, 8], &device)).dims(), [2, 64, 8, 8]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EcaConfig {
    /// Channels of the feature maps.
    pub channels: usize,
}

impl EcaConfig {
    /// Attention for feature maps with `channels` channels.
    #[must_use]
    pub const fn new(channels: usize) -> Self {
        Self { channels }
    }

    /// The kernel size: `t` if it is odd, else `t + 1`, with `t = ⌊(log₂ channels + 1)/2⌋`.
    ///
    /// # Source
    /// Wang et al. 2020, arXiv:1910.03151, equation 12 with γ = 2 and b = 1.
    #[must_use]
    pub fn kernel_size(&self) -> usize {
        // `⌊(log₂ c + 1)/2⌋` equals `⌊(⌊log₂ c⌋ + 1)/2⌋`.
        let half = self.channels.max(1).ilog2().div_ceil(2) as usize;
        if half % 2 == 1 { half } else { half + 1 }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`AttentionConfigError`] if there are no channels.
    pub fn validate(&self) -> Result<(), AttentionConfigError> {
        AttentionConfigError::check(&[("channels", self.channels)])
    }

    /// Creates a module with random parameters.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> Eca {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let kernel = self.kernel_size();
        let conv = Conv1dConfig::new(1, 1, kernel)
            .with_padding(PaddingConfig1d::Explicit(kernel / 2, kernel / 2))
            .with_bias(false);
        Eca { conv: Conv1d::new(&conv, device) }
    }
}

/// Efficient channel attention: `x·σ(conv(mean(x)))`.
///
/// `mean(x)` has one number for each channel, and the convolution runs along the channels, so that
/// each weight depends on a few neighboring channels.
///
/// # Source
/// Wang et al. 2020, arXiv:1910.03151, section 3.2.
#[derive(Module, Debug)]
pub struct Eca {
    conv: Conv1d,
}

impl Eca {
    /// Weights the channels of `[batch, channels, height, width]`; returns the same shape.
    #[must_use]
    pub fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        assert_shape!(maps, [_, _, _, _]);
        let line = means(maps.clone()).unsqueeze_dim::<3>(1);
        let weights = sigmoid(self.conv.forward(line));
        maps * per_map(weights.squeeze_dim(1))
    }
}
