//! Pooling of volumes.

use burn::config::Config;
use burn::module::Module;
use burn::nn::PaddingConfig3d;
use burn::tensor::{Device, Tensor};

use super::padding;
use crate::kernels::{Divisor, Pooling};
use crate::ops::{LayerPath, Window3d, pool_3d};

/// What a [`MaxPool3d`] is.
#[derive(Config, Debug)]
pub struct MaxPool3dConfig {
    /// Size of a window: depth, height and width.
    pub kernel_size: [usize; 3],
    /// From one window to the next; the window's size is usual.
    #[config(default = "kernel_size")]
    pub strides: [usize; 3],
    /// What lies around the volume, and counts to no maximum.
    #[config(default = "PaddingConfig3d::Valid")]
    pub padding: PaddingConfig3d,
    /// From one number of a window to the next.
    #[config(default = "[1, 1, 1]")]
    pub dilation: [usize; 3],
}

/// The maximum of each window of a volume.
///
/// On flex it runs our kernels, in f32: bf16 and f16 are computed in f32. f64 and every other backend
/// take burn's own operations on images, with the same result.
#[derive(Module, Debug)]
pub struct MaxPool3d {
    #[module(skip)]
    config: MaxPool3dConfig,
    #[module(skip)]
    forced: Option<LayerPath>,
}

impl MaxPool3d {
    /// The layer that a config describes.
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

    /// What computes the layer on a device, in f32.
    #[must_use]
    pub fn path(&self, device: &Device) -> LayerPath {
        self.forced.unwrap_or_else(|| LayerPath::of(device))
    }

    /// The same layer, computed in one way only, as
    /// [`Conv2d::with_path`](crate::Conv2d::with_path) has it.
    #[must_use]
    pub fn with_path(self, path: LayerPath) -> Self {
        Self { forced: Some(path), ..self }
    }
}

/// What an [`AvgPool3d`] is.
#[derive(Config, Debug)]
pub struct AvgPool3dConfig {
    /// Size of a window: depth, height and width.
    pub kernel_size: [usize; 3],
    /// From one window to the next; the window's size is usual.
    #[config(default = "kernel_size")]
    pub strides: [usize; 3],
    /// What lies around the volume, and adds nothing.
    #[config(default = "PaddingConfig3d::Valid")]
    pub padding: PaddingConfig3d,
    /// Whether a sum is divided by the window's size also where that reaches into the padding.
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
    /// The layer that a config describes.
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

    /// What computes the layer on a device, in f32.
    #[must_use]
    pub fn path(&self, device: &Device) -> LayerPath {
        self.forced.unwrap_or_else(|| LayerPath::of(device))
    }

    /// The same layer, computed in one way only, as
    /// [`Conv2d::with_path`](crate::Conv2d::with_path) has it.
    #[must_use]
    pub fn with_path(self, path: LayerPath) -> Self {
        Self { forced: Some(path), ..self }
    }
}

/// Padding that is alike on both sides.
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
