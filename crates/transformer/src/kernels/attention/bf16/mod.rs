//! Attention whose products multiply numbers rounded to bf16, with sums in f32; the softmax is in f32.
//!
//! Scores are squares of some keys and some queries, and results and sums squares of some numbers of a
//! head and some queries, so that no product needs its softmax transposed.

mod backward;
mod forward;
mod tiles;

use updraft_simd::{BF16_SQUARE, Square, Tile};

use super::of_queries::OfQueries;

pub(super) use backward::head as backward;
pub(super) use forward::head as forward;

/// Queries of a block.
const QUERIES: usize = BF16_SQUARE;

/// Work space of a thread.
#[derive(Debug, Default)]
pub(super) struct Bf16AttentionScratch {
    tiles: [Vec<Tile>; 10],
    squares: [Vec<Square>; 3],
    of_queries: Vec<OfQueries<QUERIES>>,
    /// Gradients of results, rounded.
    rounded: Vec<f32>,
}

/// Queries, keys or numbers from a square's first one on that it holds.
fn held(square: usize, count: usize) -> usize {
    BF16_SQUARE.min(count.saturating_sub(square * BF16_SQUARE))
}
