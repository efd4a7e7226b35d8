//! The operations of batch normalization that a backend implements to run our kernels.
#![allow(
    clippy::too_many_arguments,
    clippy::type_complexity,
    reason = "a gradient needs what the forward pass knew; burn's macro copies the signature"
)]

#[cfg(feature = "autodiff")]
use burn::backend::ExtensionType;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

use crate::kernels::{Activation, Isa, StatisticsOf};
use crate::ops::operand::Operand;

/// The settings of a normalization.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NormSpec {
    pub(crate) epsilon: f64,
    pub(crate) activation: Activation,
    pub(crate) of: StatisticsOf,
    /// The instruction set, on the CPU.
    pub(crate) isa: Option<Isa>,
}

/// Batch normalization; a residual has the dtype and the shape of `x`, and everything of channels is
/// in f32. On the CPU `x` is in f32, too.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(feature = "cube"),
    Autodiff: cfg(feature = "autodiff"),
    Fusion: cfg(all(feature = "cube", feature = "fusion"))
)]
pub(crate) trait NormalizationBackend: Backend {
    /// A batch normalization by its own statistics: result, mean and variance.
    #[fusion(meta = |x, gamma, _beta, _residual, _spec| (x.clone(), gamma.clone(), gamma.clone()))]
    fn normalization(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        #[extension_type] residual: Operand<Self>,
        spec: NormSpec,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// A batch normalization by given statistics, which have no gradient.
    #[fusion(dtype = x, shape = x)]
    fn normalization_by(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        #[extension_type] residual: Operand<Self>,
        spec: NormSpec,
    ) -> FloatTensor<Self>;
}

/// The gradients of a normalization.
#[cfg(feature = "autodiff")]
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(all(feature = "cube", feature = "fusion")))]
pub(crate) struct NormalizationGradients<B: Backend> {
    pub(crate) x: FloatTensor<B>,
    pub(crate) gamma: FloatTensor<B>,
    pub(crate) beta: FloatTensor<B>,
    /// Given if there is a residual.
    #[extension_type]
    pub(crate) residual: Operand<B>,
}

/// The gradients of batch normalization, on a backend below autodiff: burn differentiates once.
#[cfg(feature = "autodiff")]
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(feature = "cube"),
    Fusion: cfg(all(feature = "cube", feature = "fusion"))
)]
pub(crate) trait NormalizationGradientBackend: NormalizationBackend {
    /// The gradients of either normalization.
    #[fusion(meta = |x, gamma, beta, _mean, _variance, residual, _dy, _spec| {
        NormalizationGradientsMetadata {
            x: x.clone(),
            gamma: gamma.clone(),
            beta: beta.clone(),
            residual: residual.clone(),
        }
    })]
    fn normalization_gradient(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        #[extension_type] residual: Operand<Self>,
        dy: FloatTensor<Self>,
        spec: NormSpec,
    ) -> NormalizationGradients<Self>;
}
