//! The base branch's function of a convolution's sums.

use updraft_simd::{Simd, dispatch};

use super::function::{slope, value};
use crate::kernels::activation::Activation;

dispatch! {
    /// Adds `φ(sums)` to `y`.
    pub(crate) fn activate(simd, activation: Activation, sums: &[f32], y: &mut [f32]) {
        add_values(simd, activation, sums, y);
    }

    /// Replaces `sums` by `dy·φ'(sums)`.
    pub(crate) fn multiply_by_slope(simd, activation: Activation, dy: &[f32], sums: &mut [f32]) {
        slopes(simd, activation, dy, sums);
    }
}

#[inline(always)]
fn add_values<S: Simd>(simd: S, activation: Activation, sums: &[f32], y: &mut [f32]) {
    for (sums, y) in sums.chunks(S::LANES).zip(y.chunks_mut(S::LANES)) {
        let value = value(simd, activation, simd.read(sums));
        simd.write(y, simd.add(simd.read(y), value));
    }
}

#[inline(always)]
fn slopes<S: Simd>(simd: S, activation: Activation, dy: &[f32], sums: &mut [f32]) {
    for (dy, sums) in dy.chunks(S::LANES).zip(sums.chunks_mut(S::LANES)) {
        let slope = slope(simd, activation, simd.read(sums));
        simd.write(sums, simd.multiply(simd.read(dy), slope));
    }
}
