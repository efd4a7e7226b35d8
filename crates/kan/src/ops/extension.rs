//! The operations that a backend must provide to run our kernels.
#![allow(
    clippy::too_many_arguments,
    clippy::type_complexity,
    reason = "a gradient needs what the forward pass knew; burn's macro copies the signature"
)]

use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

use crate::kernels::{ConvGeometry, Isa, LayerGeometry, PackedLayer};

/// Which optional parameters a layer has in addition to its coefficients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    pub(crate) base: bool,
    pub(crate) scaler: bool,
    pub(crate) bias: bool,
}

/// The description of a layer without its tensors.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) geometry: Arc<LayerGeometry>,
    pub(crate) parts: Parts,
    pub(crate) isa: Isa,
}

/// The description of a convolution without its tensors.
#[derive(Debug, Clone)]
pub(crate) struct ConvSpec {
    pub(crate) geometry: Arc<ConvGeometry>,
    pub(crate) parts: Parts,
    pub(crate) isa: Isa,
}

/// Which gradients are required: of the input, and of the parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) x: bool,
    pub(crate) parameters: bool,
}

/// Our operations, on f32 tensors. Missing parameters are replaced by others, which are not read.
#[backend_extension(Flex: cfg(feature = "flex"), Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait KanBackend: Backend {
    /// A layer's outputs.
    fn kan_layer(
        x: FloatTensor<Self>,
        spline: FloatTensor<Self>,
        base: FloatTensor<Self>,
        scaler: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        spec: Spec,
    ) -> FloatTensor<Self>;

    /// The gradients of `x`, `spline`, `base`, `scaler` and `bias`; those that are not required or
    /// do not exist are empty.
    fn kan_layer_gradient(
        x: FloatTensor<Self>,
        spline: FloatTensor<Self>,
        base: FloatTensor<Self>,
        scaler: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        spec: Spec,
        wanted: Wanted,
    ) -> (
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
    );

    /// A convolution's outputs.
    fn kan_conv(
        x: FloatTensor<Self>,
        spline: FloatTensor<Self>,
        base: FloatTensor<Self>,
        scaler: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        spec: ConvSpec,
    ) -> FloatTensor<Self>;

    /// The gradients of a convolution, as for a layer.
    fn kan_conv_gradient(
        x: FloatTensor<Self>,
        spline: FloatTensor<Self>,
        base: FloatTensor<Self>,
        scaler: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        spec: ConvSpec,
        wanted: Wanted,
    ) -> (
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
    );

    /// The outputs of a layer with packed weights.
    fn kan_packed(x: FloatTensor<Self>, layer: Arc<PackedLayer>) -> FloatTensor<Self>;
}
