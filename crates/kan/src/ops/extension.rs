//! What a backend has to offer to run our kernels.
#![allow(
    clippy::too_many_arguments,
    clippy::type_complexity,
    reason = "a gradient needs what the forward pass knew; burn's macro copies the signature"
)]

use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

use crate::kernels::{ConvGeometry, Isa, LayerGeometry, PackedLayer};

/// Which parameters a layer has beside its coefficients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    pub(crate) base: bool,
    pub(crate) scaler: bool,
    pub(crate) bias: bool,
}

/// What a layer is, apart from its tensors.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) geometry: Arc<LayerGeometry>,
    pub(crate) parts: Parts,
    pub(crate) isa: Isa,
}

/// What a convolution is, apart from its tensors.
#[derive(Debug, Clone)]
pub(crate) struct ConvSpec {
    pub(crate) geometry: Arc<ConvGeometry>,
    pub(crate) parts: Parts,
    pub(crate) isa: Isa,
}

/// Which gradients are wanted: of the input, and of the parameters.
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

    /// Its gradients: of `x`, `spline`, `base`, `scaler` and `bias`; what is not wanted or not
    /// there is empty.
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

    /// Its gradients, as those of a layer.
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

    /// The outputs of a layer whose weights are laid out.
    fn kan_packed(x: FloatTensor<Self>, layer: Arc<PackedLayer>) -> FloatTensor<Self>;
}
