//! A transposed convolution of images.

use burn::module::{Module, Param};
use burn::nn::conv::{self, ConvTranspose2dConfig};
use burn::tensor::Tensor;
use burn::tensor::ops::ConvTransposeOptions;

use super::in_place::in_place_of;
use crate::ops::{LayerPath, transpose_convolve_2d};

/// A transposed convolution of images, in the place of burn's `ConvTranspose2d`: its record is the
/// same, both ways.
#[derive(Module, Debug)]
pub struct ConvTranspose2d {
    /// `[in_channels, out_channels / groups, kernel_height, kernel_width]`.
    pub weight: Param<Tensor<4>>,
    /// `[out_channels]`.
    pub bias: Option<Param<Tensor<1>>>,
    /// Between the results of neighboring inputs.
    pub stride: [usize; 2],
    /// Sides of the kernel.
    pub kernel_size: [usize; 2],
    /// From one kernel entry to the next.
    pub dilation: [usize; 2],
    /// Groups of channels that do not see each other.
    pub groups: usize,
    /// What is cut off on both sides of an axis.
    pub padding: [usize; 2],
    /// What is added behind an axis.
    pub padding_out: [usize; 2],
    /// Input and output channels.
    pub channels: [usize; 2],
    #[module(skip)]
    forced: Option<LayerPath>,
}

in_place_of! {
    conv::ConvTranspose2d, ConvTranspose2dConfig => ConvTranspose2d {
        weight, bias, stride, kernel_size, dilation, groups, padding, padding_out, channels
    }, weight
}

impl ConvTranspose2d {
    /// Convolves transposed, as [`conv_transpose2d`](crate::conv_transpose2d) says.
    ///
    /// # Panics
    /// As [`conv_transpose2d`](crate::conv_transpose2d), and if a [forced](Self::with_path) path
    /// cannot compute it.
    #[must_use]
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let Self { stride, padding, padding_out, dilation, groups, .. } = *self;
        let options = ConvTransposeOptions { stride, padding, padding_out, dilation, groups };
        let (weight, bias) = (self.weight.val(), self.bias.as_ref().map(Param::val));
        transpose_convolve_2d(x, weight, bias, options, self.forced)
    }
}
