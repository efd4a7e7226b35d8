//! The coefficients of a chunk as factors, and their gradients from sums.

use updraft_simd::{Bf16Factor, Square, TILE_LANES, TILE_TERMS, Tile, pack_right};

use super::plan::{Chunk, Plan};
use crate::kernels::backward::Outputs;
use crate::kernels::cpu::finish_row;
use crate::kernels::geometry::Weights;

/// A row of weights, and the factors of its outputs.
fn row<'a>(
    plan: &Plan,
    weights: &Weights<'a>,
    [input, term]: [usize; 2],
) -> (&'a [f32], Option<&'a [f32]>) {
    let (outputs, bases) = (plan.outputs, plan.splines.count());
    let of = |numbers: &'a [f32], row: usize| &numbers[row * outputs..][..outputs];
    match weights.base {
        Some(base) if term == bases => (of(base, input), None),
        _ => {
            let factors = weights.scaler.map(|scaler| of(scaler, input));
            (of(weights.spline, input * bases + term), factors)
        }
    }
}

/// Copies the coefficients of a chunk, times their factors, `[terms][outputs]`.
pub(super) fn gather(plan: &Plan, weights: &Weights<'_>, chunk: Chunk, to: &mut [f32]) {
    for (at, to) in to.chunks_exact_mut(plan.outputs).enumerate() {
        let Some(term) = plan.term(chunk, at) else {
            to.fill(0.0);
            continue;
        };
        match row(plan, weights, term) {
            (row, None) => to.copy_from_slice(row),
            (row, Some(factors)) => {
                for ((to, row), factor) in to.iter_mut().zip(row).zip(factors) {
                    *to = row * factor;
                }
            }
        }
    }
}

/// Packs rows of numbers as right factors, `[tiles of lanes][steps]`; `sizes` are lanes, of which those
/// that are not there are zeros, and terms.
pub(super) fn pack_panels(
    plan: &Plan,
    factor: Bf16Factor<'_>,
    first_term: usize,
    [lanes, terms]: [usize; 2],
    to: &mut [Tile],
) {
    let steps = terms.div_ceil(TILE_TERMS);
    for (panel, to) in to.chunks_exact_mut(steps).enumerate() {
        match TILE_LANES.min(lanes.saturating_sub(panel * TILE_LANES)) {
            0 => to.fill(Tile::default()),
            count => {
                let first = [panel * TILE_LANES, first_term];
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
///
/// If `s` is the sum for the product of coefficient and factor, the gradient of the coefficient is
/// `scaler·s`, and that of the scaler is `Σ_j spline·s`.
pub(super) fn finish(
    plan: &Plan,
    weights: &Weights<'_>,
    chunk: Chunk,
    sums: &[f32],
    Outputs { mut spline, mut base, mut scaler }: Outputs<'_>,
) {
    let (outputs, bases) = (plan.outputs, plan.splines.count());
    if let Some(scaler) = &mut scaler {
        scaler.fill(0.0);
    }
    for (at, sums) in sums.chunks_exact(plan.columns()).enumerate() {
        let Some([input, term]) = plan.term(chunk, at) else { continue };
        let (sums, within) = (&sums[..outputs], input - chunk.first);
        if term == bases {
            if let Some(base) = &mut base {
                base[within * outputs..][..outputs].copy_from_slice(sums);
            }
            continue;
        }
        let (row, factors) = row(plan, weights, [input, term]);
        let spline = spline
            .as_mut()
            .map(|spline| &mut spline[(within * bases + term) * outputs..][..outputs]);
        let scaler = scaler.as_mut().map(|scaler| &mut scaler[within * outputs..][..outputs]);
        finish_row(plan.isa.vectors(), sums, row, factors, spline, scaler);
    }
}
