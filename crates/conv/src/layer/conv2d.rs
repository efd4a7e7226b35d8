//! A convolution of images.

use burn::module::{Module, Param};
use burn::nn::PaddingConfig2d;
use burn::nn::conv::{self, Conv2dConfig};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor};

use super::{observe, padding};
use crate::kernels::Activation;
use crate::ops::{Convolving, LayerPath, convolve};

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
    forced: Option<LayerPath>,
}

impl From<conv::Conv2d> for Conv2d {
    fn from(layer: conv::Conv2d) -> Self {
        let conv::Conv2d { weight, bias, stride, kernel_size, dilation, groups, padding } = layer;
        Self { weight, bias, stride, kernel_size, dilation, groups, padding, forced: None }
    }
}

impl From<Conv2d> for conv::Conv2d {
    fn from(layer: Conv2d) -> Self {
        let Conv2d { weight, bias, stride, kernel_size, dilation, groups, padding, .. } = layer;
        Self { weight, bias, stride, kernel_size, dilation, groups, padding }
    }
}

impl Conv2d {
    /// Creates the layer from burn's config.
    ///
    /// # Panics
    /// If the groups do not divide the channels.
    #[must_use]
    pub fn new(config: &Conv2dConfig, device: &Device) -> Self {
        config.init(device).into()
    }

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
        let [_, _, height, width] = x.dims();
        let Self { kernel_size, stride, dilation, groups, .. } = *self;
        let padding = padding::on_both_axes(&self.padding, [height, width], kernel_size, stride);
        let options = ConvOptions::new_with_padding(stride, padding, dilation, groups);
        let (weight, bias) = (self.weight.val(), self.bias.as_ref().map(Param::val));
        observe::note(self.weight.id, x.dims(), weight.dims(), &options);
        let by = Convolving { options, activation, path: self.forced };
        convolve(x, weight, bias, by)
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
