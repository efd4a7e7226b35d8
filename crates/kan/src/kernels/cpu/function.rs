//! The base branch's function on vectors.

use updraft_simd::Simd;

use crate::kernels::activation::Activation;

/// `φ(x)`.
#[inline(always)]
pub(crate) fn value<S: Simd>(simd: S, activation: Activation, x: S::Vector) -> S::Vector {
    match activation {
        Activation::Silu => {
            let one = simd.splat(1.0);
            simd.divide(x, simd.add(one, exp_of_opposite(simd, x)))
        }
        Activation::Identity => x,
        // Not the larger of two, which would turn NaN into 0.
        Activation::Relu => simd.where_below([x, simd.zero()], simd.zero(), x),
    }
}

/// `φ'(x)`.
#[inline(always)]
pub(crate) fn slope<S: Simd>(simd: S, activation: Activation, x: S::Vector) -> S::Vector {
    let one = simd.splat(1.0);
    match activation {
        Activation::Silu => {
            let sigmoid = simd.divide(one, simd.add(one, exp_of_opposite(simd, x)));
            let rest = simd.multiply(x, simd.subtract(one, sigmoid));
            simd.multiply(sigmoid, simd.add(one, rest))
        }
        Activation::Identity => one,
        Activation::Relu => {
            let zero = simd.zero();
            // NaN if x is NaN, for which both comparisons are false.
            let beside = simd.where_below([x, zero], zero, simd.multiply(x, zero));
            simd.where_below([zero, x], one, beside)
        }
    }
}

/// `exp(−x)` within 2 units in the last place where the result is normal; below it is 0, and a
/// result above 2^127 is infinite. NaN gives some number: its users multiply by x.
///
/// `exp(y) = 2^n·exp(r)` with `n` the whole number next to `y/ln 2`, and Taylor's series for
/// `|r| ≤ ln 2 / 2`; the terms after `r⁷/7!` are below 6·10⁻⁹. The series is summed by pairs: in
/// one chain, each term would wait for the previous one.
#[inline(always)]
fn exp_of_opposite<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    /// Adding it rounds to an integer in the lowest bits.
    const ROUNDER: f32 = 12_582_912.0;
    /// `ln 2` in two parts; products of the first with whole numbers to 2^9 are exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

    let number = |number: f32| simd.splat(number);
    let product = |a, b| simd.multiply(a, b);
    let y = simd.subtract(simd.zero(), x);
    let y = simd.larger(simd.smaller(y, number(89.0)), number(-88.0));
    let rounded = simd.add(product(y, number(std::f32::consts::LOG2_E)), number(ROUNDER));
    let n = simd.subtract(rounded, number(ROUNDER));
    let [coarse, fine] = LN_2;
    let r = simd.subtract(y, product(n, number(coarse)));
    let r = simd.subtract(r, product(n, number(fine)));
    let pair = |first: f32, second: f32| simd.add(number(first), product(r, number(second)));
    let squared = product(r, r);
    let low = simd.add(pair(1.0, 1.0), product(squared, pair(0.5, 1.0 / 6.0)));
    let high = product(squared, pair(1.0 / 720.0, 1.0 / 5040.0));
    let high = simd.add(pair(1.0 / 24.0, 1.0 / 120.0), high);
    let series = simd.add(low, product(product(squared, squared), high));
    product(series, simd.power_of_two(n))
}

#[cfg(test)]
mod tests {
    use updraft_simd::Portable;

    use super::*;

    fn exp(x: f32) -> f32 {
        exp_of_opposite(Portable, [-x; 8])[0]
    }

    fn of(function: fn(Portable, Activation, [f32; 8]) -> [f32; 8], kind: Activation) -> [f32; 3] {
        [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(|x| function(Portable, kind, [x; 8])[0])
    }

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
        let [nan, above, below] = of(value, Activation::Silu);
        assert!(nan.is_nan() && above == f32::INFINITY && below.is_nan());
        let [nan, above, below] = of(value, Activation::Relu);
        assert!(nan.is_nan() && above == f32::INFINITY && below == 0.0);
        let [nan, above, below] = of(slope, Activation::Relu);
        assert!(nan.is_nan() && above == 1.0 && below == 0.0);
    }
}
