//! A convolution of splines as one operation.

use std::sync::Arc;

use burn::tensor::{Tensor, assert_shape};

use super::conv_plain;
use super::layer::{LayerPath, Parameters, is_for_kernels};
#[cfg(any(feature = "flex", feature = "cube"))]
use super::{extension::Geometry, fused};
use crate::kernels::ConvGeometry;
#[cfg(feature = "cube")]
use crate::kernels::{BaseBranch, CubeForm};

/// Computes a convolution's outputs, `[batch, out_channels, ...]`, of `x`, `[batch, in_channels,
/// ...]`, with as many spatial axes as the geometry has.
///
/// On flex it runs our kernels, and on GPUs too if f32 resolves the grid, in f32, as a linear layer
/// does, and keeps nothing for the backward pass but the input and the parameters. On GPUs a base
/// branch whose function follows the sum over taps is burn's convolution.
/// f64, other grids on GPUs, and every other backend, take burn's own operations.
///
/// # Panics
/// If the shapes do not fit the geometry, or `path` forces kernels that the device or the
/// processor does not have.
#[must_use]
pub(crate) fn conv<const D: usize>(
    x: Tensor<D>,
    parameters: Parameters,
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
    let (inputs, outputs) =
        (channels * geometry.taps(), geometry.out_channels() / geometry.groups());
    let bases = geometry.grid().bases();
    let Parameters { spline, base, scaler, bias } = &parameters;
    assert_shape!(spline, [inputs, bases, outputs]);
    for edges in [base, scaler].into_iter().flatten() {
        assert_shape!(edges, [inputs, outputs]);
    }
    if let Some(bias) = bias {
        assert_eq!(bias.dims(), [geometry.out_channels()], "bias");
    }
    let has_kernels = path.is_some() || is_for_kernels(x.dtype());
    let picked = LayerPath::of_splines(path, &x.device(), geometry.grid());
    match LayerPath::for_dtype(picked, has_kernels) {
        LayerPath::Plain => conv_plain::conv(x, parameters, geometry, &output),
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) => {
            let geometry = Geometry::Conv(Arc::clone(geometry));
            fused::layer(x, parameters, geometry, Some(isa), None, None)
        }
        #[cfg(not(feature = "flex"))]
        LayerPath::Kernels(_) => panic!("the kernels need the cargo feature `flex`"),
        #[cfg(feature = "cube")]
        LayerPath::Cube | LayerPath::CubeIn(_) => {
            if let Some(reason) = super::reason::of_grid(geometry.grid()) {
                panic!("{reason}");
            }
            if shape[0] == 0 {
                // There is nothing to launch, and a buffer of no bytes cannot be bound.
                return conv_plain::conv(x, parameters, geometry, &output);
            }
            on_gpu(x, parameters, geometry, &output, LayerPath::forced_form(path))
        }
        #[cfg(not(feature = "cube"))]
        LayerPath::Cube | LayerPath::CubeIn(_) => {
            panic!("the kernels need the cargo feature of the device's backend")
        }
    }
}

/// The kernels compute sums over taps of functions; the function of a sum is burn's.
#[cfg(feature = "cube")]
fn on_gpu<const D: usize>(
    x: Tensor<D>,
    parameters: Parameters,
    geometry: &Arc<ConvGeometry>,
    output: &[usize],
    forced: Option<CubeForm>,
) -> Tensor<D> {
    let Parameters { spline, base, scaler, bias } = parameters;
    let (base, of_sum) = match geometry.base_branch() {
        BaseBranch::ConvOfActivation => (base, None),
        BaseBranch::ActivationOfConv => (None, base),
    };
    let parameters = Parameters { spline, base, scaler, bias };
    let layer = Geometry::Conv(Arc::clone(geometry));
    let y = fused::layer(x.clone(), parameters, layer, None, forced, None);
    match of_sum {
        None => y,
        Some(base) => y + conv_plain::activation_of_conv(x, base, geometry, output),
    }
}
