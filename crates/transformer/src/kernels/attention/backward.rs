//! The gradients of one head.

use updraft_simd::matrix::{
    Left, Rows, Target, exponential, multiply, pack, pack_transposed, padded, width,
};
use updraft_simd::{MAX_LANES, Simd, dispatch};

use super::AttentionScratch;
use super::block::{
    KEYS, QUERIES, SCORES, columns, columns_of, keys_of, pack_tiles, panels_of, scores_of,
    tiles_len, write_rows,
};
use super::mask::Mask;

dispatch! {
    /// Computes the gradients of a head's queries, keys and values from `[q, k, v, y, dy]`.
    pub(super) fn head(simd,
        inputs: [Rows<'_>; 5],
        scale: f32,
        mask: Option<Mask>,
        log_sums: &[f32],
        gradients: [&mut [f32]; 3],
        scratch: &mut AttentionScratch,
    ) {
        compute(simd, inputs, scale, mask, log_sums, gradients, scratch);
    }
}

#[inline(always)]
fn compute<S: Simd>(
    simd: S,
    [q, k, v, y, dy]: [Rows<'_>; 5],
    scale: f32,
    mask: Option<Mask>,
    log_sums: &[f32],
    [dq, dk, dv]: [&mut [f32]; 3],
    scratch: &mut AttentionScratch,
) {
    let head_dim = q.len;
    let (width, pitch) = (width::<S>(), padded::<S>(head_dim));
    let AttentionScratch { tiles, panels, scores, sums, rows } = scratch;
    let [k_tiles, v_tiles] = tiles;
    let k_tiles = k_tiles.grown(tiles_len::<S>(k.count, head_dim));
    let v_tiles = v_tiles.grown(tiles_len::<S>(k.count, head_dim));
    let [q_columns, dy_columns, q_rows, dy_rows] = panels;
    let q_columns = q_columns.grown(head_dim * QUERIES);
    let dy_columns = dy_columns.grown(head_dim * QUERIES);
    let (q_rows, dy_rows) = (q_rows.grown(QUERIES * pitch), dy_rows.grown(QUERIES * pitch));
    let [weights, dscores] = scores;
    let (weights, dscores) = (weights.grown(SCORES), dscores.grown(SCORES));
    let [of_q, of_k, of_v] = sums;
    let of_q = of_q.grown(head_dim * QUERIES);
    let (of_k, of_v) = (of_k.grown(k.count * pitch), of_v.grown(k.count * pitch));

    pack_tiles(simd, k, k_tiles);
    pack_tiles(simd, v, v_tiles);
    let k = k.gathered(rows.grown(k.count * head_dim));
    for first in (0..q.count).step_by(QUERIES) {
        let queries = QUERIES.min(q.count - first);
        let columns = columns::<S>(queries);
        let [q, dy] = [q.range(first, queries), dy.range(first, queries)];
        pack_transposed(simd, width, q, q_columns);
        pack_transposed(simd, width, dy, dy_columns);
        pack(width, q, q_rows);
        pack(width, dy, dy_rows);
        let mut of_query = OfQueries { log_sums: [0.0; QUERIES], means: [0.0; QUERIES] };
        for query in 0..queries {
            of_query.log_sums[query] = log_sums[first + query];
            of_query.means[query] = scale * dot(simd, y.row(first + query), dy.row(query));
        }
        for first_key in (0..k.count).step_by(KEYS) {
            let keys = KEYS.min(k.count - first_key);
            let shape = [keys, head_dim, columns];
            for (left, right, to) in
                [(&*k_tiles, &*q_columns, &mut *weights), (&*v_tiles, &*dy_columns, &mut *dscores)]
            {
                let left = keys_of::<S>(left, first_key, head_dim);
                let right = panels_of::<S>(right, head_dim);
                multiply(simd, shape, left, right, to, QUERIES, Target::Replaced);
            }
            let dropped = [first, queries];
            if let Some(mask) = mask {
                mask.apply(dropped, first_key, &mut dscores[..keys * QUERIES]);
            }
            of_query.weigh(simd, scale, columns, keys, weights, dscores);
            if let Some(mask) = mask {
                mask.apply(dropped, first_key, &mut weights[..keys * QUERIES]);
            }
            let into = if first_key == 0 { Target::Replaced } else { Target::Sum };
            let left = columns_of(k.range(first_key, keys));
            let right = scores_of::<S>(dscores);
            multiply(simd, [head_dim, keys, columns], left, right, of_q, QUERIES, into);

            let into = if first == 0 { Target::Replaced } else { Target::Sum };
            let shape = [keys, queries, head_dim];
            for (left, right, to) in
                [(&*dscores, &*q_rows, &mut *of_k), (&*weights, &*dy_rows, &mut *of_v)]
            {
                let left = Left::new(left, [QUERIES, 1]);
                let right = panels_of::<S>(right, queries);
                let to = &mut to[first_key * pitch..];
                multiply(simd, shape, left, right, to, pitch, into);
            }
        }
        let to = &mut dq[first * head_dim..][..queries * head_dim];
        write_rows(of_q, &[1.0; QUERIES], to, head_dim);
    }
    for (from, to) in [(of_k, dk), (of_v, dv)] {
        for (from, to) in from.chunks(pitch).zip(to.chunks_mut(head_dim)) {
            to.copy_from_slice(&from[..head_dim]);
        }
    }
}

/// What the backward pass knows of each query of a block.
struct OfQueries {
    /// The logarithm of the sum of its exponentials.
    log_sums: [f32; QUERIES],
    /// The mean of its weights' gradients, times `scale`.
    means: [f32; QUERIES],
}

impl OfQueries {
    /// Replaces scores by their weights `exp(scale·score − log_sum)`, and gradients of weights by those
    /// of scores, `weight·(scale·gradient − mean)`.
    #[inline(always)]
    fn weigh<S: Simd>(
        &self,
        simd: S,
        scale: f32,
        columns: usize,
        keys: usize,
        weights: &mut [f32],
        gradients: &mut [f32],
    ) {
        let factor = simd.splat(scale);
        let zero = simd.zero();
        for column in (0..columns).step_by(S::LANES) {
            let place = column..column + S::LANES;
            let shift = simd.subtract(zero, simd.read(&self.log_sums[place.clone()]));
            let mean = simd.subtract(zero, simd.read(&self.means[place.clone()]));
            let rows = weights.chunks_exact_mut(QUERIES).zip(gradients.chunks_exact_mut(QUERIES));
            for (weights, gradients) in rows.take(keys) {
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
