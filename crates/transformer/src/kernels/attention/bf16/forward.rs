//! The result of one head.

use updraft_simd::matrix::Rows;
use updraft_simd::{
    BF16_SQUARE, Bf16Unit, Simd, Square, TILE_TERMS, Tile, Vectors, dispatch, grown,
};

use super::tiles::{Side, Step, Terms, Tiles};
use super::{Bf16AttentionScratch, QUERIES, held};
use crate::kernels::attention::mask::Mask;
use crate::kernels::attention::softmax::Softmax;

/// Squares of keys of a block, whose scores fit the nearest cache.
const SQUARES: usize = 4;

/// Computes the result of a head, `[queries, head_dim]`, and the logarithm of each query's sum.
pub(in super::super) fn head(
    (vectors, unit): (Vectors, Bf16Unit),
    [q, k, v]: [Rows<'_>; 3],
    scale: f32,
    mask: Option<Mask>,
    to: &mut [f32],
    log_sums: &mut [f32],
    scratch: &mut Bf16AttentionScratch,
) {
    let head_dim = q.len;
    let Bf16AttentionScratch { tiles, squares, .. } = scratch;
    let [of_k, of_v, of_q, of_weights, ..] = tiles;
    let [scores, result, part] = squares;
    let scores = grown(scores, SQUARES);
    let parts = head_dim.div_ceil(BF16_SQUARE);
    let (result, part) = (grown(result, parts), grown(part, parts));
    let k_tiles = Tiles::pack(vectors, Side::Left, Terms::Numbers, k, of_k);
    let v_tiles = Tiles::pack(vectors, Side::Left, Terms::Rows, v, of_v);
    let of_weights = grown(of_weights, 2 * SQUARES);
    unit.run(|multiply| {
        for first in (0..q.count).step_by(QUERIES) {
            let queries = QUERIES.min(q.count - first);
            let rows = q.range(first, queries);
            let q_tiles = Tiles::pack(vectors, Side::Right, Terms::Numbers, rows, of_q);
            let mut softmax = Softmax::new();
            let squares = k.count.div_ceil(BF16_SQUARE);
            for first_square in (0..squares).step_by(SQUARES) {
                let steps = SQUARES.min(squares - first_square);
                for (index, scores) in scores[..steps].iter_mut().enumerate() {
                    multiply(scores, k_tiles.of_lanes(first_square + index), q_tiles.of_lanes(0));
                }
                let block = Block { first_square, keys: k.count, dropped: [first, queries] };
                block.weigh(vectors, &mut softmax, scale, mask, &mut scores[..steps]);
                let weights = block.pack(vectors, &scores[..steps], of_weights);
                let to = if first_square == 0 { &mut *result } else { &mut *part };
                for (index, to) in to.iter_mut().enumerate() {
                    let values = v_tiles.of_square(index, first_square, steps);
                    multiply(to, values, weights.of_lanes(0));
                }
                if first_square > 0 {
                    add(vectors, &softmax.corrections, part, result);
                }
            }
            for (query, to) in to[first * head_dim..].chunks_mut(head_dim).take(queries).enumerate()
            {
                let (log_sum, factor) = softmax.finish(scale, query);
                log_sums[first + query] = log_sum;
                let numbers = result.iter().flat_map(|square| &square.0);
                for (to, numbers) in to.iter_mut().zip(numbers) {
                    *to = numbers[query] * factor;
                }
            }
        }
    });
}

/// Squares of scores of some keys and some queries.
#[derive(Clone, Copy)]
struct Block {
    first_square: usize,
    /// Keys of the head.
    keys: usize,
    /// The first query and how many there are.
    dropped: [usize; 2],
}

impl Block {
    /// Replaces scores by their exponentials, some of which are dropped.
    fn weigh(
        self,
        vectors: Vectors,
        softmax: &mut Softmax<QUERIES>,
        scale: f32,
        mask: Option<Mask>,
        scores: &mut [Square],
    ) {
        let mut rows = [const { [].as_mut_slice() }; SQUARES];
        for (index, (rows, square)) in rows.iter_mut().zip(scores).enumerate() {
            *rows = &mut square.0[..held(self.first_square + index, self.keys)];
        }
        add_scores(vectors, softmax, scale, &mut rows);
        if let Some(mask) = mask {
            for (index, rows) in rows.into_iter().enumerate() {
                mask.apply(self.dropped, (self.first_square + index) * BF16_SQUARE, rows);
            }
        }
    }

    /// The weights as a right factor: its columns are queries.
    fn pack<'a>(self, vectors: Vectors, scores: &[Square], to: &'a mut [Tile]) -> Tiles<'a> {
        for (index, square) in scores.iter().enumerate() {
            let step = Step {
                side: Side::Right,
                terms: Terms::Rows,
                held: [held(self.first_square + index, self.keys), self.dropped[1]],
                square: 0,
                step: [index, scores.len()],
            };
            step.pack(vectors, &square.0, to);
        }
        const { assert!(TILE_TERMS == BF16_SQUARE, "a square has the terms of a step") };
        Tiles::new(to, scores.len())
    }
}

dispatch! {
    /// Adds scores to a softmax.
    fn add_scores(simd,
        softmax: &mut Softmax<QUERIES>,
        scale: f32,
        scores: &mut [&mut [[f32; QUERIES]]],
    ) {
        softmax.add(simd, scale, QUERIES, scores);
    }

    /// Adds a part to sums, which are multiplied by a factor for each query first.
    fn add(simd, factors: &[f32; QUERIES], part: &[Square], sums: &mut [Square]) {
        add_part(simd, factors, part, sums);
    }
}

#[inline(always)]
fn add_part<S: Simd>(simd: S, factors: &[f32; QUERIES], part: &[Square], sums: &mut [Square]) {
    for (part, sums) in part.iter().zip(sums) {
        for (part, sums) in part.0.iter().zip(&mut sums.0) {
            for lane in (0..QUERIES).step_by(S::LANES) {
                let place = lane..lane + S::LANES;
                let [part, sum, factor] =
                    [part, &*sums, factors].map(|row| simd.read(&row[place.clone()]));
                simd.write(&mut sums[place], simd.multiply_add(part, sum, factor));
            }
        }
    }
}
