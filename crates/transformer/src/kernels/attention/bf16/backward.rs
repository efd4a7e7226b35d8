//! The gradients of one head.

use updraft_simd::matrix::Rows;
use updraft_simd::{BF16_SQUARE, Bf16Unit, Square, Vectors, dispatch, grown, round_to_bf16};

use super::tiles::{Side, Step, Terms, Tiles};
use super::{Bf16AttentionScratch, QUERIES, held};
use crate::kernels::attention::mask::Mask;
use crate::kernels::attention::of_queries::OfQueries;

/// Squares of keys of a block: the sums of their gradients run over all queries at once, those of the
/// queries' gradients over a block.
const SQUARES: usize = 2;

/// Computes the gradients of a head's queries, keys and values from `[q, k, v, y, dy]`.
pub(in super::super) fn head(
    (vectors, unit): (Vectors, Bf16Unit),
    [q, k, v, y, dy]: [Rows<'_>; 5],
    scale: f32,
    mask: Option<Mask>,
    log_sums: &[f32],
    [dq, dk, dv]: [&mut [f32]; 3],
    scratch: &mut Bf16AttentionScratch,
) {
    let head_dim = q.len;
    let Bf16AttentionScratch { tiles, squares: [scores, sums, part], of_queries, rounded } =
        scratch;
    let [of_k, of_v, of_keys, of_q, of_dy, q_by_row, dy_by_row, packed @ ..] = tiles;
    let pack = |side, terms, rows, to| Tiles::pack(vectors, side, terms, rows, to);
    let k_tiles = pack(Side::Left, Terms::Numbers, k, of_k);
    let v_tiles = pack(Side::Left, Terms::Numbers, v, of_v);
    let k_terms = pack(Side::Left, Terms::Rows, k, of_keys);
    let q_tiles = pack(Side::Right, Terms::Numbers, q, of_q);
    let dy_tiles = pack(Side::Right, Terms::Numbers, dy, of_dy);
    let q_terms = pack(Side::Right, Terms::Rows, q, q_by_row);
    let dy_terms = pack(Side::Right, Terms::Rows, dy, dy_by_row);

    let parts = head_dim.div_ceil(BF16_SQUARE);
    let (blocks, squares) = (q.count.div_ceil(QUERIES), k.count.div_ceil(BF16_SQUARE));
    let sums = grown(sums, blocks * parts);
    let [part] = grown(part, 1) else { unreachable!("as many as asked for") };
    let [weights, dscores] = grown(scores, 2) else { unreachable!("as many as asked for") };
    let [weights_of_keys, dscores_of_keys, dscores_of_queries] = packed;
    let weights_of_keys = grown(weights_of_keys, 2 * SQUARES * blocks);
    let dscores_of_keys = grown(dscores_of_keys, 2 * SQUARES * blocks);
    let dscores_of_queries = grown(dscores_of_queries, 2 * SQUARES);
    let of_blocks = grown(of_queries, blocks);
    for (block, of_queries) in of_blocks.iter_mut().enumerate() {
        let (first, count) = (block * QUERIES, held(block, q.count));
        // Rounded as the products have it: the gradients of a query's scores add up to 0.
        let rounded = grown(rounded, count * head_dim);
        for (row, to) in rounded.chunks_mut(head_dim).enumerate() {
            round_to_bf16(vectors, dy.row(first + row), to);
        }
        let dy = Rows { numbers: rounded, pitch: head_dim, count, len: head_dim };
        let rows = [y.range(first, count), dy];
        *of_queries = measure(vectors, scale, &log_sums[first..][..count], rows);
    }
    let of_blocks = &*of_blocks;
    unit.run(|multiply| {
        for first_square in (0..squares).step_by(SQUARES) {
            let steps = SQUARES.min(squares - first_square);
            for (block, of_queries) in of_blocks.iter().enumerate() {
                let queries = held(block, q.count);
                for index in 0..steps {
                    let square = first_square + index;
                    multiply(weights, k_tiles.of_lanes(square), q_tiles.of_lanes(block));
                    multiply(dscores, v_tiles.of_lanes(square), dy_tiles.of_lanes(block));
                    let keys = held(square, k.count);
                    let (of_weights, of_scores) = (&mut weights.0[..keys], &mut dscores.0[..keys]);
                    let (dropped, first_key) = ([block * QUERIES, queries], square * BF16_SQUARE);
                    if let Some(mask) = mask {
                        mask.apply(dropped, first_key, of_scores);
                    }
                    weigh(vectors, of_queries, scale, of_weights, of_scores);
                    if let Some(mask) = mask {
                        mask.apply(dropped, first_key, of_weights);
                    }
                    let held = [keys, queries];
                    let of_keys = Step {
                        side: Side::Left,
                        terms: Terms::Numbers,
                        held,
                        square: index,
                        step: [block, blocks],
                    };
                    of_keys.pack(vectors, &weights.0, weights_of_keys);
                    of_keys.pack(vectors, &dscores.0, dscores_of_keys);
                    let of_queries = Step {
                        side: Side::Right,
                        terms: Terms::Rows,
                        held,
                        square: 0,
                        step: [index, steps],
                    };
                    of_queries.pack(vectors, &dscores.0, dscores_of_queries);
                }
                let dscores = Tiles::new(dscores_of_queries, steps);
                for (index, sums) in sums[block * parts..][..parts].iter_mut().enumerate() {
                    let keys = k_terms.of_square(index, first_square, steps);
                    if first_square == 0 {
                        multiply(sums, keys, dscores.of_lanes(0));
                    } else {
                        multiply(part, keys, dscores.of_lanes(0));
                        add(vectors, part, sums);
                    }
                }
            }
            for (packed, right, to) in
                [(&*dscores_of_keys, q_terms, &mut *dk), (&*weights_of_keys, dy_terms, &mut *dv)]
            {
                let left = Tiles::new(packed, blocks);
                for index in 0..steps {
                    for column in 0..parts {
                        multiply(part, left.of_lanes(index), right.of_lanes(column));
                        let square = [first_square + index, column];
                        write(part, square, to, head_dim);
                    }
                }
            }
        }
    });
    for (query, to) in dq.chunks_mut(head_dim).enumerate() {
        let (block, column) = (query / QUERIES, query % QUERIES);
        let numbers = sums[block * parts..][..parts].iter().flat_map(|square| &square.0);
        for (to, numbers) in to.iter_mut().zip(numbers) {
            *to = numbers[column];
        }
    }
}

/// Writes the part of a result, in rows of `head_dim` numbers, that is a square of it.
fn write(from: &Square, [row, column]: [usize; 2], to: &mut [f32], head_dim: usize) {
    let (first, len) = (column * BF16_SQUARE, held(column, head_dim));
    let rows = to.chunks_mut(head_dim).skip(row * BF16_SQUARE);
    for (to, from) in rows.zip(&from.0) {
        to[first..][..len].copy_from_slice(&from[..len]);
    }
}

dispatch! {
    /// What is known of some queries.
    fn measure(simd,
        scale: f32,
        log_sums: &[f32],
        rows: [Rows<'_>; 2],
    ) -> OfQueries<QUERIES> {
        OfQueries::new(simd, scale, log_sums, rows)
    }

    /// Replaces scores by their weights, and gradients of weights by those of scores.
    fn weigh(simd,
        of_queries: &OfQueries<QUERIES>,
        scale: f32,
        weights: &mut [[f32; QUERIES]],
        gradients: &mut [[f32; QUERIES]],
    ) {
        of_queries.weigh(simd, scale, QUERIES, weights, gradients);
    }

    /// Adds a part to sums.
    fn add(_simd, part: &Square, sums: &mut Square) {
        for (sum, part) in sums.0.as_flattened_mut().iter_mut().zip(part.0.as_flattened()) {
            *sum += part;
        }
    }
}
