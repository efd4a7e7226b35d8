//! The weights of a block of queries and the gradients of their scores.

use updraft_simd::matrix::{Rows, exponential};
use updraft_simd::{MAX_LANES, Simd};

/// What the backward pass knows of each of `Q` queries.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfQueries<const Q: usize> {
    /// The logarithm of the sum of its exponentials.
    log_sums: [f32; Q],
    /// The mean of its weights' gradients, times `scale`.
    means: [f32; Q],
}

impl<const Q: usize> Default for OfQueries<Q> {
    fn default() -> Self {
        Self { log_sums: [0.0; Q], means: [0.0; Q] }
    }
}

impl<const Q: usize> OfQueries<Q> {
    /// Of the queries with these results and gradients of them.
    #[inline(always)]
    pub(super) fn new<S: Simd>(
        simd: S,
        scale: f32,
        log_sums: &[f32],
        [y, dy]: [Rows<'_>; 2],
    ) -> Self {
        let mut all = Self::default();
        for (query, &log_sum) in log_sums.iter().enumerate() {
            all.log_sums[query] = log_sum;
            all.means[query] = scale * dot(simd, y.row(query), dy.row(query));
        }
        all
    }

    /// Replaces scores by their weights `exp(scale·score − log_sum)`, and gradients of weights by those
    /// of scores, `weight·(scale·gradient − mean)`.
    #[inline(always)]
    pub(super) fn weigh<S: Simd>(
        &self,
        simd: S,
        scale: f32,
        columns: usize,
        weights: &mut [[f32; Q]],
        gradients: &mut [[f32; Q]],
    ) {
        let factor = simd.splat(scale);
        let zero = simd.zero();
        for column in (0..columns).step_by(S::LANES) {
            let place = column..column + S::LANES;
            let shift = simd.subtract(zero, simd.read(&self.log_sums[place.clone()]));
            let mean = simd.subtract(zero, simd.read(&self.means[place.clone()]));
            for (weights, gradients) in weights.iter_mut().zip(gradients.iter_mut()) {
                let (weights, gradients) =
                    (&mut weights[place.clone()], &mut gradients[place.clone()]);
                let weight = simd.multiply_add(shift, simd.read(weights), factor);
                let weight = exponential(simd, weight);
                let gradient = simd.multiply_add(mean, simd.read(gradients), factor);
                simd.write(weights, weight);
                simd.write(gradients, simd.multiply(weight, gradient));
            }
        }
    }
}

#[inline(always)]
fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let mut sums = simd.zero();
    for (a, b) in a.chunks(S::LANES).zip(b.chunks(S::LANES)) {
        sums = simd.multiply_add(sums, simd.read(a), simd.read(b));
    }
    let mut lanes = [0.0; MAX_LANES];
    simd.write(&mut lanes, sums);
    lanes.iter().sum()
}
