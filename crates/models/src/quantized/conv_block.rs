//! A convolution, its batch norm and an activation, which training can fake-quantize.

use burn::module::{Initializer, Module};
use burn::nn::conv::Conv2dConfig;
use burn::nn::{BatchNormConfig, PaddingConfig2d};
use burn::tensor::{Device, Tensor};
use updraft_conv::{Activation, BatchNorm, Conv2d, activate};

use super::fake_quantizer::{FakeQuantizer, WeightBits};

/// `activation(norm(conv(x)) + residual)`, without the residual if there is none.
///
/// Without quantizers it computes as `updraft_conv::ConvNormActivation`, with the same record.
///
/// Quantizers round what the integer network rounds: the weights, the numbers that the convolution
/// writes, and those of an activation that is a table there; `ReLU` and `ReLU6` are bounds of the
/// convolution. The norm is part of the weights in the integer network, and of no rounding: each
/// output channel has a scale, by which the norm's factor multiplies, and no code changes.
#[derive(Module, Debug)]
pub(crate) struct ConvBlock {
    pub(crate) conv: Conv2d,
    pub(crate) norm: BatchNorm,
    quantizers: Option<BlockQuantizers>,
    #[module(skip)]
    pub(crate) activation: Activation,
}

#[derive(Module, Debug)]
struct BlockQuantizers {
    weights: FakeQuantizer,
    /// Of the convolution's result, if the activation is a table.
    linear: Option<FakeQuantizer>,
    output: FakeQuantizer,
}

/// The settings of a [`ConvBlock`] with a square kernel; the padding keeps the image's size at
/// stride 1.
#[derive(Debug, Clone)]
pub(crate) struct BlockConfig {
    pub(crate) channels: [usize; 2],
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) groups: usize,
    pub(crate) activation: Activation,
    pub(crate) norm: NormConfig,
    pub(crate) bits: Option<WeightBits>,
}

/// The settings of batch norms that differ between publications.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NormConfig {
    pub(crate) epsilon: f64,
    /// The weight of each batch in the running statistics.
    pub(crate) momentum: f64,
}

/// burn's defaults, which are PyTorch's.
impl Default for NormConfig {
    fn default() -> Self {
        Self { epsilon: 1e-5, momentum: 0.1 }
    }
}

impl BlockConfig {
    pub(crate) fn init(&self, device: &Device) -> ConvBlock {
        let Self { channels, kernel, stride, groups, activation, norm, bits } = self.clone();
        let [_, output] = channels;
        let padding = kernel / 2;
        // He et al. 2015, arXiv:1502.01852, eq. 10: the gain for rectified activations.
        let gain = std::f64::consts::SQRT_2;
        let conv = Conv2dConfig::new(channels, [kernel; 2])
            .with_stride([stride; 2])
            .with_padding(PaddingConfig2d::Explicit(padding, padding, padding, padding))
            .with_groups(groups)
            .with_bias(false)
            .with_initializer(Initializer::KaimingNormal { gain, fan_out_only: false });
        let norm =
            BatchNormConfig::new(output).with_epsilon(norm.epsilon).with_momentum(norm.momentum);
        let is_bound =
            matches!(activation, Activation::Identity | Activation::Relu | Activation::Relu6);
        let quantizers = bits.map(|bits| BlockQuantizers {
            weights: FakeQuantizer::of_weights(output, bits, device),
            linear: (!is_bound).then(|| FakeQuantizer::of_activations(device)),
            output: FakeQuantizer::of_activations(device),
        });
        let norm = BatchNorm::new(&norm, device);
        ConvBlock { conv: Conv2d::new(&conv, device), norm, quantizers, activation }
    }
}

impl ConvBlock {
    /// `activation(norm(conv(x)))`.
    pub(crate) fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let Some(BlockQuantizers { linear, output, .. }) = &self.quantizers else {
            return self.norm.forward_activated(self.conv.forward(x), self.activation);
        };
        let y = self.convolve(x);
        output.activations(match linear {
            None => self.norm.forward_activated(y, self.activation),
            Some(linear) => activate(linear.activations(self.norm.forward(y)), self.activation),
        })
    }

    /// `norm(conv(x)) + residual`, for a block without an activation.
    pub(crate) fn forward_residual(&self, x: Tensor<4>, residual: Tensor<4>) -> Tensor<4> {
        let y = self.norm.forward_residual(self.convolve(x), residual, self.activation);
        self.round_output(y)
    }

    /// `branch(norm(conv(x))) + residual`, for a block without an activation: the branch may be
    /// dropped for some images.
    pub(crate) fn forward_branch(
        &self,
        x: Tensor<4>,
        residual: Tensor<4>,
        branch: impl FnOnce(Tensor<4>) -> Tensor<4>,
    ) -> Tensor<4> {
        self.round_output(branch(self.norm.forward(self.convolve(x))) + residual)
    }

    /// The convolution by weights that are rounded if there are quantizers.
    fn convolve(&self, x: Tensor<4>) -> Tensor<4> {
        match &self.quantizers {
            None => self.conv.forward(x),
            Some(BlockQuantizers { weights, .. }) => {
                self.conv.forward_by(x, weights.weights(self.conv.weight.val()))
            }
        }
    }

    fn round_output(&self, y: Tensor<4>) -> Tensor<4> {
        match &self.quantizers {
            None => y,
            Some(BlockQuantizers { output, .. }) => output.activations(y),
        }
    }

    /// Multiply-adds for an image of a size, and the size of the result.
    pub(crate) fn multiply_adds(&self, size: [usize; 2]) -> (usize, [usize; 2]) {
        // The padding keeps the size at stride 1.
        let size = [0, 1].map(|axis| size[axis].div_ceil(self.conv.stride[axis]));
        (self.conv.weight.lazy_shape().num_elements() * size[0] * size[1], size)
    }
}
