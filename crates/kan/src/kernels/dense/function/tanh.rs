//! The hyperbolic tangent of vectors.

use updraft_simd::Simd;
use updraft_simd::matrix::exponential;

/// `tanh(x)` and its derivative `1 − tanh²(x)`.
pub(super) struct Tanh<V> {
    /// Within 2·10⁻⁷ of the value.
    pub(super) value: V,
    /// Within a relative error of 10⁻⁶, also where it is small.
    pub(super) slope: V,
}

impl<V: Copy> Tanh<V> {
    /// With `e = exp(−2|x|)`, `tanh|x| = (1 − e)/(1 + e)` and the derivative is `4e/(1 + e)²`.
    #[inline(always)]
    pub(super) fn of<S: Simd<Vector = V>>(simd: S, x: V) -> Self {
        let one = simd.splat(1.0);
        let twice = simd.add(x, x);
        let e = exponential(simd, simd.smaller(twice, simd.subtract(simd.zero(), twice)));
        let reciprocal = reciprocal(simd, simd.add(one, e));
        let size = simd.multiply(simd.subtract(one, e), reciprocal);
        let opposite = simd.subtract(simd.zero(), size);
        let slope = simd.multiply(e, simd.multiply(reciprocal, reciprocal));
        Self {
            value: simd.where_below([x, simd.zero()], opposite, size),
            slope: simd.multiply(simd.splat(4.0), slope),
        }
    }
}

/// `1/d` of numbers from 1 to 2, by two steps of Newton: a division takes as long as a dozen products.
///
/// The start is the polynomial whose relative error, at most 1/99, is the smallest: `1 − d·p(d)` is
/// Chebyshev's polynomial of degree 3, scaled to 1 at 0.
#[inline(always)]
fn reciprocal<S: Simd>(simd: S, d: S::Vector) -> S::Vector {
    const START: [f32; 3] = [32.0 / 99.0, -144.0 / 99.0, 210.0 / 99.0];
    let start = simd.multiply_add(simd.splat(START[1]), simd.splat(START[0]), d);
    let mut y = simd.multiply_add(simd.splat(START[2]), start, d);
    for _ in 0..2 {
        let error = simd.subtract(simd.splat(1.0), simd.multiply(d, y));
        y = simd.multiply_add(y, y, error);
    }
    y
}
