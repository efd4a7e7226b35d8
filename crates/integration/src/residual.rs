//! The convolutional blocks of one pathway: convolution with norm, and the residual block.

use burn::module::{Initializer, Module};
use burn::nn::PaddingConfig2d;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::tensor::activation::relu;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor};
use updraft_conv::{Activation, conv2d};

use crate::norm::BatchNorm;

/// A convolution without bias, followed by a normalization.
#[derive(Module, Debug)]
pub(crate) struct ConvNorm {
    conv: Conv2d,
    norm: BatchNorm,
}

impl ConvNorm {
    /// A square kernel of 1 or 3 that keeps the image's size at stride 1.
    pub(crate) fn new(
        [input, output]: [usize; 2],
        kernel: usize,
        stride: usize,
        device: &Device,
    ) -> Self {
        let padding = kernel / 2;
        // He et al. 2015, arXiv:1502.01852, eq. 10: the gain for rectified activations.
        let gain = std::f64::consts::SQRT_2;
        let conv = Conv2dConfig::new([input, output], [kernel, kernel])
            .with_stride([stride, stride])
            .with_padding(PaddingConfig2d::Explicit(padding, padding, padding, padding))
            .with_bias(false)
            .with_initializer(Initializer::KaimingNormal { gain, fan_out_only: false })
            .init(device);
        Self { conv, norm: BatchNorm::new(output, device) }
    }

    pub(crate) fn stride(&self) -> usize {
        self.conv.stride[0]
    }

    pub(crate) fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.convolve(input), Activation::Identity)
    }

    /// The same, then rectified.
    pub(crate) fn forward_relu(&self, input: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.convolve(input), Activation::Relu)
    }

    fn convolve(&self, input: Tensor<4>) -> Tensor<4> {
        let Conv2d { stride, kernel_size, dilation, groups, .. } = self.conv;
        let padding = kernel_size.map(|kernel| kernel / 2);
        let options = ConvOptions::new(stride, padding, dilation, groups);
        conv2d(input, self.conv.weight.val(), None, options)
    }
}

/// Two 3×3 convolutions around a shortcut.
///
/// `y = relu(norm(conv(relu(norm(conv(x))))) + shortcut(x))`; the shortcut is the identity where
/// the shape stays, else a strided 1×1 convolution with norm.
#[derive(Module, Debug)]
pub(crate) struct Residual {
    first: ConvNorm,
    second: ConvNorm,
    shortcut: Option<ConvNorm>,
}

impl Residual {
    pub(crate) fn new(channels: [usize; 2], stride: usize, device: &Device) -> Self {
        let [input, output] = channels;
        let same = stride == 1 && input == output;
        Self {
            first: ConvNorm::new(channels, 3, stride, device),
            second: ConvNorm::new([output, output], 3, 1, device),
            shortcut: (!same).then(|| ConvNorm::new(channels, 1, stride, device)),
        }
    }

    pub(crate) fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let hidden = self.first.forward_relu(input.clone());
        let shortcut = match &self.shortcut {
            Some(shortcut) => shortcut.forward(input),
            None => input,
        };
        relu(self.second.forward(hidden) + shortcut)
    }
}
