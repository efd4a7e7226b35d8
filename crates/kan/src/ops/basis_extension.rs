//! The operations that a backend must provide to run our kernels of functions in closed form.
#![allow(
    clippy::too_many_arguments,
    reason = "a layer has as many tensors; burn's macro copies the signature"
)]

use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};

use super::extension::Operand;
use crate::kernels::{ConvGeometry, DenseLayer, Isa};

/// What a layer is, apart from its tensors.
#[derive(Debug, Clone)]
pub(crate) struct BasisSpec {
    /// The layer, or the functions of a pixel with the outputs of a group.
    pub(crate) layer: DenseLayer,
    /// The sizes of a convolution.
    pub(crate) conv: Option<Arc<ConvGeometry>>,
    pub(crate) isa: Isa,
}

/// Which gradients are required.
#[cfg(feature = "autodiff")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct BasisWanted {
    /// Of the input of the base branch, and of the functions without one of their own.
    pub(crate) x: bool,
    /// Of the input of the functions.
    pub(crate) seen: bool,
    /// Of the coefficients, the base branch and the bias.
    pub(crate) weights: bool,
    /// Of the functions' parameters.
    pub(crate) functions: bool,
}

/// Our operations, on f32 tensors.
#[backend_extension(Flex, Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait BasisBackend: Backend {
    /// A layer's outputs.
    fn basis_layer(
        x: FloatTensor<Self>,
        #[extension_type] seen: Operand<Self>,
        coefficients: FloatTensor<Self>,
        #[extension_type] functions: Operand<Self>,
        #[extension_type] base: Operand<Self>,
        #[extension_type] bias: Operand<Self>,
        spec: BasisSpec,
    ) -> FloatTensor<Self>;
}

/// The gradients of a layer; those that are not wanted are absent.
#[cfg(feature = "autodiff")]
#[derive(ExtensionType)]
pub(crate) struct BasisGradients<B: Backend> {
    #[extension_type]
    pub(crate) x: Operand<B>,
    #[extension_type]
    pub(crate) seen: Operand<B>,
    #[extension_type]
    pub(crate) coefficients: Operand<B>,
    #[extension_type]
    pub(crate) functions: Operand<B>,
    #[extension_type]
    pub(crate) base: Operand<B>,
    #[extension_type]
    pub(crate) bias: Operand<B>,
}

/// The gradients of our operations, on a backend below autodiff: burn differentiates once.
#[cfg(feature = "autodiff")]
#[backend_extension(Flex)]
pub(crate) trait BasisGradientsBackend: BasisBackend {
    /// The gradients of the inputs and of the parameters, for that of the outputs.
    fn basis_layer_gradients(
        x: FloatTensor<Self>,
        #[extension_type] seen: Operand<Self>,
        coefficients: FloatTensor<Self>,
        #[extension_type] functions: Operand<Self>,
        #[extension_type] base: Operand<Self>,
        has_bias: bool,
        dy: FloatTensor<Self>,
        spec: BasisSpec,
        wanted: BasisWanted,
    ) -> BasisGradients<Self>;
}
