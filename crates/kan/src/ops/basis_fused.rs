//! Layers of functions in closed form by our kernels.

use burn::backend::Dispatch;
use burn::tensor::{DType, FloatDType, Tensor};
use updraft_simd::add_operations;

use super::basis::BasisParameters;
use super::basis_extension::{BasisBackend, BasisSpec};
use super::extension::Operand;
use super::listed::{Kernels, kernels_of};
use crate::kernels::{DenseLayer, Isa};

/// The outputs of a layer, in the input's dtype, by the kernels with an instruction set.
pub(super) fn layer(
    x: Tensor<2>,
    seen: Option<Tensor<2>>,
    parameters: BasisParameters,
    isa: Isa,
) -> Tensor<2> {
    let is_there = kernels_of(&x.device()) == Ok(Kernels::Cpu);
    assert!(is_there, "no such kernels for the device {:?}", x.device());
    assert!(isa.is_available(), "this processor has no {isa}");
    let dtype = x.dtype();
    assert!(dtype != DType::F64, "the kernels compute in f32; f64 takes the plain path");
    let BasisParameters { basis, activation, coefficients, functions, base, bias } = parameters;
    let [inputs, count, outputs] = coefficients.dims();
    let products = x.dims()[0] * inputs * outputs * (count + usize::from(base.is_some()));
    add_operations(2 * products as u64);
    let groups = functions.as_ref().map_or(1, |functions| functions.dims()[0]);
    let operand = |tensor: Option<Tensor<2>>| {
        Operand::from(tensor.map(|tensor| tensor.cast(FloatDType::F32).into_dispatch()))
    };
    let y = Dispatch::basis_layer(
        x.cast(FloatDType::F32).into_dispatch(),
        operand(seen),
        coefficients.cast(FloatDType::F32).into_dispatch(),
        operand(functions),
        operand(base),
        Operand::from(bias.map(|bias| bias.cast(FloatDType::F32).into_dispatch())),
        BasisSpec { layer: DenseLayer { basis, inputs, outputs, groups, activation }, isa },
    );
    Tensor::<2>::from_dispatch(y).cast(dtype)
}
