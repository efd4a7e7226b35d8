//! Pooling of images.

use burn::module::Module;
use burn::nn::pool::{AdaptiveAvgPool2dConfig, AvgPool2dConfig, MaxPool2dConfig};
use burn::tensor::{Device, Tensor};

use super::padding;
use crate::kernels::Divisor;
use crate::ops::{LayerPath, Window, adaptive_average_pool, average_pool, max_pool};

/// The maximum of each window, replacing burn's `MaxPool2d`.
///
/// On flex it runs our kernels, in f32: bf16 and f16 are computed in f32. f64, asymmetric padding,
/// `ceil_mode`, and every other backend use burn's own operation, with the same result.
#[derive(Module, Debug)]
pub struct MaxPool2d {
    #[module(skip)]
    config: MaxPool2dConfig,
    #[module(skip)]
    forced: Option<LayerPath>,
}

impl MaxPool2d {
    /// Creates the layer from burn's config.
    #[must_use]
    pub const fn new(config: MaxPool2dConfig) -> Self {
        Self { config, forced: None }
    }

    /// Pools `x`, `[batch, channels, height, width]`.
    ///
    /// # Panics
    /// As burn's own operation, and if a [forced](Self::with_path) path cannot compute it.
    #[must_use]
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let MaxPool2dConfig { kernel_size: kernel, strides: stride, dilation, ceil_mode, .. } =
            self.config;
        let [_, _, height, width] = x.dims();
        let padding = padding::on_both_axes(&self.config.padding, [height, width], kernel, stride);
        let window = Window { kernel, stride, padding, dilation, ceil_mode };
        max_pool(x, window, self.forced)
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

/// The average of each window, replacing burn's `AvgPool2d`; computed as [`MaxPool2d`] is.
#[derive(Module, Debug)]
pub struct AvgPool2d {
    #[module(skip)]
    config: AvgPool2dConfig,
    #[module(skip)]
    forced: Option<LayerPath>,
}

impl AvgPool2d {
    /// Creates the layer from burn's config.
    #[must_use]
    pub const fn new(config: AvgPool2dConfig) -> Self {
        Self { config, forced: None }
    }

    /// Pools `x`, `[batch, channels, height, width]`.
    ///
    /// # Panics
    /// As burn's own operation, and if a [forced](Self::with_path) path cannot compute it.
    #[must_use]
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let AvgPool2dConfig {
            kernel_size: kernel,
            strides: stride,
            count_include_pad,
            ceil_mode,
            ..
        } = self.config;
        let [_, _, height, width] = x.dims();
        let padding = padding::on_both_axes(&self.config.padding, [height, width], kernel, stride);
        let window = Window { kernel, stride, padding, dilation: [1, 1], ceil_mode };
        let divisor = if count_include_pad { Divisor::Window } else { Divisor::Inside };
        average_pool(x, window, divisor, self.forced)
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

/// A fixed number of averages per axis, replacing burn's `AdaptiveAvgPool2d`; computed as
/// [`MaxPool2d`] is.
#[derive(Module, Debug)]
pub struct AdaptiveAvgPool2d {
    #[module(skip)]
    config: AdaptiveAvgPool2dConfig,
    #[module(skip)]
    forced: Option<LayerPath>,
}

impl AdaptiveAvgPool2d {
    /// Creates the layer from burn's config.
    #[must_use]
    pub const fn new(config: AdaptiveAvgPool2dConfig) -> Self {
        Self { config, forced: None }
    }

    /// Pools `x`, `[batch, channels, height, width]`.
    ///
    /// # Panics
    /// As burn's own operation, and if a [forced](Self::with_path) path cannot compute it.
    #[must_use]
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        adaptive_average_pool(x, self.config.output_size, self.forced)
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
