//! A network of depthwise-separable convolutions: stem, blocks, pooling and a linear classifier.

use burn::module::{Initializer, Module};
use burn::nn::conv::Conv2dConfig;
use burn::nn::{BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::{Device, Tensor, assert_shape};
use serde::{Deserialize, Serialize};
use updraft_conv::{Activation, BatchNorm, Conv2d, ConvNormActivation};

use crate::config::validate_size;
use crate::error::NetworkConfigError;
use crate::network::{Draw, pool};
use crate::residual::conv_norm;

/// Width of each block as a multiple of the stem's, and its stride: the first five of the source's
/// table 1, with the first already at half the image's size.
const BLOCKS: [(usize, usize); 5] = [(2, 1), (4, 2), (4, 1), (8, 2), (8, 1)];

/// The configuration of a [`SeparableNet`].
///
/// # Example
/// ```
/// use updraft_integration::SeparableConfig;
///
/// let config = SeparableConfig::new(10, 16).with_stem_stride(2);
/// assert!(config.validate().is_ok());
/// assert!(SeparableConfig::new(1, 16).validate().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SeparableConfig {
    /// How many classes the network tells apart.
    pub classes: usize,
    /// The width of the stem; the last block is eight times as wide.
    pub channels: usize,
    /// 1 keeps the image's size, 2 halves it before the first block, at a quarter of the work.
    pub stem_stride: usize,
    /// The probability of dropping a feature before the classifier.
    pub dropout: f64,
}

impl SeparableConfig {
    /// A network at full image size, without dropout.
    #[must_use]
    pub const fn new(classes: usize, channels: usize) -> Self {
        Self { classes, channels, stem_stride: 1, dropout: 0.0 }
    }

    /// Sets [`stem_stride`](Self::stem_stride).
    #[must_use]
    pub const fn with_stem_stride(mut self, stem_stride: usize) -> Self {
        self.stem_stride = stem_stride;
        self
    }

    /// Sets [`dropout`](Self::dropout).
    #[must_use]
    pub const fn with_dropout(mut self, dropout: f64) -> Self {
        self.dropout = dropout;
        self
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value out of its range, by name.
    pub fn validate(&self) -> Result<(), NetworkConfigError> {
        validate_size(self.classes, self.channels, self.stem_stride, self.dropout)
    }

    /// Makes a network with fresh parameters, each drawn here in module order.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) finds a fault; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> SeparableNet {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        SeparableNet::new(self, device)
    }
}

/// Classifies images by depthwise-separable convolutions, each followed by a batch norm and a
/// rectifier.
///
/// The network stays on the device of its parameters and computes in the dtype of its input.
///
/// # Source
/// `MobileNet` v1: Howard et al. 2017, arXiv:1704.04861, section 3 and figure 3, with the first
/// five blocks of its thirteen.
#[derive(Module, Debug)]
pub struct SeparableNet {
    pub(crate) stem: ConvNormActivation,
    pub(crate) blocks: Vec<SeparableBlock>,
    dropout: Dropout,
    classifier: Linear,
}

/// A 3×3 convolution of each channel for itself, then one of 1×1 over all of them.
#[derive(Module, Debug)]
pub(crate) struct SeparableBlock {
    pub(crate) depthwise: ConvNormActivation,
    pub(crate) pointwise: ConvNormActivation,
}

impl SeparableNet {
    fn new(config: &SeparableConfig, device: &Device) -> Self {
        let stem = [3, config.channels];
        let stem = conv_norm(stem, 3, config.stem_stride, Activation::Relu, device);
        let mut input = config.channels;
        let mut blocks = Vec::new();
        for (wide, stride) in BLOCKS {
            let output = wide * config.channels;
            blocks.push(SeparableBlock {
                depthwise: depthwise(input, stride, device),
                pointwise: conv_norm([input, output], 1, 1, Activation::Relu, device),
            });
            input = output;
        }
        let net = Self {
            stem,
            blocks,
            dropout: DropoutConfig::new(config.dropout).init(),
            classifier: LinearConfig::new(input, config.classes).init(device),
        };
        net.visit(&mut Draw);
        net
    }

