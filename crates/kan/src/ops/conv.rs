//! A convolution of splines as one operation.

use std::sync::Arc;

use burn::tensor::{DType, Tensor, assert_shape};

use super::conv_plain;
use super::layer::{LayerPath, Parameters};
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
    let fitting = match x.dtype() {
        DType::F32 | DType::BF16 | DType::F16 => LayerPath::of(&x.device()),
        _ => LayerPath::Plain,
    };
    match path.unwrap_or(fitting) {
        LayerPath::Plain => conv_plain::conv(x, parameters, geometry, &output),
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) => fused::conv(x, parameters, geometry, isa),
        #[cfg(not(feature = "flex"))]
        LayerPath::Kernels(_) => panic!("the kernels need the cargo feature `flex`"),
    }
}

#[cfg(feature = "flex")]
mod fused {
    use std::sync::Arc;

    use burn::backend::Dispatch;
    use burn::tensor::{DType, FloatDType, Tensor};

    use super::Parameters;
    use crate::kernels::{ConvGeometry, Isa};
    use crate::ops::extension::{ConvSpec, KanBackend, Parts};
    use crate::ops::listed::runs_our_kernels;

    pub(super) fn conv<const D: usize>(
        x: Tensor<D>,
        parameters: Parameters,
        geometry: &Arc<ConvGeometry>,
        isa: Isa,
    ) -> Tensor<D> {
        assert!(runs_our_kernels(&x.device()), "no kernels for the device {:?}", x.device());
        assert!(isa.is_available(), "this processor has no {isa}");
        let dtype = x.dtype();
        assert!(dtype != DType::F64, "the kernels compute in f32; f64 takes the plain path");
        let Parameters { spline, base, scaler, bias } = parameters;
        let parts = Parts { base: base.is_some(), scaler: scaler.is_some(), bias: bias.is_some() };
        let spline = spline.cast(FloatDType::F32).into_dispatch();
        // Missing parameters are replaced by the coefficients, which are not read there.
        let stand_in = || spline.clone();
        let edges = |edges: Option<Tensor<2>>| {
            edges.map_or_else(stand_in, |edges| edges.cast(FloatDType::F32).into_dispatch())
        };
        let bias = bias.map_or_else(stand_in, |bias| bias.cast(FloatDType::F32).into_dispatch());
        let (base, scaler) = (edges(base), edges(scaler));
        let spec = ConvSpec { geometry: Arc::clone(geometry), parts, isa };
        let x = x.cast(FloatDType::F32).into_dispatch();
        let y = Dispatch::kan_conv(x, spline, base, scaler, bias, spec);
        Tensor::<D>::from_dispatch(y).cast(dtype)
    }
}
