//! The outputs' gradients, tile by tile.

use updraft_simd::Isa;

/// Copies `dy`, `[rows, out_features]`, tile by tile, with zeros up to whole vectors.
///
/// Each [line](super::line()) of samples becomes `[tiles][samples][outputs of the tile]`.
pub(crate) fn pack(isa: Isa, dy: &[f32], out_features: usize, to: &mut [f32]) {
    let lanes = isa.lanes();
    let width = out_features.next_multiple_of(lanes);
    let tile = super::layer_tile(isa, out_features);
    let line = super::line(isa);
    let blocks = dy.chunks(line * out_features).zip(to.chunks_mut(line * width));
    for (dy, to) in blocks {
        let rows = dy.len() / out_features;
        for column in (0..width).step_by(tile) {
            let padded = tile.min(width - column);
            let there = tile.min(out_features - column);
            let to = &mut to[column * rows..][..padded * rows];
            for (dy, to) in dy.chunks_exact(out_features).zip(to.chunks_exact_mut(padded)) {
                to[..there].copy_from_slice(&dy[column..column + there]);
                to[there..].fill(0.0);
            }
        }
    }
}
