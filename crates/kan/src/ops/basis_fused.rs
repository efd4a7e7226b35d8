//! Layers of functions in closed form by our kernels.

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::{DType, Device, FloatDType, Tensor};
use updraft_simd::add_operations;

use super::basis::BasisParameters;
use super::basis_extension::{BasisBackend, BasisSpec};
use super::extension::Operand;
use super::listed::{Kernels, kernels_of};
use crate::kernels::{ConvGeometry, DenseLayer, Isa};

/// The outputs of a layer, in the input's dtype, by the kernels with an instruction set.
pub(super) fn layer(
    x: Tensor<2>,
    seen: Option<Tensor<2>>,
    parameters: BasisParameters,
    isa: Isa,
) -> Tensor<2> {
    let [inputs, _, outputs] = parameters.coefficients.dims();
    let products = x.dims()[0] * parameters.products();
    add_operations(2 * products as u64);
    let spec = BasisSpec { layer: parameters.layer([inputs, outputs]), conv: None, isa };
    compute(x, seen, parameters, spec)
}

/// The outputs of a convolution, in the same way.
pub(super) fn conv<const D: usize>(
    x: Tensor<D>,
    parameters: BasisParameters,
    geometry: &Arc<ConvGeometry>,
    output: &[usize],
    isa: Isa,
) -> Tensor<D> {
    let [_, _, outputs] = parameters.coefficients.dims();
    let pixels = output.iter().product::<usize>();
    let products = x.dims()[0] * pixels * parameters.products();
    add_operations(2 * products as u64);
    let layer = parameters.layer([geometry.in_channels(), outputs]);
    compute(x, None, parameters, BasisSpec { layer, conv: Some(Arc::clone(geometry)), isa })
}

impl BasisParameters {
    /// Products of a pass for one output position.
    fn products(&self) -> usize {
        let [inputs, count, outputs] = self.coefficients.dims();
        inputs * outputs * (count + usize::from(self.base.is_some()))
    }

    fn layer(&self, [inputs, outputs]: [usize; 2]) -> DenseLayer {
        let groups = self.functions.as_ref().map_or(1, |functions| functions.dims()[0]);
        DenseLayer { basis: self.basis, inputs, outputs, groups, activation: self.activation }
    }
}

fn compute<const D: usize>(
    x: Tensor<D>,
    seen: Option<Tensor<2>>,
    parameters: BasisParameters,
    spec: BasisSpec,
) -> Tensor<D> {
    check(&x.device(), x.dtype(), spec.isa);
    let dtype = FloatDType::from(x.dtype());
    let BasisParameters { coefficients, functions, base, bias, .. } = parameters;
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
        spec,
    );
    Tensor::<D>::from_dispatch(y).cast(dtype)
}

fn check(device: &Device, dtype: DType, isa: Isa) {
    let is_there = kernels_of(device) == Ok(Kernels::Cpu);
    assert!(is_there, "no such kernels for the device {device:?}");
    assert!(isa.is_available(), "this processor has no {isa}");
    assert!(dtype != DType::F64, "the kernels compute in f32; f64 takes the plain path");
}
