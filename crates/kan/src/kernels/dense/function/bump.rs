//! Copies of one bump around centers.

use updraft_simd::Simd;
use updraft_simd::matrix::exponential;

use super::tanh::Tanh;
use super::{Functions, Gradient, Lines};

/// `bump((x − center)·reciprocal)` for each center; the parameters are the centers and the
/// reciprocal.
#[derive(Clone, Copy)]
pub(in super::super) struct Bumps<B>(pub(in super::super) B);

/// A bump around 0.
pub(in super::super) trait Bump: Copy {
    /// Its value.
    fn value<S: Simd>(self, simd: S, u: S::Vector) -> S::Vector;

    /// Its value and its derivative.
    fn both<S: Simd>(self, simd: S, u: S::Vector) -> [S::Vector; 2];
}

impl<B: Bump> Functions for Bumps<B> {
    #[inline(always)]
    fn values<S: Simd>(self, simd: S, parameters: &[f32], x: S::Vector, values: Lines<S>) {
        let Some((&reciprocal, centers)) = parameters.split_last() else { return };
        let reciprocal = simd.splat(reciprocal);
        for (index, &center) in centers.iter().enumerate() {
            let u = simd.multiply(simd.subtract(x, simd.splat(center)), reciprocal);
            values.write(simd, index, self.0.value(simd, u));
        }
    }

    #[inline(always)]
    fn gradient<S: Simd, const TRAINED: bool>(
        self,
        simd: S,
        parameters: &[f32],
        x: S::Vector,
        Gradient { weights, values, sums }: Gradient<S>,
    ) -> S::Vector {
        let Some((&reciprocal, centers)) = parameters.split_last() else { return simd.zero() };
        let reciprocal = simd.splat(reciprocal);
        let (mut slope, mut of_reciprocal) = (simd.zero(), simd.zero());
        for (index, &center) in centers.iter().enumerate() {
            let away = simd.subtract(x, simd.splat(center));
            let [value, derivative] = self.0.both(simd, simd.multiply(away, reciprocal));
            values.write(simd, index, value);
            let by_u = simd.multiply(derivative, weights.read(simd, index));
            slope = simd.multiply_add(slope, by_u, reciprocal);
            if TRAINED {
                let by_center = simd.multiply(by_u, simd.subtract(simd.zero(), reciprocal));
                sums.add(simd, index, by_center);
                // Where the bump is 0, an infinite distance does not count.
                let limit = simd.splat(f32::MAX);
                let away = simd.smaller(limit, simd.larger(simd.splat(-f32::MAX), away));
                of_reciprocal = simd.multiply_add(of_reciprocal, by_u, away);
            }
        }
        if TRAINED {
            sums.add(simd, centers.len(), of_reciprocal);
        }
        slope
    }
}

/// Bumps so many widths away from their center are 0 in f32.
const FAR: f32 = 40.0;

/// `u` from −[`FAR`] to [`FAR`]; NaN stays NaN.
#[inline(always)]
fn near<S: Simd>(simd: S, u: S::Vector) -> S::Vector {
    simd.smaller(simd.splat(FAR), simd.larger(simd.splat(-FAR), u))
}

/// `exp(−u²)`.
#[derive(Clone, Copy)]
pub(in super::super) struct Gaussian;

impl Bump for Gaussian {
    #[inline(always)]
    fn value<S: Simd>(self, simd: S, u: S::Vector) -> S::Vector {
        exponential(simd, simd.multiply(u, simd.subtract(simd.zero(), u)))
    }

    #[inline(always)]
    fn both<S: Simd>(self, simd: S, u: S::Vector) -> [S::Vector; 2] {
        let u = near(simd, u);
        let value = self.value(simd, u);
        [value, simd.multiply(simd.multiply(u, simd.splat(-2.0)), value)]
    }
}

/// `1 − tanh²(u)`.
#[derive(Clone, Copy)]
pub(in super::super) struct Rswaf;

impl Bump for Rswaf {
    #[inline(always)]
    fn value<S: Simd>(self, simd: S, u: S::Vector) -> S::Vector {
        Tanh::of(simd, u).slope
    }

    #[inline(always)]
    fn both<S: Simd>(self, simd: S, u: S::Vector) -> [S::Vector; 2] {
        let Tanh { value, slope } = Tanh::of(simd, u);
        [slope, simd.multiply(simd.multiply(value, simd.splat(-2.0)), slope)]
    }
}

/// `c·(1 − u²)·exp(−u²/2)`.
#[derive(Clone, Copy)]
pub(in super::super) struct MexicanHat;

impl MexicanHat {
    /// `2/(√3·π^¼)`.
    const NORM: f32 = 0.867_325_07;

    /// `u²` and `c·exp(−u²/2)`, for `u` that is near.
    #[inline(always)]
    fn parts<S: Simd>(simd: S, u: S::Vector) -> [S::Vector; 2] {
        let squared = simd.multiply(u, u);
        let gaussian = exponential(simd, simd.multiply(squared, simd.splat(-0.5)));
        [squared, simd.multiply(gaussian, simd.splat(Self::NORM))]
    }
}

impl Bump for MexicanHat {
    #[inline(always)]
    fn value<S: Simd>(self, simd: S, u: S::Vector) -> S::Vector {
        let [squared, gaussian] = Self::parts(simd, near(simd, u));
        simd.multiply(simd.subtract(simd.splat(1.0), squared), gaussian)
    }

    #[inline(always)]
    fn both<S: Simd>(self, simd: S, u: S::Vector) -> [S::Vector; 2] {
        let u = near(simd, u);
        let [squared, gaussian] = Self::parts(simd, u);
        let value = simd.multiply(simd.subtract(simd.splat(1.0), squared), gaussian);
        let cubic = simd.multiply(simd.subtract(squared, simd.splat(3.0)), u);
        [value, simd.multiply(cubic, gaussian)]
    }
}
