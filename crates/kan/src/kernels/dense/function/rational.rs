//! One quotient of polynomials.

use updraft_simd::Simd;

use super::{Functions, Gradient, Lines};

/// `P(x)/(1 + |A(x)|)`; the parameters are the coefficients of `P`, from the lowest degree, then those
/// of `A` from degree 1 on.
#[derive(Clone, Copy)]
pub(in super::super) struct Rational;

/// Coefficients of `P`.
const NUMERATOR: usize = 6;

/// `Σ_j coefficients[j]·xʲ` and its derivative.
#[inline(always)]
fn polynomial<S: Simd>(simd: S, x: S::Vector, coefficients: &[f32]) -> [S::Vector; 2] {
    let (mut value, mut slope) = (simd.zero(), simd.zero());
    for &coefficient in coefficients.iter().rev() {
        slope = simd.multiply_add(value, slope, x);
        value = simd.multiply_add(simd.splat(coefficient), value, x);
    }
    [value, slope]
}

/// The parts of the quotient.
struct Parts<V> {
    /// `P` and `P'`.
    numerator: [V; 2],
    /// `A` and `A'`.
    denominator: [V; 2],
    /// `1/(1 + |A|)`.
    reciprocal: V,
}

impl<V: Copy> Parts<V> {
    #[inline(always)]
    fn of<S: Simd<Vector = V>>(simd: S, parameters: &[f32], x: V) -> Self {
        let (numerator, denominator) = parameters.split_at(NUMERATOR);
        let numerator = polynomial(simd, x, numerator);
        // A is x times a polynomial.
        let [value, slope] = polynomial(simd, x, denominator);
        let a = simd.multiply(value, x);
        let size = simd.larger(a, simd.subtract(simd.zero(), a));
        let one = simd.splat(1.0);
        let reciprocal = simd.divide(one, simd.add(one, size));
        Self { numerator, denominator: [a, simd.multiply_add(value, slope, x)], reciprocal }
    }
}

impl Functions for Rational {
    #[inline(always)]
    fn values<S: Simd>(self, simd: S, parameters: &[f32], x: S::Vector, values: Lines<S>) {
        let Parts { numerator, reciprocal, .. } = Parts::of(simd, parameters, x);
        values.write(simd, 0, simd.multiply(numerator[0], reciprocal));
    }

    #[inline(always)]
    fn gradient<S: Simd, const TRAINED: bool>(
        self,
        simd: S,
        parameters: &[f32],
        x: S::Vector,
        Gradient { weights, values, sums }: Gradient<S>,
    ) -> S::Vector {
        let Parts { numerator, denominator: [a, a_slope], reciprocal } =
            Parts::of(simd, parameters, x);
        let value = simd.multiply(numerator[0], reciprocal);
        values.write(simd, 0, value);
        let [zero, one] = [0.0, 1.0].map(|number| simd.splat(number));
        // 0 where A is 0, and NaN where it is.
        let otherwise = simd.where_below([zero, a], one, simd.multiply(a, zero));
        let sign = simd.where_below([a, zero], simd.splat(-1.0), otherwise);
        let of_numerator = simd.multiply(weights.read(simd, 0), reciprocal);
        // The derivative by A.
        let by_a = simd.multiply(simd.multiply(of_numerator, value), sign);
        let of_a = simd.subtract(zero, by_a);
        if TRAINED {
            let mut power = of_numerator;
            for index in 0..NUMERATOR {
                sums.add(simd, index, power);
                power = simd.multiply(power, x);
            }
            let mut power = of_a;
            for index in NUMERATOR..parameters.len() {
                power = simd.multiply(power, x);
                sums.add(simd, index, power);
            }
        }
        simd.multiply_add(simd.multiply(of_a, a_slope), of_numerator, numerator[1])
    }
}
