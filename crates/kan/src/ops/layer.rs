//! A KAN layer as one operation.

use std::fmt;
use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor, assert_shape};

use super::plain;
#[cfg(feature = "flex")]
use super::{extension::Geometry, fused};
use crate::kernels::{Isa, LayerGeometry};

/// A layer's parameters, as tensors.
#[derive(Debug, Clone)]
pub(crate) struct Parameters {
    /// Coefficients of the splines, `[in_features, bases, out_features]`.
    pub(crate) spline: Tensor<3>,
    /// Weights of the base branch, `[in_features, out_features]`.
    pub(crate) base: Option<Tensor<2>>,
    /// Factors of the splines, `[in_features, out_features]`.
    pub(crate) scaler: Option<Tensor<2>>,
    /// Initial values of the outputs, `[out_features]`.
    pub(crate) bias: Option<Tensor<1>>,
}

/// The implementation of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LayerPath {
    /// Our kernels, with this instruction set.
    Kernels(Isa),
    /// burn's own operations: all basis values are stored, then multiplied as a matrix.
    Plain,
}

impl LayerPath {
    /// The default of a device.
    #[must_use]
    pub fn of(device: &Device) -> Self {
        #[cfg(feature = "flex")]
        if super::listed::runs_our_kernels(device) {
            return Self::Kernels(Isa::detect().base());
        }
        let _ = device;
        Self::Plain
    }

    /// What computes a tensor's dtype best on its device.
    pub(super) fn fitting<const D: usize>(x: &Tensor<D>) -> Self {
        match x.dtype() {
            DType::F32 | DType::BF16 | DType::F16 => Self::of(&x.device()),
            _ => Self::Plain,
        }
    }
}

impl fmt::Display for LayerPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernels(isa) => write!(formatter, "kernels ({isa})"),
            Self::Plain => formatter.write_str("plain"),
        }
    }
}

/// Computes a layer's outputs, `[batch, out_features]`, of `x`, `[batch, in_features]`.
///
/// On flex it runs our kernels, in f32: bf16 and f16 are computed in f32 and rounded once, and
/// for the backward pass nothing is kept but the input and the parameters.
/// f64, and every other backend, take burn's own operations, with the same result; there the
/// bases of bf16 and f16 are computed in f32 too.
///
/// # Panics
/// If the shapes do not fit the geometry, or `path` forces kernels that the device or the
/// processor does not have.
#[must_use]
pub(crate) fn layer(
    x: Tensor<2>,
    parameters: Parameters,
    geometry: &Arc<LayerGeometry>,
    path: Option<LayerPath>,
) -> Tensor<2> {
    let (inputs, outputs) = (geometry.in_features(), geometry.out_features());
    let bases = geometry.grid().bases();
    assert_shape!(x, [_, inputs]);
    let Parameters { spline, base, scaler, bias } = &parameters;
    assert_shape!(spline, [inputs, bases, outputs]);
    for edges in [base, scaler].into_iter().flatten() {
        assert_shape!(edges, [inputs, outputs]);
    }
    if let Some(bias) = bias {
        assert_shape!(bias, [outputs]);
    }
    match path.unwrap_or_else(|| LayerPath::fitting(&x)) {
        LayerPath::Plain => plain::layer(x, parameters, geometry),
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) => {
            fused::layer(x, parameters, Geometry::Linear(Arc::clone(geometry)), isa)
        }
        #[cfg(not(feature = "flex"))]
        LayerPath::Kernels(_) => panic!("the kernels need the cargo feature `flex`"),
    }
}
