//! A convolution of splines as one operation.

use std::sync::Arc;

use burn::tensor::{Tensor, assert_shape};

use super::conv_plain;
use super::layer::{LayerPath, Parameters, is_for_kernels};
use super::reason::PlainReason;
#[cfg(feature = "flex")]
use super::{extension::Geometry, fused};
use crate::kernels::ConvGeometry;

/// Computes a convolution's outputs, `[batch, out_channels, ...]`, of `x`, `[batch, in_channels,
/// ...]`, with as many spatial axes as the geometry has.
///
/// On flex it runs our kernels, in f32, as a linear layer does, and keeps nothing for the backward
/// pass but the input and the parameters; f64, and every other backend, take burn's own operations.
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
    let picked = LayerPath::of_conv(path, &x.device());
    match picked.ok().filter(|_| has_kernels).unwrap_or(LayerPath::Plain) {
        LayerPath::Plain => conv_plain::conv(x, parameters, geometry, &output),
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) => {
            let geometry = Geometry::Conv(Arc::clone(geometry));
            fused::layer(x, parameters, geometry, Some(isa), None, None)
        }
        #[cfg(not(feature = "flex"))]
        LayerPath::Kernels(_) => panic!("the kernels need the cargo feature `flex`"),
        LayerPath::Cube | LayerPath::CubeIn(_) => panic!("{}", PlainReason::Convolution),
    }
}
