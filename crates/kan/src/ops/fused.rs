//! Layers by our kernels.

#[cfg(feature = "flex")]
use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::{DType, FloatDType, Tensor};
use updraft_simd::add_operations;

#[cfg(feature = "cube")]
use super::extension::Forms;
#[cfg(feature = "flex")]
use super::extension::PackedBackend;
use super::extension::{Geometry, KanBackend, Operand, Spec};
use super::layer::Parameters;
use super::listed::{Kernels, kernels_of};
use super::packed_cache::PackedCache;
#[cfg(feature = "flex")]
use crate::kernels::PackedLayer;
use crate::kernels::{CubeForm, Isa};

/// The outputs of a layer, in the input's dtype, by the kernels on the CPU with an instruction set,
/// or those of GPUs without one, in the form that is forced if there is one;
/// `cache` is where a linear layer without gradients keeps its packed weights.
pub(super) fn layer<const D: usize>(
    x: Tensor<D>,
    parameters: Parameters,
    geometry: Geometry,
    isa: Option<Isa>,
    forced: Option<CubeForm>,
    cache: Option<&PackedCache>,
) -> Tensor<D> {
    let kernels = if isa.is_some() { Kernels::Cpu } else { Kernels::Gpu };
    let is_there = kernels_of(&x.device()) == Ok(kernels);
    assert!(is_there, "no such kernels for the device {:?}", x.device());
    if let Some(isa) = isa {
        assert!(isa.is_available(), "this processor has no {isa}");
    }
    let dtype = x.dtype();
    assert!(dtype != DType::F64, "the kernels compute in f32; f64 takes the plain path");
    #[cfg(feature = "cube")]
    let forms = {
        let of_input = match dtype {
            DType::BF16 => Some(CubeForm::ExpandedBf16),
            DType::F16 => Some(CubeForm::ExpandedF16),
            _ => None,
        };
        Forms { forced, of_input }
    };
    #[cfg(not(feature = "cube"))]
    let _ = forced;
    #[cfg(not(feature = "flex"))]
    let _ = cache;
    let Parameters { spline, base, scaler, bias } = parameters;
    add_operations(geometry.operations(&x.dims(), base.is_some()));
    let [base, scaler] = [base, scaler]
        .map(|edges| Operand::from(edges.map(|edges| edges.cast(FloatDType::F32).into_dispatch())));
    let y = Dispatch::kan_layer(
        x.cast(FloatDType::F32).into_dispatch(),
        spline.cast(FloatDType::F32).into_dispatch(),
        base,
        scaler,
        Operand::from(bias.map(|bias| bias.cast(FloatDType::F32).into_dispatch())),
        Spec {
            geometry,
            isa,
            #[cfg(feature = "flex")]
            cache: cache.cloned(),
            #[cfg(feature = "cube")]
            forms,
        },
    );
    Tensor::<D>::from_dispatch(y).cast(dtype)
}

/// The outputs of a layer whose weights are laid out, in the input's dtype.
#[cfg(feature = "flex")]
pub(crate) fn packed(x: Tensor<2>, layer: &Arc<PackedLayer>) -> Tensor<2> {
    let is_there = kernels_of(&x.device()) == Ok(Kernels::Cpu);
    assert!(is_there, "no kernels of packed weights for the device {:?}", x.device());
    let dtype = x.dtype();
    assert!(dtype != DType::F64, "a packed layer computes in f32, its input is of f64");
    let y = Dispatch::kan_packed(x.cast(FloatDType::F32).into_dispatch(), Arc::clone(layer));
    Tensor::<2>::from_dispatch(y).cast(dtype)
}
