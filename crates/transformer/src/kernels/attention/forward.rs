//! The result of one head.

use updraft_simd::matrix::{Rows, Target, exponential, multiply, pack_transposed, width};
use updraft_simd::{Simd, dispatch};

use super::AttentionScratch;
use super::block::{
    KEYS, QUERIES, SCORES, columns, columns_of, keys_of, pack_tiles, panels_of, scores_of,
    tiles_len, write_rows,
};
use super::mask::Mask;

dispatch! {
    /// Computes the result of a head, `[queries, head_dim]`, and the logarithm of each query's sum.
    pub(super) fn head(simd,
        rows: [Rows<'_>; 3],
        scale: f32,
        mask: Option<Mask>,
        to: &mut [f32],
        log_sums: &mut [f32],
        scratch: &mut AttentionScratch,
    ) {
        compute(simd, rows, scale, mask, to, log_sums, scratch);
    }
}

#[inline(always)]
fn compute<S: Simd>(
    simd: S,
    [q, k, v]: [Rows<'_>; 3],
    scale: f32,
    mask: Option<Mask>,
    to: &mut [f32],
    log_sums: &mut [f32],
    scratch: &mut AttentionScratch,
) {
    let head_dim = q.len;
    let AttentionScratch { tiles: [k_tiles, v_rows], panels: [q_panels, ..], .. } = scratch;
    let k_tiles = k_tiles.grown(tiles_len::<S>(k.count, head_dim));
    let q_panels = q_panels.grown(head_dim * QUERIES);
    let (scores, result) =
        (scratch.scores[0].grown(SCORES), scratch.sums[0].grown(head_dim * QUERIES));
    pack_tiles(simd, k, k_tiles);
    let v = v.gathered(v_rows.grown(v.count * head_dim));
    for first in (0..q.count).step_by(QUERIES) {
        let queries = QUERIES.min(q.count - first);
        let columns = columns::<S>(queries);
        pack_transposed(simd, width::<S>(), q.range(first, queries), q_panels);
        let q_panels = panels_of::<S>(q_panels, head_dim);
        let mut softmax = Softmax::new();
        for first_key in (0..k.count).step_by(KEYS) {
            let keys = KEYS.min(k.count - first_key);
            let left = keys_of::<S>(k_tiles, first_key, head_dim);
            let shape = [keys, head_dim, columns];
            multiply(simd, shape, left, q_panels, scores, QUERIES, Target::Replaced);
            let rescaled = (first_key > 0).then_some(&mut result[..]);
            let scores = &mut scores[..keys * QUERIES];
            softmax.add(simd, scale, columns, scores, rescaled);
            if let Some(mask) = mask {
                mask.apply([first, queries], first_key, scores);
            }
            let into = if first_key == 0 { Target::Replaced } else { Target::Sum };
            let left = columns_of(v.range(first_key, keys));
            let shape = [head_dim, keys, columns];
            multiply(simd, shape, left, scores_of::<S>(scores), result, QUERIES, into);
        }
        let Softmax { largest, mut sums } = softmax;
        for (query, sum) in sums.iter_mut().take(queries).enumerate() {
            log_sums[first + query] = scale * largest[query] + sum.ln();
            *sum = sum.recip();
        }
        let to = &mut to[first * head_dim..][..queries * head_dim];
        write_rows(result, &sums, to, head_dim);
    }
}

/// The state of the softmax of a block of queries, whose keys come block by block.
///
/// # Source
/// Milakov, Gimelshein 2018, arXiv:1805.02867, algorithm 3.
struct Softmax {
    largest: [f32; QUERIES],
    /// Sums of `exp(scale·(score − largest))`.
    sums: [f32; QUERIES],
}

impl Softmax {
    const fn new() -> Self {
        Self { largest: [f32::NEG_INFINITY; QUERIES], sums: [0.0; QUERIES] }
    }

    /// Replaces the scores of some keys, `[keys][QUERIES]`, by `exp(scale·(score − largest))`, and
    /// multiplies what was computed with an earlier largest score, `[…][QUERIES]`, to match.
    #[inline(always)]
    fn add<S: Simd>(
        &mut self,
        simd: S,
        scale: f32,
        columns: usize,
        scores: &mut [f32],
        rescaled: Option<&mut [f32]>,
    ) {
        let factor = simd.splat(scale);
        let mut corrections = [0.0; QUERIES];
        for column in (0..columns).step_by(S::LANES) {
            let place = column..column + S::LANES;
            let before = simd.read(&self.largest[place.clone()]);
            // Two, since each waits for the one before.
            let mut largest = [before; 2];
            for scores in scores.chunks_exact(2 * QUERIES) {
                largest[0] = simd.larger(largest[0], simd.read(&scores[place.clone()]));
                let scores = &scores[QUERIES..][place.clone()];
                largest[1] = simd.larger(largest[1], simd.read(scores));
            }
            let rest = scores.chunks_exact(2 * QUERIES).remainder();
            for scores in rest.chunks_exact(QUERIES) {
                largest[0] = simd.larger(largest[0], simd.read(&scores[place.clone()]));
            }
            let largest = simd.larger(largest[0], largest[1]);
            simd.write(&mut self.largest[place.clone()], largest);
            let shift = simd.subtract(simd.zero(), simd.multiply(factor, largest));
            let correction = exponential(simd, simd.multiply_add(shift, before, factor));
            simd.write(&mut corrections[place.clone()], correction);
            let mut sum = simd.multiply(simd.read(&self.sums[place.clone()]), correction);
            for scores in scores.chunks_exact_mut(QUERIES) {
                let scores = &mut scores[place.clone()];
                let power = exponential(simd, simd.multiply_add(shift, simd.read(scores), factor));
                sum = simd.add(sum, power);
                simd.write(scores, power);
            }
            simd.write(&mut self.sums[place], sum);
        }
        for row in rescaled.into_iter().flat_map(|rows| rows.chunks_exact_mut(QUERIES)) {
            for column in (0..columns).step_by(S::LANES) {
                let place = column..column + S::LANES;
                let correction = simd.read(&corrections[place.clone()]);
                let corrected = simd.multiply(simd.read(&row[place.clone()]), correction);
                simd.write(&mut row[place], corrected);
            }
        }
    }
}
