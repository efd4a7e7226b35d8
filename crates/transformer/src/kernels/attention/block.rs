//! Blocks of scores, transposed: a row for each key, with the queries side by side in vectors, so that
//! what is computed for each query needs no sum over a vector.

use updraft_simd::Simd;
use updraft_simd::matrix::{Left, Right, Rows, pack_transposed, padded, tile_rows, width};

/// Queries of a block, whole panels of every instruction set.
pub(super) const QUERIES: usize = 64;

/// Keys of a block, whole tiles of every instruction set; two blocks of scores fit the nearest cache.
pub(super) const KEYS: usize = 96;

/// Numbers of a block of scores.
pub(super) const SCORES: usize = KEYS * QUERIES;

/// Numbers of keys in tiles.
pub(super) const fn tiles_len<S: Simd>(keys: usize, head_dim: usize) -> usize {
    keys.next_multiple_of(tile_rows::<S>()) * head_dim
}

/// Packs keys in tiles.
#[inline(always)]
pub(super) fn pack_tiles<S: Simd>(simd: S, rows: Rows<'_>, to: &mut [f32]) {
    pack_transposed(simd, tile_rows::<S>(), rows, to);
}

/// Keys from `first` on, a whole number of blocks, as a left factor: a row for each key.
#[inline(always)]
pub(super) fn keys_of<S: Simd>(tiles: &[f32], first: usize, head_dim: usize) -> Left<'_> {
    Left::tiles::<S>(&tiles[first * head_dim..], head_dim)
}

/// Rows as a left factor with a row for each of their columns.
#[inline(always)]
pub(super) const fn columns_of(rows: Rows<'_>) -> Left<'_> {
    Left::new(rows.numbers, [1, rows.pitch])
}

/// A block of scores as a right factor: its columns are queries.
#[inline(always)]
pub(super) const fn scores_of<S: Simd>(scores: &[f32]) -> Right<'_> {
    Right { panels: scores, pitch: [width::<S>(), QUERIES] }
}

/// Panels of `depth` rows.
#[inline(always)]
pub(super) const fn panels_of<S: Simd>(panels: &[f32], depth: usize) -> Right<'_> {
    Right { panels, pitch: [depth * width::<S>(), width::<S>()] }
}

/// Writes rows from their transpose, `[row.len][QUERIES]`, times a factor for each row.
#[inline(always)]
pub(super) fn write_rows(transposed: &[f32], factors: &[f32], to: &mut [f32], len: usize) {
    for (row, (to, factor)) in to.chunks_mut(len).zip(factors).enumerate() {
        for (to, from) in to.iter_mut().zip(transposed[row..].iter().step_by(QUERIES)) {
            *to = from * factor;
        }
    }
}

/// Queries with those that fill the last panel.
#[inline(always)]
pub(super) const fn columns<S: Simd>(queries: usize) -> usize {
    padded::<S>(queries)
}
