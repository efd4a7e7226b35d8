//! A convolution of images.

use burn::module::{Module, Param};
use burn::nn::PaddingConfig2d;
use burn::nn::conv::{self, Conv2dConfig};
use burn::tensor::Tensor;
use burn::tensor::ops::ConvOptions;

use super::in_place::in_place_of;
use super::padding;
use crate::kernels::Activation;
use crate::ops::{Convolving, LayerPath, convolve, convolve_residual, of_layer};

/// A convolution of images, replacing burn's `Conv2d`, with the same record format.
///
/// # Example
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::nn::conv::Conv2dConfig;
/// use burn::tensor::{Device, Tensor};
/// use updraft_conv::Conv2d;
///
/// let device = Device::flex();
/// let layer = Conv2d::new(&Conv2dConfig::new([3, 8], [3, 3]), &device);
/// let maps = layer.forward(Tensor::ones([1, 3, 28, 28], &device));
/// assert_eq!(maps.dims(), [1, 8, 26, 26]);
/// # }
/// ```
#[derive(Module, Debug)]
pub struct Conv2d {
    /// `[out_channels, in_channels / groups, kernel_height, kernel_width]`.
    pub weight: Param<Tensor<4>>,
    /// `[out_channels]`.
    pub bias: Option<Param<Tensor<1>>>,
    /// The stride along height and width.
    pub stride: [usize; 2],
    /// Height and width of the kernel.
    pub kernel_size: [usize; 2],
    /// The dilation along height and width.
    pub dilation: [usize; 2],
    /// The number of groups.
    pub groups: usize,
    /// Zeros around the image.
    #[module(skip)]
    pub padding: PaddingConfig2d,
    #[module(skip)]
    pub(super) forced: Option<LayerPath>,
}

in_place_of! {
    conv::Conv2d, Conv2dConfig => Conv2d {
        weight, bias, stride, kernel_size, dilation, groups, padding
    }, weight
}

impl Conv2d {
    /// Convolves, as [`conv2d`](crate::conv2d) says.
    ///
    /// # Panics
    /// As [`conv2d`](crate::conv2d), and if a [forced](Self::with_path) path cannot compute it.
    #[must_use]
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.forward_activated(x, Activation::Identity)
    }

    /// The same, then activated: without a graph in one pass over memory.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    #[must_use]
    pub fn forward_activated(&self, x: Tensor<4>, activation: Activation) -> Tensor<4> {
        self.convolve(x, self.weight.val(), activation)
    }

    /// `activation(conv(x) + residual)`, for networks whose norms are part of their weights.
    ///
    /// Without a graph our kernels add and activate while a sample's results are in the cache; after
    /// convolutions of one channel a group and of products in bf16, they do so in a second pass.
    ///
    /// # Shapes
    /// - `residual`: that of the result, or several times its channels, whose groups are all added,
    ///   such as the joined channels of two pathways
    ///
    /// # Panics
    /// As [`forward`](Self::forward), and if the residual has another shape.
    #[must_use]
    pub fn forward_residual(
        &self,
        x: Tensor<4>,
        residual: Tensor<4>,
        activation: Activation,
    ) -> Tensor<4> {
        let (weight, bias) = (self.weight.val(), self.bias.as_ref().map(Param::val));
        let by = self.convolving(&x, activation);
        let run = || convolve_residual(x, weight, bias, residual, by);
        of_layer(self.weight.id, "convolution", run)
    }

    /// Convolves by weights in place of its own, such as rounded ones.
    ///
    /// # Panics
    /// As [`forward`](Self::forward), and if the weights have another shape than its own.
    #[must_use]
    pub fn forward_by(&self, x: Tensor<4>, weight: Tensor<4>) -> Tensor<4> {
        assert_eq!(weight.dims(), self.weight.val().dims(), "the shapes of both weights");
        self.convolve(x, weight, Activation::Identity)
    }

    fn convolve(&self, x: Tensor<4>, weight: Tensor<4>, activation: Activation) -> Tensor<4> {
        let bias = self.bias.as_ref().map(Param::val);
        let by = self.convolving(&x, activation);
        of_layer(self.weight.id, "convolution", || convolve(x, weight, bias, by))
    }

    fn convolving(&self, x: &Tensor<4>, activation: Activation) -> Convolving {
        let [_, _, height, width] = x.dims();
        let Self { kernel_size, stride, dilation, groups, .. } = *self;
        let padding = padding::on_both_axes(&self.padding, [height, width], kernel_size, stride);
        let options = ConvOptions::new_with_padding(stride, padding, dilation, groups);
        Convolving { options, activation, path: self.forced }
    }
}
