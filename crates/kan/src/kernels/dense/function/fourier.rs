//! Cosines and sines.

use updraft_simd::Simd;

use super::sine::sine_and_cosine;
use super::{Functions, Gradient, Lines};

/// `cos(kx)` and `sin(kx)` for `k` from 1 on, by the sums of angles.
#[derive(Clone, Copy)]
pub(in super::super) struct Fourier {
    /// The highest `k`.
    pub(in super::super) frequencies: usize,
}

/// `[sin, cos]` of the sum of two angles, from those of each.
#[inline(always)]
fn sum_of_angles<S: Simd>(simd: S, a: [S::Vector; 2], b: [S::Vector; 2]) -> [S::Vector; 2] {
    let product = simd.multiply(a[0], b[0]);
    let cosine = simd.multiply_add(simd.subtract(simd.zero(), product), a[1], b[1]);
    [simd.multiply_add(simd.multiply(a[0], b[1]), a[1], b[0]), cosine]
}

impl Functions for Fourier {
    #[inline(always)]
    fn values<S: Simd>(self, simd: S, _: &[f32], x: S::Vector, values: Lines<S>) {
        let first = sine_and_cosine(simd, x);
        let mut angle = first;
        for k in 0..self.frequencies {
            if k > 0 {
                angle = sum_of_angles(simd, angle, first);
            }
            values.write(simd, 2 * k, angle[1]);
            values.write(simd, 2 * k + 1, angle[0]);
        }
    }

    #[inline(always)]
    fn gradient<S: Simd, const TRAINED: bool>(
        self,
        simd: S,
        _: &[f32],
        x: S::Vector,
        Gradient { weights, values, .. }: Gradient<S>,
    ) -> S::Vector {
        let first = sine_and_cosine(simd, x);
        let (mut angle, mut slope) = (first, simd.zero());
        for k in 0..self.frequencies {
            if k > 0 {
                angle = sum_of_angles(simd, angle, first);
            }
            values.write(simd, 2 * k, angle[1]);
            values.write(simd, 2 * k + 1, angle[0]);
            let of_cosine = simd.multiply(weights.read(simd, 2 * k), angle[0]);
            let of_sine = simd.multiply(weights.read(simd, 2 * k + 1), angle[1]);
            let both = simd.subtract(of_sine, of_cosine);
            slope = simd.multiply_add(slope, both, simd.splat((k + 1) as f32));
        }
        slope
    }
}
