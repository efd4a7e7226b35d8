//! A convolution with its normalization and activation.

use burn::module::Module;
use burn::tensor::Tensor;

use super::{BatchNorm, Conv2d};
use crate::kernels::Activation;
use crate::ops::LayerPath;

/// `activation(norm(conv(x)) + residual)`, without the residual if there is none.
///
/// The addition and the activation are part of the normalization's pass over memory. Its record
/// is that of a struct with burn's layers `conv` and `norm`.
///
/// # Example
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::nn::BatchNormConfig;
/// use burn::nn::conv::Conv2dConfig;
/// use burn::tensor::{Device, Tensor};
/// use updraft_conv::{Activation, BatchNorm, Conv2d, ConvNormActivation};
///
/// let device = Device::flex();
/// let conv = Conv2d::new(&Conv2dConfig::new([3, 8], [3, 3]).with_bias(false), &device);
/// let norm = BatchNorm::new(&BatchNormConfig::new(8), &device);
/// let block = ConvNormActivation::new(conv, norm, Activation::Relu);
/// let maps = block.forward(Tensor::ones([1, 3, 28, 28], &device));
/// assert_eq!(maps.dims(), [1, 8, 26, 26]);
/// # }
/// ```
#[derive(Module, Debug)]
pub struct ConvNormActivation {
    /// The convolution; a bias would be cancelled by the normalization.
    pub conv: Conv2d,
    /// The normalization of its result.
    pub norm: BatchNorm,
    /// The activation.
    #[module(skip)]
    pub activation: Activation,
}

impl ConvNormActivation {
    /// The layers in their order.
    #[must_use]
    pub const fn new(conv: Conv2d, norm: BatchNorm, activation: Activation) -> Self {
        Self { conv, norm, activation }
    }

    /// `activation(norm(conv(x)))`.
    ///
    /// # Panics
    /// As [`Conv2d::forward`] and [`BatchNorm::forward`].
    #[must_use]
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.norm.forward_activated(self.conv.forward(x), self.activation)
    }

    /// `activation(norm(conv(x)) + residual)`; the residual has the shape of the result.
    ///
    /// # Panics
    /// As [`forward`](Self::forward), and if the residual has another shape or dtype.
    #[must_use]
    pub fn forward_residual(&self, x: Tensor<4>, residual: Tensor<4>) -> Tensor<4> {
        self.norm.forward_residual(self.conv.forward(x), residual, self.activation)
    }

    /// Which implementation computes the convolution in f32 on its parameters' device; that of the
    /// rest is [`BatchNorm::path`], which differs on GPUs.
    #[must_use]
    pub fn path(&self) -> LayerPath {
        self.conv.path()
    }

    /// The same block with a forced implementation, as with [`Conv2d::with_path`]. The kernels for
    /// GPUs are forced on the normalization alone, the only layer that has them.
    #[must_use]
    pub fn with_path(self, path: LayerPath) -> Self {
        let Self { conv, norm, activation } = self;
        let conv = if path == LayerPath::Cube { conv } else { conv.with_path(path) };
        Self { conv, norm: norm.with_path(path), activation }
    }
}
