//! A convolution of volumes.

use burn::module::{Module, Param};
use burn::nn::PaddingConfig3d;
use burn::nn::conv::{self, Conv3dConfig};
use burn::tensor::Tensor;
use burn::tensor::ops::ConvOptions;

use super::in_place::in_place_of;
use super::padding;
use crate::kernels::Activation;
use crate::ops::{LayerPath, convolve_3d, of_layer};

/// A convolution of volumes, replacing burn's `Conv3d`, with the same record format.
///
/// # Example
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::nn::conv::Conv3dConfig;
/// use burn::tensor::{Device, Tensor};
/// use updraft_conv::Conv3d;
///
/// let device = Device::flex();
/// let layer = Conv3d::new(&Conv3dConfig::new([1, 8], [3, 3, 3]), &device);
/// let maps = layer.forward(Tensor::ones([1, 1, 8, 10, 12], &device));
/// assert_eq!(maps.dims(), [1, 8, 6, 8, 10]);
/// # }
/// ```
#[derive(Module, Debug)]
pub struct Conv3d {
    /// `[out_channels, in_channels / groups, kernel_depth, kernel_height, kernel_width]`.
    pub weight: Param<Tensor<5>>,
    /// `[out_channels]`.
    pub bias: Option<Param<Tensor<1>>>,
    /// The stride.
    pub stride: [usize; 3],
    /// Depth, height and width of the kernel.
    pub kernel_size: [usize; 3],
    /// The dilation.
    pub dilation: [usize; 3],
    /// The number of groups.
    pub groups: usize,
    /// Zeros around the volume.
    #[module(skip)]
    pub padding: PaddingConfig3d,
    #[module(skip)]
    pub(super) forced: Option<LayerPath>,
}

in_place_of! {
    conv::Conv3d, Conv3dConfig => Conv3d {
        weight, bias, stride, kernel_size, dilation, groups, padding
    }, weight
}

impl Conv3d {
    /// Convolves, as [`conv3d`](crate::conv3d) says.
    ///
    /// # Panics
    /// As [`conv3d`](crate::conv3d), and if a [forced](Self::with_path) path cannot compute it.
    #[must_use]
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward_activated(x, Activation::Identity)
    }

    /// The same, then activated: without a graph in one pass over memory.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    #[must_use]
    pub fn forward_activated(&self, x: Tensor<5>, activation: Activation) -> Tensor<5> {
        let [_, _, input @ ..] = x.dims();
        let Self { kernel_size, stride, dilation, groups, .. } = *self;
        let padding = padding::on_all_axes(&self.padding, input, kernel_size, stride);
        let options = ConvOptions::new_with_padding(stride, padding, dilation, groups);
        let (weight, bias) = (self.weight.val(), self.bias.as_ref().map(Param::val));
        of_layer(self.weight.id, "convolution", || {
            convolve_3d(x, weight, bias, options, activation, self.forced)
        })
    }
}
