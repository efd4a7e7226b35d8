//! One rational function for each group of inputs.

use super::family::Family;
use super::number::Number;

/// `P(x)/(1 + |A(x)|)` with `P` of degree 5 and `A` of degree 4 without a constant.
///
/// Its parameters are the coefficients of `P`, then those of `A`, each from the lowest degree.
///
/// # Source
/// Yang and Wang 2024, arXiv:2409.10594, section 4.2; the coefficients at the start, which are close
/// to `SiLU`, are those of Molina et al. 2019, arXiv:1907.06732, for swish.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rational;

const NUMERATOR: [f64; 6] = [
    3.054_879_741_161_051e-7,
    0.500_000_785_374_449_3,
    0.249_997_834_228_247_03,
    0.053_266_282_732_194_78,
    0.005_803_034_571_292_244,
    0.000_275_196_102_240_234_2,
];
const DENOMINATOR: [f64; 4] = [
    -4.111_554_955_950_634e-6,
    0.106_528_993_350_075_72,
    -1.269_000_739_979_623_8e-6,
    0.000_550_233_126_414_055_6,
];

/// `Σ_j coefficients[j]·xʲ`.
fn polynomial<V: Number>(x: &V, coefficients: &[V]) -> V {
    let (last, lower) = coefficients.split_last().expect("there are coefficients");
    // The product with x broadcasts a parameter to the input's shape before additions.
    let highest = x.clone().scaled(0.0) + last.clone();
    lower.iter().rev().fold(highest, |sum, coefficient| sum * x.clone() + coefficient.clone())
}

/// The derivative of the same.
fn derivative<V: Number>(x: &V, coefficients: &[V]) -> V {
    let scaled = |(coefficient, degree): (&V, u32)| coefficient.clone().scaled(f64::from(degree));
    let coefficients: Vec<V> = coefficients[1..].iter().zip(1..).map(scaled).collect();
    polynomial(x, &coefficients)
}

/// The coefficients of `P`, and those of `A` with the constant 0.
fn parts<V: Number>(parameters: &[V]) -> (&[V], Vec<V>) {
    let (numerator, denominator) = parameters.split_at(NUMERATOR.len());
    let mut with_constant = vec![denominator[0].clone().scaled(0.0)];
    with_constant.extend_from_slice(denominator);
    (numerator, with_constant)
}

impl Family for Rational {
    fn count(&self) -> usize {
        1
    }

    fn parameters(&self) -> Vec<f64> {
        NUMERATOR.into_iter().chain(DENOMINATOR).collect()
    }

    fn values<V: Number>(&self, x: V, parameters: &[V]) -> Vec<V> {
        let (numerator, denominator) = parts(parameters);
        let below = polynomial(&x, &denominator).abs().shifted(1.0);
        vec![polynomial(&x, numerator) * below.recip()]
    }

    /// `(P'·Q − P·sign(A)·A')/Q²` with `Q = 1 + |A|`.
    fn slopes<V: Number>(&self, x: V, parameters: &[V]) -> Vec<V> {
        let (numerator, denominator) = parts(parameters);
        let a = polynomial(&x, &denominator);
        let reciprocal = a.clone().abs().shifted(1.0).recip();
        let value = polynomial(&x, numerator) * reciprocal.clone();
        let falling = value * a.sign() * derivative(&x, &denominator);
        vec![(derivative(&x, numerator) - falling) * reciprocal]
    }
}
