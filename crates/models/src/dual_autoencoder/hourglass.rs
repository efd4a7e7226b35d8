//! Half of a dual autoencoder: two blocks that halve height and width, a core layer, and two that
//! double them.

use burn::module::Module;
use burn::nn::{BatchNormConfig, Dropout, DropoutConfig};
use burn::tensor::{Device, Tensor};
use updraft_conv::{BatchNorm, ConvNormActivation};

use super::block::{Doubling, convolution, multiply_adds};
use super::config::DualAutoencoderConfig;
use super::core::{Core, spline_config};

/// Two blocks that halve height and width, a core layer with normalization, and two blocks that
/// double them.
#[derive(Module, Debug)]
pub(super) struct Hourglass {
    pub(super) to_middle: ConvNormActivation,
    pub(super) to_narrow: ConvNormActivation,
    dropout: Dropout,
    pub(super) core: Core,
    pub(super) core_norm: BatchNorm,
    pub(super) from_narrow: Doubling,
    pub(super) from_middle: Doubling,
}

impl Hourglass {
    /// From `channels` to the widest feature maps of the configuration.
    pub(super) fn new(config: &DualAutoencoderConfig, channels: usize, device: &Device) -> Self {
        let [wide, middle, narrow] = config.widths;
        let bias = config.conv_bias;
        let halving = |channels, activation| convolution(channels, 2, bias, activation, device);
        let splines = spline_config(narrow, 3, config.intervals, config.degree);
        Self {
            to_middle: halving([channels, middle], updraft_conv::Activation::Elu),
            to_narrow: halving([middle, narrow], Core::activation_before(config)),
            dropout: DropoutConfig::new(config.dropout).init(),
            core: Core::new(config, &splines, device),
            core_norm: BatchNorm::new(&BatchNormConfig::new(narrow), device),
            from_narrow: Doubling::new([narrow, middle], bias, device),
            from_middle: Doubling::new([middle, wide], bias, device),
        }
    }

    /// The feature maps at a half and at a quarter of the size.
    pub(super) fn narrow(&self, maps: Tensor<4>) -> [Tensor<4>; 2] {
        let middle = self.to_middle.forward(maps);
        let narrow = self.to_narrow.forward(middle.clone());
        [middle, narrow]
    }

    /// The feature maps at full size, from those at a quarter, with the skip connections at a half
    /// and at full size.
    pub(super) fn widen(&self, narrow: Tensor<4>, added: Option<[Tensor<4>; 2]>) -> Tensor<4> {
        let narrow = self.core.forward(self.dropout.forward(narrow));
        let middle = self.from_narrow.forward(self.core_norm.forward(narrow));
        match added {
            Some([at_middle, at_wide]) => self.from_middle.forward(middle + at_middle) + at_wide,
            None => self.from_middle.forward(middle),
        }
    }

    /// Multiply-adds for feature maps of this height and width.
    pub(super) fn multiply_adds(&self, size: [usize; 2]) -> usize {
        let [half, quarter] = [2, 4].map(|by| size.map(|side| side / by));
        multiply_adds(&self.to_middle.conv, half)
            + multiply_adds(&self.to_narrow.conv, quarter)
            + self.core.multiply_adds(quarter)
            + self.from_narrow.multiply_adds(quarter)
            + self.from_middle.multiply_adds(half)
    }
}
