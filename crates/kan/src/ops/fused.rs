//! Layers by our kernels.

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::{DType, FloatDType, Tensor};

use super::extension::{Geometry, KanBackend, Operand, Spec};
use super::layer::Parameters;
use super::listed::runs_our_kernels;
use crate::kernels::{Isa, PackedLayer};

/// The outputs of a layer, in the input's dtype.
pub(super) fn layer<const D: usize>(
    x: Tensor<D>,
    parameters: Parameters,
    geometry: Geometry,
    isa: Isa,
) -> Tensor<D> {
    assert!(runs_our_kernels(&x.device()), "no kernels for the device {:?}", x.device());
    assert!(isa.is_available(), "this processor has no {isa}");
    let dtype = x.dtype();
    assert!(dtype != DType::F64, "the kernels compute in f32; f64 takes the plain path");
    let Parameters { spline, base, scaler, bias } = parameters;
    let [base, scaler] = [base, scaler]
        .map(|edges| Operand::from(edges.map(|edges| edges.cast(FloatDType::F32).into_dispatch())));
    let y = Dispatch::kan_layer(
        x.cast(FloatDType::F32).into_dispatch(),
        spline.cast(FloatDType::F32).into_dispatch(),
        base,
        scaler,
        Operand::from(bias.map(|bias| bias.cast(FloatDType::F32).into_dispatch())),
        Spec { geometry, isa },
    );
    Tensor::<D>::from_dispatch(y).cast(dtype)
}

/// The outputs of a layer whose weights are laid out, in the input's dtype.
pub(crate) fn packed(x: Tensor<2>, layer: &Arc<PackedLayer>) -> Tensor<2> {
    assert!(runs_our_kernels(&x.device()), "no kernels for the device {:?}", x.device());
    let dtype = x.dtype();
    assert!(dtype != DType::F64, "a packed layer computes in f32, its input is of f64");
    let y = Dispatch::kan_packed(x.cast(FloatDType::F32).into_dispatch(), Arc::clone(layer));
    Tensor::<2>::from_dispatch(y).cast(dtype)
}
