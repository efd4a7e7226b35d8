//! A convolution of sequences.

use burn::module::{Module, Param};
use burn::nn::PaddingConfig1d;
use burn::nn::conv::{self, Conv1dConfig};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor};

use super::{observe, padding};
use crate::kernels::Activation;
use crate::ops::{Convolving, LayerPath, convolve};

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

impl From<conv::Conv1d> for Conv1d {
    fn from(layer: conv::Conv1d) -> Self {
        let conv::Conv1d { weight, bias, stride, kernel_size, dilation, groups, padding } = layer;
        Self { weight, bias, stride, kernel_size, dilation, groups, padding, forced: None }
    }
}

impl From<Conv1d> for conv::Conv1d {
    fn from(layer: Conv1d) -> Self {
        let Conv1d { weight, bias, stride, kernel_size, dilation, groups, padding, .. } = layer;
        Self { weight, bias, stride, kernel_size, dilation, groups, padding }
    }
}

impl Conv1d {
    /// Creates the layer from burn's config.
    ///
    /// # Panics
    /// If the groups do not divide the channels.
    #[must_use]
    pub fn new(config: &Conv1dConfig, device: &Device) -> Self {
        config.init(device).into()
    }

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
        observe::note(self.weight.id, x.dims(), weight.dims(), &by.options);
        let y = convolve(x, weight, bias, by);
        let [_, _, _, length] = y.dims();
        y.reshape([batch, outputs, length])
    }

    /// Which implementation computes the layer in f32 on its parameters' device.
    #[must_use]
    pub fn path(&self) -> LayerPath {
        self.forced.unwrap_or_else(|| LayerPath::of(&self.weight.device()))
    }

    /// The same layer with a forced implementation.
    ///
    /// Its [`forward`](Self::forward) panics if the device or the processor does not support it.
    #[must_use]
    pub fn with_path(self, path: LayerPath) -> Self {
        Self { forced: Some(path), ..self }
    }
}
