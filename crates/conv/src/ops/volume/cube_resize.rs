//! Linear interpolation on GPUs, one axis after another: burn 0.22.1 has no gradient of its own
//! operation there, and through OpenGL it has other values before the center of the first pixel.
//!
//! The gradient is the same to the bit on every run on one device: in burn-cubecl 0.22.1 one unit adds
//! all numbers that `select` took from a place, in their order (`select_assign_kernel`), without
//! atomics. A product with a matrix of the weights could round its factors to TF32.

use burn::tensor::{DType, FloatDType, Int, Tensor};

use crate::kernels::{Alignment, Place, places};

/// Interpolates the last `N` axes to other sides, in f32 for narrower types; weights are of f32 in
/// every type.
///
/// # Panics
/// If a side is 0.
pub(super) fn resize_axes<const D: usize, const N: usize>(
    x: Tensor<D>,
    output: [usize; N],
    alignment: Alignment,
) -> Tensor<D> {
    let mut sides = x.dims();
    let is_valid = sides[D - N..].iter().chain(&output).all(|&side| side > 0);
    assert!(is_valid, "resize: a side is 0, from {:?} to {output:?}", &sides[D - N..]);
    if sides.contains(&0) {
        sides[D - N..].copy_from_slice(&output);
        return Tensor::<D>::zeros(sides, &x.device()).cast(x.dtype());
    }
    let dtype = x.dtype();
    let is_narrow = matches!(dtype, DType::F16 | DType::BF16);
    let mut y = if is_narrow { x.cast(FloatDType::F32) } else { x };
    // The last axis first, in as few rows as there are before the others grow.
    for (axis, output) in (D - N..D).zip(output).rev() {
        if y.dims()[axis] != output {
            y = blend(y, axis, output, alignment);
        }
    }
    if is_narrow { y.cast(dtype) } else { y }
}

/// Interpolates one axis: `y = a + weight·(b − a)`.
fn blend<const D: usize>(
    x: Tensor<D>,
    axis: usize,
    output: usize,
    alignment: Alignment,
) -> Tensor<D> {
    let (device, places) = (x.device(), places(x.dims()[axis], output, alignment));
    let indices = |of: fn(&Place) -> usize| {
        let indices: Vec<i32> = places.iter().map(|place| of(place) as i32).collect();
        Tensor::<1, Int>::from_ints(indices.as_slice(), &device)
    };
    let low = x.clone().select(axis, indices(|place| place.low));
    let high = x.select(axis, indices(|place| place.high));
    let weights: Vec<f32> = places.iter().map(|place| place.weight).collect();
    let mut shape = [1; D];
    shape[axis] = output;
    let weights = Tensor::<1>::from_floats(weights.as_slice(), &device).cast(low.dtype());
    low.clone() + (high - low) * weights.reshape(shape)
}
