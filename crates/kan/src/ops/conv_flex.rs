//! A convolution of splines on burn's CPU backend.

use burn::backend::flex::FlexTensor;
use burn::tensor::Shape;

use super::extension::{ConvSpec, Wanted};
use super::flex::{optional, tensor, weights, with};
use crate::kernels::{Gradients, Weights, conv_backward, conv_forward};

/// The outputs of `x`, `spline`, `base`, `scaler` and `bias`.
pub(super) fn conv(tensors: [FlexTensor; 5], spec: &ConvSpec) -> FlexTensor {
    let [x, spline, base, scaler, bias] = tensors.map(|tensor| tensor.to_contiguous());
    let ConvSpec { geometry, parts, isa } = spec;
    let weights = weights(&spline, &base, &scaler, *parts);
    let weights = Weights { bias: parts.bias.then(|| bias.storage()), ..weights };
    let shape = x.layout().shape().to_vec();
    let mut output = vec![shape[0], geometry.out_channels()];
    output.extend(geometry.output_shape(&shape[2..]).expect("the operation has checked the shape"));
    let mut y = vec![0.0; output.iter().product()];
    with(|scratch, threads| {
        conv_forward(*isa, geometry, weights, x.storage(), &shape[2..], &mut y, scratch, threads)
    });
    tensor(y, Shape::from(output))
}

/// The gradients of `x`, `spline`, `base`, `scaler` and `bias`, of `x`, `spline`, `base`, `scaler`
/// and the outputs' gradients.
pub(super) fn gradient(
    tensors: [FlexTensor; 5],
    spec: &ConvSpec,
    wanted: Wanted,
) -> [FlexTensor; 5] {
    let [x, spline, base, scaler, dy] = tensors.map(|tensor| tensor.to_contiguous());
    let ConvSpec { geometry, parts, isa } = spec;
    let shape = x.layout().shape().to_vec();
    let inputs = geometry.in_channels() * geometry.taps();
    let (bases, outputs) = (geometry.grid().bases(), geometry.out_channels() / geometry.groups());
    let numbers = |is_there: bool, count: usize| is_there.then(|| vec![0.0; count]);
    let mut of_x = numbers(wanted.x, shape.iter().product());
    let mut of_spline = numbers(wanted.parameters, inputs * bases * outputs);
    let mut of_base = numbers(wanted.parameters && parts.base, inputs * outputs);
    let mut of_scaler = numbers(wanted.parameters && parts.scaler, inputs * outputs);
    let mut of_bias = numbers(wanted.parameters && parts.bias, geometry.out_channels());
    // Only the presence matters for a gradient.
    let bias = parts.bias.then(|| vec![0.0; geometry.out_channels()]);
    let weights = Weights { bias: bias.as_deref(), ..weights(&spline, &base, &scaler, *parts) };
    let gradients = Gradients {
        x: of_x.as_deref_mut(),
        spline: of_spline.as_deref_mut(),
        base: of_base.as_deref_mut(),
        scaler: of_scaler.as_deref_mut(),
        bias: of_bias.as_deref_mut(),
    };
    with(|scratch, threads| {
        let (x, dy) = (x.storage(), dy.storage());
        conv_backward(*isa, geometry, weights, x, &shape[2..], dy, gradients, scratch, threads)
    });
    [
        optional(of_x, Shape::from(shape)),
        optional(of_spline, [inputs, bases, outputs]),
        optional(of_base, [inputs, outputs]),
        optional(of_scaler, [inputs, outputs]),
        optional(of_bias, [geometry.out_channels()]),
    ]
}
