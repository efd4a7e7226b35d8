//! The activations.
//!
//! NaN is found by its bits: compilers of shaders may assume that there is none, and replace
//! comparisons by minima and maxima, which turn it into a number.

use cubecl::prelude::*;
use updraft_simd::normal::{DENSITY_AT_0, MILLS_RATIO, MILLS_SLOPE};

use crate::kernels::Activation;

/// Terms of the polynomial of the ratio of Mills.
const TERMS: usize = MILLS_RATIO.len();

/// The value at `z`.
#[cube]
pub(super) fn value(z: f32, #[comptime] activation: Activation) -> f32 {
    if comptime!(activation == Activation::Identity) {
        z
    } else if comptime!(activation == Activation::Silu) {
        z / (1.0f32 + f32::exp(-z))
    } else if comptime!(activation == Activation::Gelu) {
        z * distribution(z)
    } else {
        select(is_nan(z), z, value_in_pieces(z, activation))
    }
}

/// `dy` times the slope at `z`.
#[cfg(feature = "autodiff")]
#[cube]
pub(super) fn pass(z: f32, dy: f32, #[comptime] activation: Activation) -> f32 {
    if comptime!(activation == Activation::Identity) {
        dy
    } else if comptime!(activation == Activation::Silu) {
        let sigmoid = 1.0f32 / (1.0f32 + f32::exp(-z));
        dy * (sigmoid * (1.0f32 + z * (1.0f32 - sigmoid)))
    } else if comptime!(activation == Activation::Gelu) {
        dy * (distribution(z) + z * density(z))
    } else {
        // NaN passes, as it does in the forward pass.
        select(is_nan(z), dy, pass_in_pieces(z, dy, activation))
    }
}

/// A comparison with itself would do where compilers keep the rules of IEEE 754.
#[cube]
fn is_nan(x: f32) -> bool {
    (u32::reinterpret(x) & 0x7FFF_FFFFu32) > 0x7F80_0000u32
}

#[cube]
fn value_in_pieces(z: f32, #[comptime] activation: Activation) -> f32 {
    if comptime!(activation == Activation::Relu) {
        select(z <= 0.0f32, 0.0f32, z)
    } else if comptime!(activation == Activation::Relu6) {
        select(z <= 0.0f32, 0.0f32, select(z >= 6.0f32, 6.0f32, z))
    } else if comptime!(activation == Activation::HardSwish) {
        // Selected, not multiplied: an infinite `z` times a gate of 0 would be NaN.
        let inner = z * ((z + 3.0f32) * (1.0f32 / 6.0f32));
        let low = f32::new(comptime!(-3.0f32));
        select(z <= low, 0.0f32, select(z >= 3.0f32, z, inner))
    } else if comptime!(activation == Activation::Elu) {
        select(z > 0.0f32, z, exponential_minus_1(z))
    } else {
        let slope = f32::new(comptime!(leak(activation)));
        select(z < 0.0f32, slope * z, z)
    }
}

#[cfg(feature = "autodiff")]
#[cube]
fn pass_in_pieces(z: f32, dy: f32, #[comptime] activation: Activation) -> f32 {
    if comptime!(activation == Activation::Relu) {
        select(z <= 0.0f32, 0.0f32, dy)
    } else if comptime!(activation == Activation::Relu6) {
        select(z <= 0.0f32, 0.0f32, select(z >= 6.0f32, 0.0f32, dy))
    } else if comptime!(activation == Activation::HardSwish) {
        let inner = dy * (z * (1.0f32 / 3.0f32) + 0.5f32);
        let low = f32::new(comptime!(-3.0f32));
        select(z <= low, 0.0f32, select(z >= 3.0f32, dy, inner))
    } else if comptime!(activation == Activation::Elu) {
        select(z > 0.0f32, dy, dy * f32::exp(z))
    } else {
        let slope = f32::new(comptime!(leak(activation)));
        select(z < 0.0f32, slope * dy, dy)
    }
}

/// The slope of a leaky rectifier below 0.
fn leak(activation: Activation) -> f32 {
    match activation {
        Activation::LeakyRelu(slope) => slope.get(),
        _ => unreachable!("the other activations have kernels of their own"),
    }
}

/// `exp(z) − 1` for `z ≤ 0`: near 0 by Taylor's series, because the difference has no digits there;
/// the terms after `z⁶/720` are below 6·10⁻⁸ of it.
#[cube]
fn exponential_minus_1(z: f32) -> f32 {
    let mut series = 1.0f32 + z * (1.0f32 / 6.0f32);
    series = 1.0f32 + z * (1.0f32 / 5.0f32) * series;
    series = 1.0f32 + z * (1.0f32 / 4.0f32) * series;
    series = 1.0f32 + z * (1.0f32 / 3.0f32) * series;
    series = 1.0f32 + z * (1.0f32 / 2.0f32) * series;
    let low = f32::new(comptime!(-0.25f32));
    select(z > low, z * series, f32::exp(z) - 1.0f32)
}

/// The density of the normal distribution.
#[cube]
fn density(z: f32) -> f32 {
    let half_square = z * z * 0.5f32;
    f32::new(comptime!(DENSITY_AT_0)) * f32::exp(-half_square)
}

/// The distribution function `Φ` of the normal distribution. `Φ(−|z|)` is the density times the ratio
/// of Mills, so that both tails keep their relative precision.
#[cube]
fn distribution(z: f32) -> f32 {
    let t = 1.0f32 / (1.0f32 + f32::new(comptime!(MILLS_SLOPE)) * f32::abs(z));
    let mut ratio = f32::new(comptime!(MILLS_RATIO[0]));
    #[unroll]
    for term in 1..TERMS {
        ratio = ratio * t + f32::new(comptime!(MILLS_RATIO[term]));
    }
    let tail = density(z) * ratio;
    select(z < 0.0f32, tail, 1.0f32 - tail)
}
