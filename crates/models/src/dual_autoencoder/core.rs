//! The core layer: a KAN convolution, plain convolutions with as many parameters, or nothing.

use burn::module::Module;
use burn::nn::PaddingConfig2d;
use burn::nn::conv::Conv2dConfig;
use burn::tensor::{Device, Tensor};
use updraft_conv::{Activation, Conv2d};
use updraft_kan::{KanConv2d, KanConv2dConfig};

use super::block::multiply_adds;
use super::config::{CoreLayer, DualAutoencoderConfig};

/// A layer with as many output as input channels.
#[derive(Module, Debug)]
pub(super) struct Core {
    kan: Option<KanConv2d>,
    conv: Option<ConvPair>,
    #[module(skip)]
    bounded: bool,
    #[module(skip)]
    residual: bool,
}

/// Two convolutions with `ELU` between them.
#[derive(Module, Debug)]
struct ConvPair {
    first: Conv2d,
    second: Conv2d,
}

/// A KAN convolution that keeps channels, height and width.
pub(super) fn spline_config(
    channels: usize,
    kernel: usize,
    intervals: usize,
    degree: usize,
) -> KanConv2dConfig {
    KanConv2dConfig::new([channels; 2], [kernel; 2])
        .with_padding([kernel / 2; 2])
        .with_intervals(intervals)
        .with_degree(degree)
}

impl Core {
    pub(super) fn new(
        config: &DualAutoencoderConfig,
        splines: &KanConv2dConfig,
        device: &Device,
    ) -> Self {
        let is = |core| config.core == core;
        Self {
            kan: is(CoreLayer::Kan).then(|| splines.init(device)),
            conv: is(CoreLayer::Conv).then(|| ConvPair::new(splines, device)),
            bounded: config.bounded_inputs,
            residual: config.residual,
        }
    }

    /// The activation of the block before the layer.
    pub(super) fn activation_before(config: &DualAutoencoderConfig) -> Activation {
        match config.core {
            CoreLayer::Kan if config.bounded_inputs => Activation::Identity,
            _ => Activation::Elu,
        }
    }

    /// `[batch, channels, height, width]` to the same shape.
    pub(super) fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        let (given, computed) = match (&self.kan, &self.conv) {
            (Some(kan), _) => {
                let maps = if self.bounded { maps.tanh() } else { maps };
                (maps.clone(), kan.forward(maps))
            }
            (None, Some(conv)) => (maps.clone(), conv.forward(maps)),
            (None, None) => return maps,
        };
        if self.residual { given + computed } else { computed }
    }

    /// Multiply-adds for feature maps of this height and width.
    pub(super) fn multiply_adds(&self, size: [usize; 2]) -> usize {
        let splines = self.kan.as_ref().map_or(0, |kan| {
            let products = kan.geometry().grid().degree() + 2;
            kan.geometry().edges() * products * size[0] * size[1]
        });
        let pair = self.conv.as_ref();
        splines
            + pair.map_or(0, |pair| {
                [&pair.first, &pair.second].map(|conv| multiply_adds(conv, size)).iter().sum()
            })
    }
}

impl ConvPair {
    /// Has as many parameters as `splines`, or a few less where no number of hidden channels gives
    /// exactly that.
    fn new(splines: &KanConv2dConfig, device: &Device) -> Self {
        let [channels, _] = splines.channels;
        let [kernel, _] = splines.kernel_size;
        // Coefficients, the weight of the base branch and a factor.
        let of_edge = splines.intervals + splines.degree + 2;
        let taps = kernel * kernel;
        let parameters = channels * channels * taps * of_edge;
        let hidden = (parameters / (2 * channels * taps)).max(1);
        let left = parameters.saturating_sub(2 * channels * taps * hidden);
        let same = PaddingConfig2d::Explicit(kernel / 2, kernel / 2, kernel / 2, kernel / 2);
        let conv = |from: usize, to: usize, bias: bool| {
            let config = Conv2dConfig::new([from, to], [kernel; 2])
                .with_padding(same.clone())
                .with_bias(bias);
            Conv2d::new(&config, device)
        };
        Self {
            first: conv(channels, hidden, false),
            second: conv(hidden, channels, left >= channels),
        }
    }

    fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        self.second.forward(self.first.forward_activated(maps, Activation::Elu))
    }
}
