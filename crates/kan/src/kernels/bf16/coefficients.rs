//! The coefficients of a chunk as factors, and their gradients from sums.

use updraft_simd::{Bf16Factor, Square, TILE_LANES, TILE_TERMS, Tile, pack_right};

use super::plan::{Chunk, Plan};
use crate::kernels::coefficients::{CoefficientGradients, Coefficients};
use crate::kernels::geometry::Weights;

/// What the terms of a layer are multiplied with.
pub(super) fn coefficients<'a>(plan: &Plan, weights: &Weights<'a>) -> Coefficients<'a> {
    Coefficients {
        functions: weights.spline,
        count: plan.splines.count(),
        base: weights.base,
        factors: weights.scaler,
        outputs: plan.outputs,
    }
}

/// Copies the coefficients of a chunk, times their factors, `[terms][outputs]`.
pub(super) fn gather(plan: &Plan, of: &Coefficients<'_>, chunk: Chunk, to: &mut [f32]) {
    for (at, to) in to.chunks_exact_mut(plan.outputs).enumerate() {
        match plan.term(chunk, at) {
            Some([input, term]) => of.copy(input, term, to),
            None => to.fill(0.0),
        }
    }
}

/// Packs lanes of a right factor, `[tiles of lanes][steps]`, with zeros after the last one.
pub(super) fn pack_panels(
    plan: &Plan,
    factor: Bf16Factor<'_>,
    [lanes, terms]: [usize; 2],
    to: &mut [Tile],
) {
    let steps = terms.div_ceil(TILE_TERMS);
    for (panel, to) in to.chunks_exact_mut(steps).enumerate() {
        match TILE_LANES.min(lanes.saturating_sub(panel * TILE_LANES)) {
            0 => to.fill(Tile::default()),
            count => {
                let first = [panel * TILE_LANES, 0];
                pack_right(plan.isa.vectors(), factor, first, [count, terms], to);
            }
        }
    }
}

/// Adds a square to rows of sums, from a column on.
pub(super) fn add_square(square: &Square, sums: &mut [f32], pitch: usize, column: usize) {
    for (sums, from) in sums.chunks_exact_mut(pitch).zip(&square.0) {
        for (sum, from) in sums[column..].iter_mut().zip(from) {
            *sum += from;
        }
    }
}

/// Computes the gradients of a chunk's coefficients from their sums, `[terms][columns]`.
pub(super) fn finish(
    plan: &Plan,
    of: &Coefficients<'_>,
    chunk: Chunk,
    sums: &[f32],
    mut wanted: CoefficientGradients<'_>,
) {
    wanted.start();
    for (at, sums) in sums.chunks_exact(plan.columns()).enumerate() {
        if let Some(place) = plan.term(chunk, at) {
            wanted.finish(plan.isa, of, chunk.first, place, &sums[..plan.outputs]);
        }
    }
}
