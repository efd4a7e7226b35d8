//! A convolution of sequences.

use burn::module::{Module, Param};
use burn::nn::PaddingConfig1d;
use burn::nn::conv::{self, Conv1dConfig};
use burn::tensor::Tensor;
use burn::tensor::ops::ConvOptions;

use super::in_place::in_place_of;
use super::padding;
use crate::kernels::Activation;
use crate::ops::{Convolving, LayerPath, convolve, of_layer};

/// A convolution of sequences, replacing burn's `Conv1d`, with the same record format.
#[derive(Module, Debug)]
pub struct Conv1d {
    /// `[out_channels, in_channels / groups, kernel]`.
    pub weight: Param<Tensor<3>>,
    /// `[out_channels]`.
    pub bias: Option<Param<Tensor<1>>>,
    /// The stride.
    pub stride: usize,
    /// Length of the kernel.
    pub kernel_size: usize,
    /// The dilation.
    pub dilation: usize,
    /// The number of groups.
    pub groups: usize,
    /// Zeros before and after the sequence.
    #[module(skip)]
    pub padding: PaddingConfig1d,
    #[module(skip)]
    forced: Option<LayerPath>,
}

in_place_of! {
    conv::Conv1d, Conv1dConfig => Conv1d {
        weight, bias, stride, kernel_size, dilation, groups, padding
    }, weight
}

impl Conv1d {
    /// Convolves `x`, `[batch, in_channels, length]`, to `[batch, out_channels, out_length]`: an
    /// image of one row, as [`conv2d`](crate::conv2d) says.
    ///
    /// # Panics
    /// As [`conv2d`](crate::conv2d), and if a [forced](Self::with_path) path cannot compute it.
    #[must_use]
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, channels, length] = x.dims();
        let [outputs, inputs, kernel] = self.weight.dims();
        let padding = padding::on_one_axis(&self.padding, length, kernel, self.stride);
        let options = ConvOptions::new_with_padding(
            [1, self.stride],
            [(0, 0), padding],
            [1, self.dilation],
            self.groups,
        );
        let bias = self.bias.as_ref().map(Param::val);
        let by = Convolving { options, activation: Activation::Identity, path: self.forced };
        let weight = self.weight.val().reshape([outputs, inputs, 1, kernel]);
        let x = x.reshape([batch, channels, 1, length]);
        let y = of_layer(self.weight.id, "convolution", || convolve(x, weight, bias, by));
        let [_, _, _, length] = y.dims();
        y.reshape([batch, outputs, length])
    }
}
