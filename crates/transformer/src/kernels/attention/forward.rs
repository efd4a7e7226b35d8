//! The result of one head.

use updraft_simd::matrix::{Rows, Target, multiply, pack_transposed, width};
use updraft_simd::{Simd, dispatch};

use super::AttentionScratch;
use super::block::{
    KEYS, QUERIES, SCORES, columns, columns_of, keys_of, pack_tiles, panels_of, scores_of,
    tiles_len, write_rows,
};
use super::mask::Mask;
use super::softmax::Softmax;

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
            let scores = &mut scores[..keys * QUERIES];
            let (rows, _) = scores.as_chunks_mut();
            softmax.add(simd, scale, columns, &mut [&mut *rows]);
            if first_key > 0 {
                rescale(simd, &softmax.corrections, columns, result);
            }
            if let Some(mask) = mask {
                mask.apply([first, queries], first_key, rows);
            }
            let into = if first_key == 0 { Target::Replaced } else { Target::Sum };
            let left = columns_of(v.range(first_key, keys));
            let shape = [head_dim, keys, columns];
            multiply(simd, shape, left, scores_of::<S>(scores), result, QUERIES, into);
        }
        let mut factors = [0.0; QUERIES];
        for (query, factor) in factors.iter_mut().take(queries).enumerate() {
            (log_sums[first + query], *factor) = softmax.finish(scale, query);
        }
        let to = &mut to[first * head_dim..][..queries * head_dim];
        write_rows(result, &factors, to, head_dim);
    }
}

/// Multiplies rows by a factor for each query.
#[inline(always)]
fn rescale<S: Simd>(simd: S, factors: &[f32; QUERIES], columns: usize, rows: &mut [f32]) {
    for row in rows.chunks_exact_mut(QUERIES) {
        for column in (0..columns).step_by(S::LANES) {
            let place = column..column + S::LANES;
            let factor = simd.read(&factors[place.clone()]);
            let corrected = simd.multiply(simd.read(&row[place.clone()]), factor);
            simd.write(&mut row[place], corrected);
        }
    }
}
