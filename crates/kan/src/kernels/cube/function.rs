//! The base branch's function.

use cubecl::prelude::*;

use super::position::is_nan;
use crate::kernels::Activation;

/// `φ(x)`.
#[cube]
pub(super) fn value(x: f32, #[comptime] activation: Activation) -> f32 {
    if comptime!(activation == Activation::Silu) {
        x / (1.0f32 + f32::exp(-x))
    } else if comptime!(activation == Activation::Relu) {
        // Compilers replace the comparison by the larger of two, which turns NaN into 0.
        select(is_nan(x), x, select(x <= 0.0f32, 0.0f32, x))
    } else {
        x
    }
}

/// `φ'(x)`.
#[cube]
pub(super) fn slope(x: f32, #[comptime] activation: Activation) -> f32 {
    if comptime!(activation == Activation::Silu) {
        let sigmoid = 1.0f32 / (1.0f32 + f32::exp(-x));
        sigmoid * (1.0f32 + x * (1.0f32 - sigmoid))
    } else if comptime!(activation == Activation::Relu) {
        let beside = select(is_nan(x), x, 0.0f32);
        select(x > 0.0f32, 1.0f32, beside)
    } else {
        1.0f32.runtime()
    }
}
