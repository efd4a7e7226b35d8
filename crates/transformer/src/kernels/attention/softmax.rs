//! The softmax of a block of queries, whose keys come block by block.

use updraft_simd::Simd;
use updraft_simd::matrix::exponential;

/// The state of the softmax of `Q` queries.
///
/// # Source
/// Milakov, Gimelshein 2018, arXiv:1805.02867, algorithm 3.
pub(super) struct Softmax<const Q: usize> {
    pub(super) largest: [f32; Q],
    /// Sums of `exp(scale·(score − largest))`.
    pub(super) sums: [f32; Q],
    /// What numbers that were computed with the largest score before have to be multiplied by.
    pub(super) corrections: [f32; Q],
}

impl<const Q: usize> Softmax<Q> {
    pub(super) const fn new() -> Self {
        Self { largest: [f32::NEG_INFINITY; Q], sums: [0.0; Q], corrections: [0.0; Q] }
    }

    /// Replaces the scores of some keys, a row for each, by `exp(scale·(score − largest))`.
    #[inline(always)]
    pub(super) fn add<S: Simd>(
        &mut self,
        simd: S,
        scale: f32,
        columns: usize,
        scores: &mut [&mut [[f32; Q]]],
    ) {
        let factor = simd.splat(scale);
        for column in (0..columns).step_by(S::LANES) {
            let place = column..column + S::LANES;
            let before = simd.read(&self.largest[place.clone()]);
            // Two, since each waits for the one before.
            let mut largest = [before; 2];
            for scores in scores.iter() {
                let (pairs, rest) = scores.as_chunks::<2>();
                for pair in pairs {
                    for (largest, scores) in largest.iter_mut().zip(pair) {
                        *largest = simd.larger(*largest, simd.read(&scores[place.clone()]));
                    }
                }
                for scores in rest {
                    largest[0] = simd.larger(largest[0], simd.read(&scores[place.clone()]));
                }
            }
            let largest = simd.larger(largest[0], largest[1]);
            simd.write(&mut self.largest[place.clone()], largest);
            let shift = simd.subtract(simd.zero(), simd.multiply(factor, largest));
            let correction = exponential(simd, simd.multiply_add(shift, before, factor));
            simd.write(&mut self.corrections[place.clone()], correction);
            let mut sum = simd.multiply(simd.read(&self.sums[place.clone()]), correction);
            for scores in scores.iter_mut().flat_map(|scores| scores.iter_mut()) {
                let scores = &mut scores[place.clone()];
                let power = exponential(simd, simd.multiply_add(shift, simd.read(scores), factor));
                sum = simd.add(sum, power);
                simd.write(scores, power);
            }
            simd.write(&mut self.sums[place], sum);
        }
    }

    /// The logarithm of a query's sum, and the factor of its result.
    pub(super) fn finish(&self, scale: f32, query: usize) -> (f32, f32) {
        let sum = self.sums[query];
        (scale * self.largest[query] + sum.ln(), sum.recip())
    }
}
