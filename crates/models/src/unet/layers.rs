//! The layers that differ between images and volumes.

use burn::module::{Initializer, Module};
use burn::nn::conv::{Conv2dConfig, Conv3dConfig, ConvTranspose2dConfig, ConvTranspose3dConfig};
use burn::nn::pool::MaxPool2dConfig;
use burn::nn::{PaddingConfig2d, PaddingConfig3d};
use burn::tensor::{Device, Tensor};
use updraft_conv::{
    Activation, Alignment, Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d, MaxPool2d, MaxPool3d,
    MaxPool3dConfig, SampleNorm, resize2d, resize3d,
};

/// A convolution of images (`D` is 4) or of volumes (`D` is 5), with the other layers of that rank.
///
/// `kernel` and `stride` apply to every axis.
pub trait SpatialLayers<const D: usize>: Module {
    /// The transposed convolution that doubles every side.
    type Transposed: Module;

    /// A convolution with an odd kernel size; its padding keeps the sides at stride 1.
    fn convolution(
        channels: [usize; 2],
        kernel: usize,
        stride: usize,
        bias: bool,
        initializer: Initializer,
        device: &Device,
    ) -> Self;

    /// `[batch, channels, …sides]` to `[batch, other channels, …sides / stride]`.
    #[must_use]
    fn convolve(&self, x: Tensor<D>) -> Tensor<D>;

    /// The convolution of a normalized and activated tensor; a graph keeps `x` only.
    #[must_use]
    fn convolve_normalized(
        &self,
        x: Tensor<D>,
        norm: &impl SampleNorm,
        activation: Activation,
    ) -> Tensor<D>;

    /// The convolution, normalized; a graph keeps `x` only.
    #[must_use]
    fn convolve_then_normalize(&self, x: Tensor<D>, norm: &impl SampleNorm) -> Tensor<D>;

    /// The convolution of the channels of `a` followed by those of `b`.
    #[must_use]
    fn convolve_joined(&self, a: Tensor<D>, b: Tensor<D>) -> Tensor<D>;

    /// Multiply-adds of the convolution for an input of these sides, and the sides of the result.
    fn multiply_adds(&self, sides: &[usize]) -> (u64, Vec<usize>);

    /// A transposed convolution of kernel and stride 2.
    fn transposed(
        channels: [usize; 2],
        bias: bool,
        initializer: Initializer,
        device: &Device,
    ) -> Self::Transposed;

    /// Doubles every side.
    fn upsample(layer: &Self::Transposed, x: Tensor<D>) -> Tensor<D>;

    /// Weights of a transposed convolution: its multiply-adds for each input position.
    fn transposed_weights(layer: &Self::Transposed) -> u64;

    /// The maximum of every block of 2 positions along every axis.
    fn pool(x: Tensor<D>) -> Tensor<D>;

    /// Linear interpolation to other sides, like `PyTorch`'s with `align_corners=False`.
    fn resize(x: Tensor<D>, sides: &[usize]) -> Tensor<D>;
}

impl SpatialLayers<4> for Conv2d {
    type Transposed = ConvTranspose2d;

    fn convolution(
        channels: [usize; 2],
        kernel: usize,
        stride: usize,
        bias: bool,
        initializer: Initializer,
        device: &Device,
    ) -> Self {
        let padding = kernel / 2;
        let config = Conv2dConfig::new(channels, [kernel; 2])
            .with_stride([stride; 2])
            .with_padding(PaddingConfig2d::Explicit(padding, padding, padding, padding))
            .with_bias(bias)
            .with_initializer(initializer);
        Self::new(&config, device)
    }

    fn convolve(&self, x: Tensor<4>) -> Tensor<4> {
        self.forward(x)
    }

    fn convolve_normalized(
        &self,
        x: Tensor<4>,
        norm: &impl SampleNorm,
        activation: Activation,
    ) -> Tensor<4> {
        self.forward_normalized(x, norm, activation)
    }

    fn convolve_then_normalize(&self, x: Tensor<4>, norm: &impl SampleNorm) -> Tensor<4> {
        self.forward_then_normalized(x, norm, Activation::Identity)
    }

