//! The operations that a backend must provide to run our kernels.
#![allow(
    clippy::too_many_arguments,
    reason = "a gradient needs what the forward pass knew; burn's macro copies the signature"
)]

use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};

use crate::kernels::{ConvGeometry, Isa, LayerGeometry, PackedLayer};

/// What a layer is, apart from its tensors.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) geometry: Geometry,
    pub(crate) isa: Isa,
}

/// The sizes of a layer.
#[derive(Debug, Clone)]
pub(crate) enum Geometry {
    Linear(Arc<LayerGeometry>),
    Conv(Arc<ConvGeometry>),
}

/// Which gradients are required: of the input, and of the parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) x: bool,
    pub(crate) parameters: bool,
}

/// A tensor that an operation may do without; burn's macro passes no `Option`.
#[derive(ExtensionType)]
pub(crate) enum Operand<B: Backend> {
    /// It takes part.
    Given(FloatTensor<B>),
    /// There is none.
    Absent,
}

impl<B: Backend> Operand<B> {
    pub(crate) fn given(self) -> Option<FloatTensor<B>> {
        match self {
            Self::Given(tensor) => Some(tensor),
            Self::Absent => None,
        }
    }
}

impl<B: Backend> From<Option<FloatTensor<B>>> for Operand<B> {
    fn from(tensor: Option<FloatTensor<B>>) -> Self {
        tensor.map_or(Self::Absent, Self::Given)
    }
}

/// Our operations, on f32 tensors.
#[backend_extension(Flex: cfg(feature = "flex"), Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait KanBackend: Backend {
    /// A layer's outputs.
    fn kan_layer(
        x: FloatTensor<Self>,
        spline: FloatTensor<Self>,
        #[extension_type] base: Operand<Self>,
        #[extension_type] scaler: Operand<Self>,
        #[extension_type] bias: Operand<Self>,
        spec: Spec,
    ) -> FloatTensor<Self>;

    /// The outputs of a layer with packed weights.
    fn kan_packed(x: FloatTensor<Self>, layer: Arc<PackedLayer>) -> FloatTensor<Self>;
}

/// The gradients of our operations, on a backend below autodiff: burn differentiates once.
#[cfg(feature = "autodiff")]
pub(crate) trait KanGradients: KanBackend {
    /// The gradients of the input and of each parameter that there is, in the order of
    /// [`kan_layer`](KanBackend::kan_layer); `None` for those that are not wanted.
    fn kan_layer_gradients(
        x_and_spline: [FloatTensor<Self>; 2],
        base: Option<FloatTensor<Self>>,
        scaler: Option<FloatTensor<Self>>,
        has_bias: bool,
        dy: FloatTensor<Self>,
        spec: Spec,
        wanted: Wanted,
    ) -> Vec<Option<FloatTensor<Self>>>;
}
