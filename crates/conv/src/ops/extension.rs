//! What a backend has to offer to run our kernels.
#![allow(
    clippy::too_many_arguments,
    clippy::type_complexity,
    reason = "a gradient needs what the forward pass knew; burn's macro copies the signature"
)]

use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

use crate::kernels::{Activation, ConvShape, Isa, PoolGeometry, Pooling, StatisticsOf};

/// What a convolution is, apart from its tensors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConvSpec {
    pub(crate) shape: ConvShape,
    pub(crate) has_bias: bool,
    /// What follows; nothing where a gradient is wanted.
    pub(crate) activation: Activation,
    pub(crate) isa: Isa,
}

/// What a normalization is, apart from its tensors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NormSpec {
    pub(crate) epsilon: f64,
    pub(crate) has_residual: bool,
    pub(crate) activation: Activation,
    pub(crate) of: StatisticsOf,
    pub(crate) isa: Isa,
}

/// What a pooling is.
#[derive(Debug, Clone)]
pub(crate) struct PoolSpec {
    pub(crate) pooling: Pooling,
    pub(crate) geometry: Arc<PoolGeometry>,
    /// The tensor's first two axes.
    pub(crate) planes: [usize; 2],
    pub(crate) isa: Isa,
}

/// What a weighted sum is, apart from its tensors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SumSpec {
    /// 2 or 3.
    pub(crate) terms: usize,
    pub(crate) isa: Isa,
}

/// Our operations, on f32 tensors. In the place of a bias, residual or third term that is not
/// there stands another tensor, which is not read.
#[backend_extension(Flex: cfg(feature = "flex"), Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait ConvBackend: Backend {
    /// A convolution.
    fn convolution(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        spec: ConvSpec,
    ) -> FloatTensor<Self>;

    /// The input's gradient.
    fn convolution_input_gradient(
        dy: FloatTensor<Self>,
        w: FloatTensor<Self>,
        spec: ConvSpec,
    ) -> FloatTensor<Self>;

    /// The weights' gradient.
    fn convolution_weight_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        spec: ConvSpec,
    ) -> FloatTensor<Self>;

    /// The bias's gradient.
    fn convolution_bias_gradient(dy: FloatTensor<Self>, spec: ConvSpec) -> FloatTensor<Self>;

    /// An activation.
    fn activation(x: FloatTensor<Self>, activation: Activation, isa: Isa) -> FloatTensor<Self>;

    /// Its gradient.
    fn activation_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        activation: Activation,
        isa: Isa,
    ) -> FloatTensor<Self>;

    /// A batch normalization by its own statistics: result, mean and variance.
    fn normalization(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        spec: NormSpec,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// A batch normalization by given statistics, which have no gradient.
    fn normalization_by(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        spec: NormSpec,
    ) -> FloatTensor<Self>;

    /// The gradients of either: of input, factors, summands and residual; without a residual the
    /// last is one number that nobody reads.
    fn normalization_gradient(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        spec: NormSpec,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// A pooling.
    fn pooling(x: FloatTensor<Self>, spec: PoolSpec) -> FloatTensor<Self>;

    /// Its gradient.
    fn pooling_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        spec: PoolSpec,
    ) -> FloatTensor<Self>;

    /// A weighted sum of two or three tensors.
    fn weighted_sum(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        spec: SumSpec,
    ) -> FloatTensor<Self>;

    /// Its gradients: of the tensors and the weights; of two tensors the third gradient is one
    /// number that nobody reads.
    fn weighted_sum_gradient(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        spec: SumSpec,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}
