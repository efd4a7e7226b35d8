//! Activations by themselves.

use burn::tensor::Tensor;
use updraft_simd::time_operation;

use super::path::LayerPath;
use super::plain;
use crate::kernels::Activation;

/// Applies an activation to every number.
///
/// On flex it runs our kernels on several threads, in f32: bf16 and f16 are computed in f32 and
/// rounded once. f64, and every other backend, use burn's own operations, with the same result.
pub fn activate<const D: usize>(x: Tensor<D>, activation: Activation) -> Tensor<D> {
    time_operation("activation", || activate_by(x, activation, None))
}

pub(super) fn activate_by<const D: usize>(
    x: Tensor<D>,
    activation: Activation,
    forced: Option<LayerPath>,
) -> Tensor<D> {
    if activation == Activation::Identity {
        return x;
    }
    match LayerPath::picked(forced, &x.device(), x.dtype()) {
        LayerPath::Plain | LayerPath::Cube => plain::activate(x, activation),
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) => {
            use burn::backend::Dispatch;
            use burn::tensor::FloatDType;

            use super::extension::ConvBackend;

            let dtype = x.dtype();
            let x = x.cast(FloatDType::F32).into_dispatch();
            Tensor::<D>::from_dispatch(Dispatch::activation(x, activation, isa)).cast(dtype)
        }
        #[cfg(not(feature = "flex"))]
        LayerPath::Kernels(_) => unreachable!("kernels are picked where they are compiled"),
    }
}
