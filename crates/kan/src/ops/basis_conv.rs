//! A convolution of functions in closed form as one operation.

use std::sync::Arc;

use burn::tensor::{DType, FloatDType, Shape, Tensor};
use updraft_simd::{add_operations, mark_plain};

use super::basis::BasisParameters;
#[cfg(feature = "flex")]
use super::basis_fused;
use super::conv_plain::{Pixels, convolve};
use super::expansion::expand;
use super::layer::{LayerPath, is_for_kernels};
use super::one_operation::{Operands, as_one_operation};
use super::plain::activate;
use super::reason::PlainReason;
use crate::basis::Basis;
use crate::kernels::{Activation, ConvGeometry};

/// Computes a convolution's outputs, `[batch, out_channels, ...]`, of `x`, `[batch, in_channels,
/// ...]`, with as many spatial axes as the geometry has, in the input's dtype.
///
/// On flex it runs our kernels in f32, which keep nothing for the backward pass but the input and the
/// parameters; f64, and every other backend, take burn's own operations.
///
/// # Panics
/// If the shapes do not fit the geometry, or `path` forces kernels that the device or the processor
/// does not have.
#[must_use]
pub(crate) fn basis_conv<const D: usize>(
    x: Tensor<D>,
    parameters: BasisParameters,
    geometry: &Arc<ConvGeometry>,
    path: Option<LayerPath>,
) -> Tensor<D> {
    let shape = x.dims();
    let channels = geometry.in_channels();
    assert_eq!(shape[1], channels, "axis 1 of x has to be the input's channels");
    let output = match geometry.output_shape(&shape[2..]) {
        Ok(output) => output,
        Err(error) => panic!("{error}"),
    };
    let has_kernels = path.is_some() || is_for_kernels(x.dtype());
    let picked = LayerPath::of_basis(path, &x.device());
    match LayerPath::for_dtype(picked, has_kernels) {
        LayerPath::Plain => {
            mark_plain();
            let BasisParameters { basis, activation, coefficients, functions, base, bias } =
                parameters;
            let operands = Operands { x, coefficients, functions, base, bias };
            as_one_operation(operands, |operands| {
                plain(operands, (&basis, activation), geometry, &output)
            })
        }
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) => basis_fused::conv(x, parameters, geometry, &output, isa),
        #[cfg(not(feature = "flex"))]
        LayerPath::Kernels(_) => panic!("the kernels need the cargo feature `flex`"),
        LayerPath::Cube | LayerPath::CubeIn(_) => panic!("{}", PlainReason::Functions),
    }
}

/// All functions of all pixels are stored as channels, then one convolution.
fn plain<const D: usize>(
    operands: Operands<D>,
    (basis, activation): (&Basis, Activation),
    geometry: &ConvGeometry,
    output: &[usize],
) -> Tensor<D> {
    let Operands { x, coefficients, functions, base, bias } = operands;
    let (batch, dtype) = (x.dims()[0], x.dtype());
    let compute = if dtype == DType::F64 { FloatDType::F64 } else { FloatDType::F32 };
    let mut result = vec![batch, geometry.out_channels()];
    result.extend(output);
    let positions = batch * output.iter().product::<usize>();
    let functions_of_edge = basis.count() + usize::from(base.is_some());
    add_operations((2 * positions * geometry.edges() * functions_of_edge) as u64);
    let coefficients = coefficients.cast(compute);
    if batch == 0 {
        // burn does not convolve an empty batch: a sum over it keeps the gradients connected.
        let zero = x.sum() + (coefficients.sum() * 0.0).cast(FloatDType::from(dtype));
        return zero.reshape([1; D]).expand(Shape::from(result));
    }
    let Pixels { padded, rows } = Pixels::new(x.cast(compute), geometry);
    let values = Pixels::channels(expand(basis, rows, functions), padded.dims());
    let mut y = convolve(values, coefficients, geometry);
    if let Some(base) = base {
        let base = base.cast(compute).unsqueeze_dim(1);
        y = y + convolve(activate(padded, activation), base, geometry);
    }
    if let Some(bias) = bias {
        y = y + bias.cast(compute).reshape([1, geometry.out_channels(), 1, 1, 1]);
    }
    y.reshape(Shape::from(result)).cast(FloatDType::from(dtype))
}