    fn convolve_joined(&self, a: Tensor<4>, b: Tensor<4>) -> Tensor<4> {
        self.forward_joined(a, b)
    }

    fn multiply_adds(&self, sides: &[usize]) -> (u64, Vec<usize>) {
        counted(self.weight.lazy_shape().num_elements(), &self.stride, sides)
    }

    fn transposed(
        channels: [usize; 2],
        bias: bool,
        initializer: Initializer,
        device: &Device,
    ) -> ConvTranspose2d {
        let config = ConvTranspose2dConfig::new(channels, [2; 2])
            .with_stride([2; 2])
            .with_bias(bias)
            .with_initializer(initializer);
        ConvTranspose2d::new(&config, device)
    }

    fn upsample(layer: &ConvTranspose2d, x: Tensor<4>) -> Tensor<4> {
        layer.forward_recomputed(x)
    }

    fn transposed_weights(layer: &ConvTranspose2d) -> u64 {
        layer.weight.lazy_shape().num_elements() as u64
    }

    fn pool(x: Tensor<4>) -> Tensor<4> {
        MaxPool2d::new(MaxPool2dConfig::new([2; 2]).with_strides([2; 2])).forward(x)
    }

    fn resize(x: Tensor<4>, sides: &[usize]) -> Tensor<4> {
        resize2d(x, [sides[0], sides[1]], Alignment::Edges)
    }
}

impl SpatialLayers<5> for Conv3d {
    type Transposed = ConvTranspose3d;

    fn convolution(
        channels: [usize; 2],
        kernel: usize,
        stride: usize,
        bias: bool,
        initializer: Initializer,
        device: &Device,
    ) -> Self {
        let padding = kernel / 2;
        let config = Conv3dConfig::new(channels, [kernel; 3])
            .with_stride([stride; 3])
            .with_padding(PaddingConfig3d::Explicit(padding, padding, padding))
            .with_bias(bias)
            .with_initializer(initializer);
        Self::new(&config, device)
    }

    fn convolve(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward(x)
    }

    fn convolve_normalized(
        &self,
        x: Tensor<5>,
        norm: &impl SampleNorm,
        activation: Activation,
    ) -> Tensor<5> {
        self.forward_normalized(x, norm, activation)
    }

    fn convolve_then_normalize(&self, x: Tensor<5>, norm: &impl SampleNorm) -> Tensor<5> {
        self.forward_then_normalized(x, norm, Activation::Identity)
    }

    fn convolve_joined(&self, a: Tensor<5>, b: Tensor<5>) -> Tensor<5> {
        self.forward_joined(a, b)
    }

    fn multiply_adds(&self, sides: &[usize]) -> (u64, Vec<usize>) {
        counted(self.weight.lazy_shape().num_elements(), &self.stride, sides)
    }

    fn transposed(
        channels: [usize; 2],
        bias: bool,
        initializer: Initializer,
        device: &Device,
    ) -> ConvTranspose3d {
        let config = ConvTranspose3dConfig::new(channels, [2; 3])
            .with_stride([2; 3])
            .with_bias(bias)
            .with_initializer(initializer);
        ConvTranspose3d::new(&config, device)
    }

    fn upsample(layer: &ConvTranspose3d, x: Tensor<5>) -> Tensor<5> {
        layer.forward_recomputed(x)
    }

    fn transposed_weights(layer: &ConvTranspose3d) -> u64 {
        layer.weight.lazy_shape().num_elements() as u64
    }

    fn pool(x: Tensor<5>) -> Tensor<5> {
        MaxPool3d::new(MaxPool3dConfig::new([2; 3]).with_strides([2; 3])).forward(x)
    }

    fn resize(x: Tensor<5>, sides: &[usize]) -> Tensor<5> {
        resize3d(x, [sides[0], sides[1], sides[2]], Alignment::Edges)
    }
}

/// The multiply-adds of a convolution whose padding keeps the sides at stride 1.
fn counted(weights: usize, strides: &[usize], sides: &[usize]) -> (u64, Vec<usize>) {
    let sides: Vec<usize> =
        sides.iter().zip(strides).map(|(side, &stride)| side.div_ceil(stride)).collect();
    (weights as u64 * sides.iter().product::<usize>() as u64, sides)
}
