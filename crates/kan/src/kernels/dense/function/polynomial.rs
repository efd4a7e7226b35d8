//! Polynomials of `tanh(x)`, by their recurrences.

use updraft_simd::Simd;

use super::tanh::Tanh;
use super::{Functions, Gradient, Lines};

/// 1, but NaN of NaN.
#[inline(always)]
fn one<S: Simd>(simd: S, u: S::Vector) -> S::Vector {
    simd.multiply_add(simd.splat(1.0), u, simd.zero())
}

/// Chebyshev polynomials of the first kind.
#[derive(Clone, Copy)]
pub(in super::super) struct Chebyshev {
    /// The highest degree.
    pub(in super::super) degree: usize,
}

impl Functions for Chebyshev {
    #[inline(always)]
    fn values<S: Simd>(self, simd: S, _: &[f32], x: S::Vector, values: Lines<S>) {
        let u = Tanh::of(simd, x).value;
        let (twice, mut before, mut value) = (simd.add(u, u), u, one(simd, u));
        for n in 0..=self.degree {
            values.write(simd, n, value);
            // T₋₁ is T₁.
            let next = simd.subtract(simd.multiply(twice, value), before);
            (before, value) = (value, next);
        }
    }

    /// With the polynomials `U` of the second kind, the slope of `T_n` is `n·U_{n−1}`.
    #[inline(always)]
    fn gradient<S: Simd, const TRAINED: bool>(
        self,
        simd: S,
        _: &[f32],
        x: S::Vector,
        Gradient { weights, values, .. }: Gradient<S>,
    ) -> S::Vector {
        let tanh = Tanh::of(simd, x);
        let (u, twice) = (tanh.value, simd.add(tanh.value, tanh.value));
        let (mut before, mut value) = (u, one(simd, u));
        let (mut second_before, mut second) = (simd.splat(-1.0), simd.zero());
        let mut slope = simd.zero();
        for n in 0..=self.degree {
            values.write(simd, n, value);
            let by = simd.multiply(second, simd.splat(n as f32));
            slope = simd.multiply_add(slope, by, weights.read(simd, n));
            let next = simd.subtract(simd.multiply(twice, value), before);
            (before, value) = (value, next);
            let next = simd.subtract(simd.multiply(twice, second), second_before);
            (second_before, second) = (second, next);
        }
        simd.multiply(slope, tanh.slope)
    }
}

/// Legendre polynomials; the parameters are `(2n+1)/(n+1)` and `n/(n+1)` of each degree.
#[derive(Clone, Copy)]
pub(in super::super) struct Legendre {
    /// The highest degree.
    pub(in super::super) degree: usize,
}

impl Legendre {
    /// The factors of the recurrence, instead of parameters.
    pub(in super::super) fn factors(self) -> Vec<f32> {
        let of = |n: usize| [2 * n + 1, n].map(|by| (by as f64 / (n + 1) as f64) as f32);
        (0..=self.degree).flat_map(of).collect()
    }
}

impl Functions for Legendre {
    #[inline(always)]
    fn values<S: Simd>(self, simd: S, factors: &[f32], x: S::Vector, values: Lines<S>) {
        let u = Tanh::of(simd, x).value;
        let (mut before, mut value) = (simd.zero(), one(simd, u));
        for (n, factors) in factors.as_chunks::<2>().0.iter().enumerate() {
            values.write(simd, n, value);
            let rising = simd.multiply(simd.multiply(u, value), simd.splat(factors[0]));
            let next = simd.multiply_add(rising, before, simd.splat(-factors[1]));
            (before, value) = (value, next);
        }
    }

    /// The slopes follow `P'_{n+1} = P'_{n−1} + (2n+1)·P_n`.
    #[inline(always)]
    fn gradient<S: Simd, const TRAINED: bool>(
        self,
        simd: S,
        factors: &[f32],
        x: S::Vector,
        Gradient { weights, values, .. }: Gradient<S>,
    ) -> S::Vector {
        let tanh = Tanh::of(simd, x);
        let u = tanh.value;
        let (mut before, mut value) = (simd.zero(), one(simd, u));
        let (mut slope_before, mut slope, mut sum) = (simd.zero(), simd.zero(), simd.zero());
        for (n, factors) in factors.as_chunks::<2>().0.iter().enumerate() {
            values.write(simd, n, value);
            sum = simd.multiply_add(sum, slope, weights.read(simd, n));
            let next = simd.multiply_add(slope_before, value, simd.splat((2 * n + 1) as f32));
            (slope_before, slope) = (slope, next);
            let rising = simd.multiply(simd.multiply(u, value), simd.splat(factors[0]));
            let next = simd.multiply_add(rising, before, simd.splat(-factors[1]));
            (before, value) = (value, next);
        }
        simd.multiply(sum, tanh.slope)
    }
}
