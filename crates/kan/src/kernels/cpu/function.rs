//! The base branch's function, many samples at a time.

use crate::kernels::activation::Activation;

/// Writes `φ(x)`.
#[inline(always)]
pub(super) fn values(activation: Activation, x: &[f32], to: &mut [f32]) {
    match activation {
        Activation::Silu => map(x, to, |x| x / (1.0 + exp(-x))),
        Activation::Identity => map(x, to, |x| x),
        // Not `max`, which would turn NaN into 0.
        Activation::Relu => map(x, to, |x| if x <= 0.0 { 0.0 } else { x }),
    }
}

/// Writes `φ'(x)`.
#[inline(always)]
pub(super) fn slopes(activation: Activation, x: &[f32], to: &mut [f32]) {
    match activation {
        Activation::Silu => map(x, to, |x| {
            let sigmoid = 1.0 / (1.0 + exp(-x));
            sigmoid * (1.0 + x * (1.0 - sigmoid))
        }),
        Activation::Identity => map(x, to, |_| 1.0),
        Activation::Relu => map(x, to, |x| {
            let slope = if x > 0.0 { 1.0 } else { 0.0 };
            if x.is_nan() { x } else { slope }
        }),
    }
}

#[inline(always)]
fn map(x: &[f32], to: &mut [f32], function: impl Fn(f32) -> f32) {
    for (&x, to) in x.iter().zip(to) {
        *to = function(x);
    }
}

/// The exponential function within 2 units in the last place where the result is normal; below
/// it is 0, and a result above 2^127 is infinite. NaN gives some number: its users multiply by x.
///
/// `exp(x) = 2^n·exp(r)` with `n` the whole number next to `x/ln 2`, and Taylor's series for
/// `|r| ≤ ln 2 / 2`, whose rest after `r⁷/7!` is below 6·10⁻⁹.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// Adding it leaves a whole number in the lowest bits.
    const ROUNDER: f32 = 12_582_912.0;
    /// `ln 2` in two parts; products of the first with whole numbers to 2^9 are exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -88.0 { -88.0 } else { x };
    let rounded = x * std::f32::consts::LOG2_E + ROUNDER;
    let n = rounded - ROUNDER;
    let r = (x - n * LN_2[0]) - n * LN_2[1];
    let mut series = 1.0 / 5040.0;
    for term in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = series * r + term;
    }
    let exponent = (rounded.to_bits() << 23).wrapping_add(1.0_f32.to_bits());
    series * f32::from_bits(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_within_two_units_of_the_last_place() {
        for step in -8700..=8800 {
            let x = step as f32 * 0.01;
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) / expected - 1.0).abs();
            assert!(error < 2.0 * f64::from(f32::EPSILON), "{x}: {error}");
        }
        assert_eq!(
            [exp(0.0), exp(f32::NEG_INFINITY), exp(f32::INFINITY)],
            [1.0, 0.0, f32::INFINITY]
        );
    }

    #[test]
    fn nan_and_infinity_pass_as_the_formulae_say() {
        let x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        let mut to = [0.0; 3];
        values(Activation::Silu, &x, &mut to);
        assert!(to[0].is_nan() && to[1] == f32::INFINITY && to[2].is_nan());
        values(Activation::Relu, &x, &mut to);
        assert!(to[0].is_nan() && to[1] == f32::INFINITY && to[2] == 0.0);
        slopes(Activation::Relu, &x, &mut to);
        assert!(to[0].is_nan() && to[1] == 1.0 && to[2] == 0.0);
    }
}
