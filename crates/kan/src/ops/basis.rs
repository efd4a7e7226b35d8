//! A layer of functions in closed form as one operation.

use burn::tensor::{DType, FloatDType, Tensor};
use updraft_simd::mark_plain;

#[cfg(feature = "flex")]
use super::basis_fused;
use super::expansion::expand;
use super::layer::{LayerPath, is_for_kernels};
use super::plain::activate;
use super::reason::PlainReason;
use crate::basis::Basis;
use crate::kernels::Activation;

/// A layer's functions and parameters, as tensors.
#[derive(Debug, Clone)]
pub(crate) struct BasisParameters {
    pub(crate) basis: Basis,
    pub(crate) activation: Activation,
    /// `[in_features, functions, out_features]`.
    pub(crate) coefficients: Tensor<3>,
    /// Parameters of the functions, `[groups, parameters]`.
    pub(crate) functions: Option<Tensor<2>>,
    /// Weights of the base branch, `[in_features, out_features]`.
    pub(crate) base: Option<Tensor<2>>,
    /// `[out_features]`.
    pub(crate) bias: Option<Tensor<1>>,
}

/// Computes a layer's outputs, `[batch, out_features]`, of `x`, `[batch, in_features]`, in its dtype;
/// the functions see `seen` instead of `x` if that is given.
///
/// On flex it runs our kernels in f32, which keep nothing for the backward pass but the input and the
/// parameters; f64, and every other backend, take burn's own operations.
///
/// # Panics
/// If the shapes do not fit each other, or `path` forces kernels that the device or the processor does
/// not have.
#[must_use]
pub(crate) fn basis_layer(
    x: Tensor<2>,
    seen: Option<Tensor<2>>,
    parameters: BasisParameters,
    path: Option<LayerPath>,
) -> Tensor<2> {
    let has_kernels = path.is_some() || is_for_kernels(x.dtype());
    let picked = LayerPath::of_basis(path, &x.device());
    match LayerPath::for_dtype(picked, has_kernels) {
        LayerPath::Plain => plain(x, seen, parameters),
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) => basis_fused::layer(x, seen, parameters, isa),
        #[cfg(not(feature = "flex"))]
        LayerPath::Kernels(_) => panic!("the kernels need the cargo feature `flex`"),
        LayerPath::Cube | LayerPath::CubeIn(_) => panic!("{}", PlainReason::Functions),
    }
}

/// All functions of the batch are stored, then multiplied as a matrix.
fn plain(x: Tensor<2>, seen: Option<Tensor<2>>, parameters: BasisParameters) -> Tensor<2> {
    mark_plain();
    let BasisParameters { basis, activation, coefficients, functions, base, bias } = parameters;
    let dtype = x.dtype();
    let compute = if dtype == DType::F64 { FloatDType::F64 } else { FloatDType::F32 };
    let [inputs, count, outputs] = coefficients.dims();
    let values = expand(&basis, seen.unwrap_or_else(|| x.clone()).cast(compute), functions);
    let [rows, ..] = values.dims();
    let coefficients = coefficients.cast(compute).reshape([inputs * count, outputs]);
    let mut y = values.reshape([rows, inputs * count]).matmul(coefficients);
    if let Some(base) = base {
        y = y + activate(x.cast(compute), activation).matmul(base.cast(compute));
    }
    if let Some(bias) = bias {
        y = y + bias.cast(compute).reshape([1, outputs]);
    }
    y.cast(dtype)
}
