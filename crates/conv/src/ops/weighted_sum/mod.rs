//! Weighted sums of whole tensors.

#[cfg(all(feature = "flex", feature = "autodiff"))]
pub(super) mod gradient;

use burn::tensor::{Tensor, assert_shape};
use updraft_simd::{mark_plain, time_operation};

/// `Σ_k weights[k]·tensors[k]`, with the gradients of tensors and weights.
///
/// On flex two or three tensors are summed by our kernels on several threads, in f32; another
/// number of them, every other dtype and every other backend use burn's own operations, with the
/// same result.
///
/// # Shapes
/// - `tensors`: any number of one shape, at least one
/// - `weights`: `[tensors]`
///
/// # Panics
/// If there are no tensors, not as many weights, or the shapes differ.
pub fn weighted_sum<const D: usize>(tensors: Vec<Tensor<D>>, weights: Tensor<1>) -> Tensor<D> {
    let terms = tensors.len();
    assert!(terms > 0, "weighted_sum: there is nothing to sum");
    assert_shape!(weights, [terms]);
    for tensor in &tensors[1..] {
        assert_eq!(tensor.dims(), tensors[0].dims(), "weighted_sum: all tensors are of one shape");
    }
    #[cfg(feature = "flex")]
    {
        use burn::tensor::DType;

        use crate::ops::path::LayerPath;

        let mut dtypes = tensors.iter().map(Tensor::dtype).chain([weights.dtype()]);
        if let LayerPath::Kernels(isa) = LayerPath::of(&tensors[0].device())
            && (terms == 2 || terms == 3)
            && dtypes.all(|dtype| dtype == DType::F32)
        {
            return time_operation("weighted sum", || fused(tensors, weights, isa));
        }
    }
    time_operation("weighted sum", || {
        mark_plain();
        let weight = |term: usize| weights.clone().narrow(0, term, 1).reshape([1; D]);
        let products = tensors.into_iter().enumerate().map(|(term, tensor)| tensor * weight(term));
        products.reduce(|sum, product| sum + product).expect("there is a first tensor")
    })
}

#[cfg(feature = "flex")]
fn fused<const D: usize>(
    tensors: Vec<Tensor<D>>,
    weights: Tensor<1>,
    isa: crate::kernels::Isa,
) -> Tensor<D> {
    use burn::backend::Dispatch;

    use crate::ops::extension::{ConvBackend, Operand};

    let mut tensors = tensors.into_iter().map(Tensor::into_dispatch);
    let mut next = || tensors.next();
    let (a, b) = next().zip(next()).expect("two or three tensors");
    let c = Operand::from(next());
    Tensor::from_dispatch(Dispatch::weighted_sum(a, b, c, weights.into_dispatch(), isa))
}
