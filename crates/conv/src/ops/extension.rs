//! The operations that a backend implements to run our kernels, and their gradients.
#![allow(
    clippy::too_many_arguments,
    clippy::type_complexity,
    reason = "a gradient needs what the forward pass knew; burn's macro copies the signature"
)]

use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};
use updraft_simd::Products;

pub(crate) use super::operand::Operand;
use crate::kernels::{Activation, ConvShape, Isa, PoolGeometry, Pooling};

/// The settings of a convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConvSpec<const D: usize = 2> {
    pub(crate) shape: ConvShape<D>,
    /// What follows; nothing where a gradient is wanted.
    pub(crate) activation: Activation,
    pub(crate) isa: Isa,
    /// What products multiply, also in the gradients.
    pub(crate) products: Products,
}

impl<const D: usize> ConvSpec<D> {
    /// With the products of the scope that this thread is in.
    pub(crate) fn new(shape: ConvShape<D>, activation: Activation, isa: Isa) -> Self {
        Self { shape, activation, isa, products: Products::current() }
    }
}

/// The settings of a pooling.
#[derive(Debug, Clone)]
pub(crate) struct PoolSpec<const D: usize = 2> {
    pub(crate) pooling: Pooling,
    pub(crate) geometry: Arc<PoolGeometry<D>>,
    /// The tensor's first two axes.
    pub(crate) planes: [usize; 2],
    pub(crate) isa: Isa,
}

/// Our operations, on f32 tensors.
#[backend_extension(Flex: cfg(feature = "flex"), Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait ConvBackend: Backend {
    /// A convolution.
    fn convolution(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        #[extension_type] bias: Operand<Self>,
        spec: ConvSpec,
    ) -> FloatTensor<Self>;

    /// An activation.
    fn activation(x: FloatTensor<Self>, activation: Activation, isa: Isa) -> FloatTensor<Self>;

    /// A pooling.
    fn pooling(x: FloatTensor<Self>, spec: PoolSpec) -> FloatTensor<Self>;

    /// Numbers rounded to codes and back: by the step of all of them or of each index of the first
    /// axis, the lowest code `[1]`, and the codes above it.
    fn fake_quantization(
        x: FloatTensor<Self>,
        steps: FloatTensor<Self>,
        lowest: FloatTensor<Self>,
        levels: u32,
        isa: Isa,
    ) -> FloatTensor<Self>;

    /// The channels of two tensors in one.
    fn join(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self>;

    /// A weighted sum of two or three tensors.
    fn weighted_sum(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        #[extension_type] c: Operand<Self>,
        weights: FloatTensor<Self>,
        isa: Isa,
    ) -> FloatTensor<Self>;
}

/// The gradients of our operations, on a backend below autodiff: burn differentiates once.
#[cfg(feature = "autodiff")]
pub(crate) trait ConvGradients: ConvBackend {
    /// The gradient of a convolution's input.
    fn convolution_input_gradient(
        dy: FloatTensor<Self>,
        w: FloatTensor<Self>,
        spec: ConvSpec,
    ) -> FloatTensor<Self>;

    /// The gradient of a convolution's weights.
    fn convolution_weight_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        spec: ConvSpec,
    ) -> FloatTensor<Self>;

    /// The gradient of a bias: the sum of each channel, the second axis.
    fn channel_sums(dy: FloatTensor<Self>, isa: Isa) -> FloatTensor<Self>;

    /// The gradient of an activation.
    fn activation_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        activation: Activation,
        isa: Isa,
    ) -> FloatTensor<Self>;

    /// The gradient of a pooling.
    fn pooling_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        spec: PoolSpec,
    ) -> FloatTensor<Self>;

    /// The gradients of a fake quantization: of its numbers and of the steps, the latter scaled.
    fn fake_quantization_gradient(
        tensors: [FloatTensor<Self>; 3],
        dy: FloatTensor<Self>,
        levels: u32,
        scale: f32,
        isa: Isa,
    ) -> [FloatTensor<Self>; 2];

    /// The gradients of a weighted sum: of its tensors and of the weights.
    fn weighted_sum_gradient(
        tensors: Vec<FloatTensor<Self>>,
        weights: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        isa: Isa,
    ) -> (Vec<FloatTensor<Self>>, FloatTensor<Self>);
}
