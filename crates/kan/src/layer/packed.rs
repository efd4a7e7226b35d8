//! Layers and networks for inference, with packed weights.

#[cfg(feature = "flex")]
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Tensor;
#[cfg(feature = "flex")]
use burn::{module::Param, tensor::DType};

use super::linear::KanLinear;
#[cfg(feature = "flex")]
use super::{linear::by_rows, regrid::numbers};
#[cfg(feature = "flex")]
use crate::kernels::{PackedLayer, Weights};
use crate::ops::LayerPath;
#[cfg(feature = "flex")]
use crate::ops::packed;

/// A [`KanLinear`] for inference, made by [`KanLinear::pack`].
///
/// If our kernels compute the layer on the CPU, its weights are packed; otherwise it is the
/// unchanged layer. A clone shares the weights.
#[derive(Debug, Clone)]
pub struct PackedKanLinear(Form);

#[derive(Debug, Clone)]
enum Form {
    #[cfg(feature = "flex")]
    Kernels(Arc<PackedLayer>),
    Unpacked(Box<KanLinear>),
}

impl PackedKanLinear {
    pub(super) fn of(layer: &KanLinear) -> Self {
        #[cfg(feature = "flex")]
        if let LayerPath::Kernels(isa) = layer.path()
            && layer.spline.val().dtype() != DType::F64
        {
            let edges = |edges: &Option<Param<Tensor<2>>>| edges.as_ref().map(|e| numbers(e.val()));
            let (spline, base) = (numbers(layer.spline.val()), edges(&layer.base));
            let (scaler, bias) = (edges(&layer.scaler), layer.bias.as_ref());
            let bias = bias.map(|bias| numbers(bias.val()));
            let weights = Weights {
                spline: &spline,
                base: base.as_deref(),
                scaler: scaler.as_deref(),
                bias: bias.as_deref(),
            };
            let packed = PackedLayer::try_new(isa, layer.geometry(), weights);
            return Self(Form::Kernels(Arc::new(packed.unwrap_or_else(|error| panic!("{error}")))));
        }
        Self(Form::Unpacked(Box::new(layer.clone().no_grad())))
    }

    /// The outputs, `[..., out_features]`, of `x`, `[..., in_features]`: to the bit those of
    /// [`KanLinear::forward`].
    ///
    /// # Panics
    /// If the last axis of `x` is not `in_features`; and where kernels compute the layer, if a
    /// gradient of `x` is requested, or `x` is of f64 or on a device without them.
    #[must_use]
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        match &self.0 {
            #[cfg(feature = "flex")]
            Form::Kernels(layer) => by_rows(x, layer.geometry(), |x| packed(x, layer)),
            Form::Unpacked(layer) => layer.forward(x),
        }
    }

    /// The implementation of the layer.
    #[must_use]
    pub fn path(&self) -> LayerPath {
        match &self.0 {
            #[cfg(feature = "flex")]
            Form::Kernels(layer) => LayerPath::Kernels(layer.isa()),
            Form::Unpacked(layer) => match layer.path() {
                path @ (LayerPath::Cube | LayerPath::CubeIn(_)) => path,
                // Kernels would have packed weights; those of f64 have none.
                LayerPath::Kernels(_) | LayerPath::Plain => LayerPath::Plain,
            },
        }
    }
}

/// A [`Kan`](super::Kan) for inference, made by [`Kan::pack`](super::Kan::pack).
#[derive(Debug, Clone)]
pub struct PackedKan {
    /// From the input to the output.
    pub layers: Vec<PackedKanLinear>,
}

impl PackedKan {
    /// The outputs, `[..., out_features]`, of `x`, `[..., in_features]`: to the bit those of
    /// [`Kan::forward`](super::Kan::forward).
    ///
    /// # Panics
    /// As [`PackedKanLinear::forward`] does.
    #[must_use]
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        self.layers.iter().fold(x, |x, layer| layer.forward(x))
    }
}
