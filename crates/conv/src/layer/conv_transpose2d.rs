//! A transposed convolution of images.

use burn::module::{Module, Param};
use burn::nn::conv::{self, ConvTranspose2dConfig};
use burn::tensor::Tensor;
use burn::tensor::ops::ConvTransposeOptions;

use super::in_place::in_place_of;
use crate::ops::{LayerPath, TransposedPath, of_layer, transpose_convolve_2d};

/// A transposed convolution of images, replacing burn's `ConvTranspose2d`, with the same record
/// format.
#[derive(Module, Debug)]
pub struct ConvTranspose2d {
    /// `[in_channels, out_channels / groups, kernel_height, kernel_width]`.
    pub weight: Param<Tensor<4>>,
    /// `[out_channels]`.
    pub bias: Option<Param<Tensor<1>>>,
    /// The stride.
    pub stride: [usize; 2],
    /// Sides of the kernel.
    pub kernel_size: [usize; 2],
    /// The dilation.
    pub dilation: [usize; 2],
    /// The number of groups.
    pub groups: usize,
    /// The padding that is removed from both sides of an axis.
    pub padding: [usize; 2],
    /// The output padding at the end of an axis.
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
        self.convolve(x, false)
    }

    /// The same; the backward pass of the kernels computes the result again where a gradient needs
    /// it, instead of keeping it. It is worth its time if the kernel is as large as the stride.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    #[must_use]
    pub fn forward_recomputed(&self, x: Tensor<4>) -> Tensor<4> {
        self.convolve(x, true)
    }

    fn convolve(&self, x: Tensor<4>, recomputed: bool) -> Tensor<4> {
        let Self { stride, padding, padding_out, dilation, groups, .. } = *self;
        let options = ConvTransposeOptions { stride, padding, padding_out, dilation, groups };
        let path = TransposedPath { forced: self.forced, recomputed };
        let (weight, bias) = (self.weight.val(), self.bias.as_ref().map(Param::val));
        of_layer(self.weight.id, "transposed convolution", || {
            transpose_convolve_2d(x, weight, bias, options, path)
        })
    }
}
