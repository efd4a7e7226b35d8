//! The convolutional blocks of one pathway: convolution with norm, and the residual block.

use burn::module::{Initializer, Module};
use burn::nn::conv::Conv2dConfig;
use burn::nn::{BatchNormConfig, PaddingConfig2d};
use burn::tensor::{Device, Tensor};
use updraft_conv::{Activation, BatchNorm, Conv2d, ConvNormActivation};

/// A convolution without bias, followed by a normalization and an activation.
///
/// A square kernel of 1 or 3 that keeps the image's size at stride 1.
pub(crate) fn conv_norm(
    [input, output]: [usize; 2],
    kernel: usize,
    stride: usize,
    activation: Activation,
    device: &Device,
) -> ConvNormActivation {
    let padding = kernel / 2;
    // He et al. 2015, arXiv:1502.01852, eq. 10: the gain for rectified activations.
    let gain = std::f64::consts::SQRT_2;
    let conv = Conv2dConfig::new([input, output], [kernel, kernel])
        .with_stride([stride, stride])
        .with_padding(PaddingConfig2d::Explicit(padding, padding, padding, padding))
        .with_bias(false)
        .with_initializer(Initializer::KaimingNormal { gain, fan_out_only: false });
    let norm = BatchNorm::new(&BatchNormConfig::new(output), device);
    ConvNormActivation::new(Conv2d::new(&conv, device), norm, activation)
}

/// Two 3×3 convolutions around a shortcut.
///
/// `y = relu(norm(conv(relu(norm(conv(x))))) + shortcut(x))`; the shortcut is the identity where
/// the shape stays, else a strided 1×1 convolution with norm.
#[derive(Module, Debug)]
pub(crate) struct Residual {
    pub(crate) first: ConvNormActivation,
    pub(crate) second: ConvNormActivation,
    pub(crate) shortcut: Option<ConvNormActivation>,
}

impl Residual {
    pub(crate) fn new(channels: [usize; 2], stride: usize, device: &Device) -> Self {
        use Activation::{Identity, Relu};

        let [input, output] = channels;
        let same = stride == 1 && input == output;
        Self {
            first: conv_norm(channels, 3, stride, Relu, device),
            second: conv_norm([output, output], 3, 1, Relu, device),
            shortcut: (!same).then(|| conv_norm(channels, 1, stride, Identity, device)),
        }
    }

    pub(crate) fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let hidden = self.first.forward(input.clone());
        let shortcut = match &self.shortcut {
            Some(shortcut) => shortcut.forward(input),
            None => input,
        };
        self.second.forward_residual(hidden, shortcut)
    }
}
