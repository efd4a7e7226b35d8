//! The exponential function of vectors.

use crate::Simd;

/// `exp(x)` of numbers up to 0, within 3 units in the last place; 0 below −87.7, NaN of NaN.
///
/// `exp(x) = 2ⁿ·exp(r)` with the whole number `n` next to `x/ln 2`; `exp(r)` is `1 + r` with a
/// polynomial that was fitted for the smallest relative error of `|r| ≤ ln 2 / 2`, 1.05·10⁻⁷.
#[inline(always)]
pub fn exponential<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    /// `ln 2` in two parts; products of the first with whole numbers to 2⁹ are exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    const SERIES: [f32; 6] = [0.008_312_501, 0.041_890_33, 0.166_671_16, 0.499_992_3, 1.0, 1.0];

    // Not the other order, which would lose NaN.
    let x = simd.larger(simd.splat(-88.0), x);
    let half = simd.splat(0.5);
    let n = simd.floor(simd.multiply_add(half, x, simd.splat(std::f32::consts::LOG2_E)));
    let r = simd.multiply_add(x, n, simd.splat(-LN_2[0]));
    let r = simd.multiply_add(r, n, simd.splat(-LN_2[1]));
    let mut series = simd.splat(SERIES[0]);
    for &term in &SERIES[1..] {
        series = simd.multiply_add(simd.splat(term), series, r);
    }
    simd.multiply(series, simd.power_of_two(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Portable;

    #[test]
    fn the_exponential_is_within_three_units_of_the_last_place() {
        let exp = |x: f32| exponential(Portable, [x; 8])[0];
        for step in 0..=8700 {
            let x = step as f32 * -0.01;
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) / expected - 1.0).abs();
            assert!(error < 3.0 * f64::from(f32::EPSILON), "{x}: {error}");
        }
        assert_eq!([0.0, -88.0, f32::NEG_INFINITY].map(exp), [1.0, 0.0, 0.0]);
        assert!(exp(f32::NAN).is_nan());
    }
}
