//! The gradients of one head.

use updraft_simd::matrix::{Left, Rows, Target, multiply, pack, pack_transposed, padded, width};
use updraft_simd::{Simd, dispatch};

use super::AttentionScratch;
use super::block::{
    KEYS, QUERIES, SCORES, columns, columns_of, keys_of, pack_tiles, panels_of, scores_of,
    tiles_len, write_rows,
};
use super::mask::Mask;
use super::of_queries::OfQueries;

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
    let AttentionScratch { tiles, panels, scores, sums, rows, .. } = scratch;
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
        let of_query = OfQueries::<QUERIES>::new(
            simd,
            scale,
            &log_sums[first..][..queries],
            [y.range(first, queries), dy],
        );
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
            let [of_weights, of_scores] =
                [&mut *weights, &mut *dscores].map(|all| all[..keys * QUERIES].as_chunks_mut().0);
            if let Some(mask) = mask {
                mask.apply(dropped, first_key, of_scores);
            }
            of_query.weigh(simd, scale, columns, of_weights, of_scores);
            if let Some(mask) = mask {
                mask.apply(dropped, first_key, of_weights);
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
