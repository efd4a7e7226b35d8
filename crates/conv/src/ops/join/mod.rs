//! The channels of two tensors in one.

#[cfg(all(feature = "flex", feature = "autodiff"))]
pub(super) mod gradient;

use burn::tensor::Tensor;
use updraft_simd::{mark_plain, time_operation};

/// Numbers of a sample in a channel from which on our kernel copies channel by channel.
#[cfg(feature = "flex")]
const LEAST: usize = 64;

/// The channels of `a` followed by those of `b`: `Tensor::cat(vec![a, b], 1)`.
///
/// On flex, in f32, and for at least 64 numbers of a sample in a channel, several threads copy into
/// buffers of earlier operations, and later operations reuse those of `a` and `b`. Everything else
/// uses burn's own operation, with the same result.
///
/// # Shapes
/// - `a`: `[batch, channels of a, …]`
/// - `b`: `[batch, channels of b, …]`, the other axes as those of `a`
/// - result: `[batch, channels of a + channels of b, …]`
///
/// # Panics
/// As `Tensor::cat`: if the tensors have fewer than two axes, or differ in another axis than that of
/// the channels.
#[must_use]
pub fn join_channels<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
    time_operation("concatenation", || join(a, b))
}

fn join<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    {
        use burn::backend::Dispatch;
        use burn::tensor::DType;

        use crate::ops::extension::ConvBackend;
        use crate::ops::path::LayerPath;

        let (of_a, of_b) = (a.dims(), b.dims());
        if matches!(LayerPath::of(&a.device()), LayerPath::Kernels(_))
            && a.device() == b.device()
            && (0..D).all(|axis| axis == 1 || of_a[axis] == of_b[axis])
            && of_a.iter().skip(2).product::<usize>() >= LEAST
            && [a.dtype(), b.dtype()] == [DType::F32; 2]
        {
            return Tensor::from_dispatch(Dispatch::join(a.into_dispatch(), b.into_dispatch()));
        }
    }
    mark_plain();
    Tensor::cat(vec![a, b], 1)
}
