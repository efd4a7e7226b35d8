//! A convolution or a transposed one, with batch norm and activation.

use burn::module::Module;
use burn::nn::conv::{Conv2dConfig, ConvTranspose2dConfig};
use burn::nn::{BatchNormConfig, PaddingConfig2d};
use burn::tensor::{Device, Tensor};
use updraft_conv::{Activation, BatchNorm, Conv2d, ConvNormActivation, ConvTranspose2d};

/// A 3×3 convolution with a norm and an activation, which divides height and width by `stride`.
pub(super) fn convolution(
    channels: [usize; 2],
    stride: usize,
    bias: bool,
    activation: Activation,
    device: &Device,
) -> ConvNormActivation {
    let conv = Conv2dConfig::new(channels, [3, 3])
        .with_stride([stride; 2])
        .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
        .with_bias(bias);
    let norm = BatchNorm::new(&BatchNormConfig::new(channels[1]), device);
    ConvNormActivation::new(Conv2d::new(&conv, device), norm, activation)
}

/// A transposed 3×3 convolution that doubles height and width, with a norm and `ELU`.
#[derive(Module, Debug)]
pub(super) struct Doubling {
    conv: ConvTranspose2d,
    norm: BatchNorm,
}

impl Doubling {
    pub(super) fn new(channels: [usize; 2], bias: bool, device: &Device) -> Self {
        let conv = ConvTranspose2dConfig::new(channels, [3, 3])
            .with_stride([2, 2])
            .with_padding([1, 1])
            .with_padding_out([1, 1])
            .with_bias(bias);
        Self {
            conv: ConvTranspose2d::new(&conv, device),
            norm: BatchNorm::new(&BatchNormConfig::new(channels[1]), device),
        }
    }

    /// `[batch, channels[1], 2·height, 2·width]` of `[batch, channels[0], height, width]`.
    pub(super) fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        self.norm.forward_activated(self.conv.forward(maps), Activation::Elu)
    }

    /// Multiply-adds for feature maps of this height and width.
    pub(super) fn multiply_adds(&self, [height, width]: [usize; 2]) -> usize {
        self.conv.weight.lazy_shape().num_elements() * height * width
    }
}

/// Multiply-adds of a convolution whose result has this height and width.
pub(super) fn multiply_adds(conv: &Conv2d, [height, width]: [usize; 2]) -> usize {
    conv.weight.lazy_shape().num_elements() * height * width
}
