//! Pooling of volumes.

use burn::config::Config;
use burn::module::Module;
use burn::nn::PaddingConfig3d;
use burn::tensor::{Device, Tensor};

use super::padding;
use crate::kernels::{Divisor, Pooling};
use crate::ops::{LayerPath, Window3d, pool_3d};

/// The configuration of a [`MaxPool3d`].
#[derive(Config, Debug)]
pub struct MaxPool3dConfig {
    /// Size of a window: depth, height and width.
    pub kernel_size: [usize; 3],
    /// The stride; the window's size is usual.
    #[config(default = "kernel_size")]
    pub strides: [usize; 3],
    /// The padding, which is ignored by the maximum.
    #[config(default = "PaddingConfig3d::Valid")]
    pub padding: PaddingConfig3d,
    /// The dilation.
    #[config(default = "[1, 1, 1]")]
    pub dilation: [usize; 3],
}

/// The maximum of each window of a volume.
///
/// On flex it runs our kernels, in f32: bf16 and f16 are computed in f32. f64 and every other
/// backend use burn's own operations on images, with the same result.
#[derive(Module, Debug)]
pub struct MaxPool3d {
    #[module(skip)]
    config: MaxPool3dConfig,
    #[module(skip)]
    forced: Option<LayerPath>,
}

impl MaxPool3d {
    /// Creates the layer from a config.
    #[must_use]
    pub const fn new(config: MaxPool3dConfig) -> Self {
        Self { config, forced: None }
    }

    /// Pools `x`, `[batch, channels, depth, height, width]`.
    ///
    /// # Panics
    /// If a window is larger than the padded volume or lies in the padding alone, padding differs
    /// between two sides, or a [forced](Self::with_path) path cannot compute it.
    #[must_use]
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let MaxPool3dConfig { kernel_size: kernel, strides: stride, dilation, .. } = self.config;
        let padding = even(&self.config.padding, &x, kernel, stride);
        let window = Window3d { kernel, stride, padding, dilation };
        pool_3d(x, Pooling::Max, window, Divisor::Window, self.forced)
    }

    /// Which implementation computes the layer in f32 on a device.
    #[must_use]
    pub fn path(&self, device: &Device) -> LayerPath {
        self.forced.unwrap_or_else(|| LayerPath::of(device))
    }

    /// The same layer with a forced implementation, as with
    /// [`Conv2d::with_path`](crate::Conv2d::with_path).
    #[must_use]
    pub fn with_path(self, path: LayerPath) -> Self {
        Self { forced: Some(path), ..self }
    }
}

/// The configuration of an [`AvgPool3d`].
#[derive(Config, Debug)]
pub struct AvgPool3dConfig {
    /// Size of a window: depth, height and width.
    pub kernel_size: [usize; 3],
    /// The stride; the window's size is usual.
    #[config(default = "kernel_size")]
    pub strides: [usize; 3],
    /// The padding, which adds zeros.
    #[config(default = "PaddingConfig3d::Valid")]
    pub padding: PaddingConfig3d,
    /// Whether padding counts in the divisor of the average.
    #[config(default = "true")]
    pub count_include_pad: bool,
}

/// The average of each window of a volume; computed as [`MaxPool3d`] is.
#[derive(Module, Debug)]
pub struct AvgPool3d {
    #[module(skip)]
    config: AvgPool3dConfig,
    #[module(skip)]
    forced: Option<LayerPath>,
}

impl AvgPool3d {
    /// Creates the layer from a config.
    #[must_use]
    pub const fn new(config: AvgPool3dConfig) -> Self {
        Self { config, forced: None }
    }

    /// Pools `x`, `[batch, channels, depth, height, width]`.
    ///
    /// # Panics
    /// As [`MaxPool3d::forward`].
    #[must_use]
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let AvgPool3dConfig { kernel_size: kernel, strides: stride, count_include_pad, .. } =
            self.config;
        let padding = even(&self.config.padding, &x, kernel, stride);
        let window = Window3d { kernel, stride, padding, dilation: [1; 3] };
        let divisor = if count_include_pad { Divisor::Window } else { Divisor::Inside };
        pool_3d(x, Pooling::Average, window, divisor, self.forced)
    }

    /// Which implementation computes the layer in f32 on a device.
    #[must_use]
    pub fn path(&self, device: &Device) -> LayerPath {
        self.forced.unwrap_or_else(|| LayerPath::of(device))
    }

    /// The same layer with a forced implementation, as with
    /// [`Conv2d::with_path`](crate::Conv2d::with_path).
    #[must_use]
    pub fn with_path(self, path: LayerPath) -> Self {
        Self { forced: Some(path), ..self }
    }
}

/// Equal padding on both sides.
fn even(
    padding: &PaddingConfig3d,
    x: &Tensor<5>,
    kernel: [usize; 3],
    stride: [usize; 3],
) -> [usize; 3] {
    let [_, _, input @ ..] = x.dims();
    padding::on_all_axes(padding, input, kernel, stride).map(|(before, after)| {
        assert_eq!(before, after, "pooling of volumes: padding is alike on both sides of an axis");
        before
    })
}