    /// Classifies images.
    ///
    /// # Shapes
    /// - `rgb`: `[batch, 3, height, width]`
    /// - returns: `[batch, classes]`, not normalized
    ///
    /// # Panics
    /// If the second axis of `rgb` is not 3, or its dtype is not that of the parameters.
    pub fn forward(&self, rgb: Tensor<4>) -> Tensor<2> {
        assert_shape!(rgb, [_, 3, _, _]);
        self.leave((0..self.segments()).fold(rgb, |maps, index| self.segment(index, maps)))
    }

    /// Into how many segments the network can be cut: the stem, and each block.
    pub fn segments(&self) -> usize {
        1 + self.blocks.len()
    }

    /// Runs one segment.
    ///
    /// # Panics
    /// If `index` is not below [`segments`](Self::segments), or `maps` is not what the segment
    /// before it gives.
    #[must_use]
    pub fn segment(&self, index: usize, maps: Tensor<4>) -> Tensor<4> {
        let Some(block) = index.checked_sub(1) else { return self.stem.forward(maps) };
        let SeparableBlock { depthwise, pointwise } = &self.blocks[block];
        pointwise.forward(depthwise.forward(maps))
    }

    /// Classifies what the last segment gives.
    ///
    /// # Shapes
    /// - returns: `[batch, classes]`, not normalized
    pub fn leave(&self, maps: Tensor<4>) -> Tensor<2> {
        self.classifier.forward(self.dropout.forward(pool(maps)))
    }

    /// Multiply-adds of the forward pass of one image of this height and width; convolutions and
    /// the linear layer alone, as is usual.
    pub fn multiply_adds(&self, image: [usize; 2]) -> u64 {
        let blocks = self.blocks.iter().flat_map(|block| [&block.depthwise, &block.pointwise]);
        let mut size = image;
        let mut sum = 0;
        for ConvNormActivation { conv, .. } in std::iter::once(&self.stem).chain(blocks) {
            // All padding keeps the size.
            size = [0, 1].map(|axis| size[axis].div_ceil(conv.stride[axis]));
            sum += conv.weight.lazy_shape().num_elements() * size[0] * size[1];
        }
        (sum + self.classifier.weight.lazy_shape().num_elements()) as u64
    }
}

/// A 3×3 convolution of each channel for itself, with norm and rectifier.
fn depthwise(channels: usize, stride: usize, device: &Device) -> ConvNormActivation {
    // He et al. 2015, arXiv:1502.01852, eq. 10: the gain for rectified activations.
    let gain = std::f64::consts::SQRT_2;
    let conv = Conv2dConfig::new([channels; 2], [3, 3])
        .with_stride([stride; 2])
        .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
        .with_groups(channels)
        .with_bias(false)
        .with_initializer(Initializer::KaimingNormal { gain, fan_out_only: false });
    let norm = BatchNorm::new(&BatchNormConfig::new(channels), device);
    ConvNormActivation::new(Conv2d::new(&conv, device), norm, Activation::Relu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MOST_CHANNELS;

    #[test]
    fn a_small_network_costs_what_its_layers_cost_by_hand() {
        let net = SeparableConfig::new(3, 2).with_stem_stride(2).init(&Device::flex());
        // 16 × 16 behind the stem are 8 × 8, then 4 × 4, then 2 × 2.
        let stem = 3 * 2 * 9 * 64_u64;
        let block =
            |input: u64, output: u64, positions: u64| (input * 9 + input * output) * positions;
        let blocks = block(2, 4, 64)
            + block(4, 8, 16)
            + block(8, 8, 16)
            + block(8, 16, 4)
            + block(16, 16, 4);
        assert_eq!(net.multiply_adds([16, 16]), stem + blocks + 16 * 3);
        assert_eq!(net.multiply_adds([15, 16]), net.multiply_adds([16, 16]));
    }

    #[test]
    fn every_value_out_of_range_is_named() {
        let good = SeparableConfig::new(2, 1);
        assert_eq!(good.validate(), Ok(()));
        for (config, name) in [
            (SeparableConfig::new(1, 1), "classes"),
            (SeparableConfig::new(2, 0), "channels"),
            (SeparableConfig::new(2, MOST_CHANNELS + 1), "channels"),
            (good.clone().with_stem_stride(3), "stem_stride"),
            (good.with_dropout(1.0), "dropout"),
        ] {
            let message = config.validate().expect_err(name).to_string();
            assert!(message.starts_with(&format!("`{name}` is ")), "{message}");
        }
    }
}
