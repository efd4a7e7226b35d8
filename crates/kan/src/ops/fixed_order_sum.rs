//! The sum of a whole tensor, in an order that does not vary from run to run.

use burn::tensor::Tensor;

#[cfg(feature = "cube")]
use super::listed::is_on_gpu;

/// The sum of all numbers, of shape `[1]`.
///
/// On GPUs it is taken one axis after another: burn 0.22.1's `sum` of a whole tensor adds with
/// atomics on cards that have them for floats (`shared_sum` of `cubek-reduce`), in an order that
/// varies.
pub(crate) fn fixed_order_sum<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    #[cfg(feature = "cube")]
    if is_on_gpu(&x.device()) {
        // The last axis first, whose numbers are next to each other in memory.
        return (0..D).rev().fold(x, |x, axis| x.sum_dim(axis)).reshape([1]);
    }
    x.sum()
}
