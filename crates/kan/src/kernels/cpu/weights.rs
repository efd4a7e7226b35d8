//! The weights of tiles of outputs, packed: row by row of each input, coefficients times their
//! factors; and the order of all tiles of a layer.

use std::ops::Range;

use updraft_simd::{Isa, Simd};

use super::Blocking;
use super::FORWARD_INPUTS;
use crate::kernels::conv::ConvGeometry;
use crate::kernels::geometry::{LayerGeometry, Weights};

/// Outputs whose weights are packed together, rounded up to whole tiles: enough of a row
/// for sequential reads, few enough for the second-level cache.
pub(crate) const PACKED: usize = 128;

/// Rows of weights that belong to one input: its bases and, if there is one, the base branch.
pub(crate) fn rows_of_weights(geometry: &LayerGeometry, weights: &Weights<'_>) -> usize {
    geometry.grid().bases() + usize::from(weights.base.is_some())
}

/// The number of packed weights of a layer for an instruction set.
pub(crate) fn numbers_of_all(isa: Isa, geometry: &LayerGeometry, weights: &Weights<'_>) -> usize {
    let columns = geometry.out_features().next_multiple_of(isa.lanes());
    geometry.in_features() * rows_of_weights(geometry, weights) * columns
}

/// Blocks of inputs, in their order.
pub(super) fn blocks(in_features: usize) -> impl Iterator<Item = Range<usize>> {
    let ends = move |first: usize| first..(first + FORWARD_INPUTS).min(in_features);
    (0..in_features).step_by(FORWARD_INPUTS).map(ends)
}

/// Outputs whose weights are packed together, in their order.
pub(super) fn groups<S: Simd>(out_features: usize) -> impl Iterator<Item = Range<usize>> {
    let together = PACKED.next_multiple_of(S::OUTPUTS * S::LANES);
    let ends = move |first: usize| first..(first + together).min(out_features);
    (0..out_features).step_by(together).map(ends)
}

/// Packs all weights, `[blocks of inputs][groups of outputs]`, each as [`pack_tiles`] does.
#[inline(always)]
pub(super) fn pack_all<S: Simd>(
    simd: S,
    geometry: &LayerGeometry,
    weights: &Weights<'_>,
    mut to: &mut [f32],
) {
    let rows = rows_of_weights(geometry, weights);
    for inputs in blocks(geometry.in_features()) {
        for columns in groups::<S>(geometry.out_features()) {
            let count = inputs.len() * rows * columns.len().next_multiple_of(S::LANES);
            let (own, others) = to.split_at_mut(count);
            pack_tiles(simd, geometry, weights, inputs.clone(), columns, own);
            to = others;
        }
    }
}

/// Packs the weights of some inputs for `N` vectors of outputs from a column on, `[inputs, rows of
/// weights, N vectors]`, with zeros after the last output.
#[inline(always)]
pub(super) fn pack<S: Simd, const N: usize>(
    simd: S,
    geometry: &LayerGeometry,
    weights: &Weights<'_>,
    inputs: Range<usize>,
    column: usize,
    to: &mut [f32],
) {
    let out_features = geometry.out_features();
    let bases = geometry.grid().bases();
    let end = out_features.min(column + N * S::LANES);
    let rows = rows_of_weights(geometry, weights);
    let part = |numbers, row: usize| -> &[f32] {
        let line: &[f32] = numbers;
        &line[row * out_features + column..row * out_features + end]
    };
    for (input, to) in inputs.zip(to.chunks_exact_mut(rows * N * S::LANES)) {
        let factors = weights.scaler.map(|scaler| vectors::<S, N>(simd, part(scaler, input)));
        for (row, to) in to.chunks_exact_mut(N * S::LANES).enumerate() {
            let is_base = row == bases;
            let numbers = match weights.base {
                Some(base) if is_base => part(base, input),
                _ => part(weights.spline, input * bases + row),
            };
            // The same row of the next input; no row after the last one is read.
            let next = numbers.as_ptr().wrapping_add(bases * out_features);
            for vector in 0..N {
                simd.prefetch(next.wrapping_add(vector * S::LANES));
            }
            let mut numbers = vectors::<S, N>(simd, numbers);
            if let Some(factors) = factors
                && !is_base
            {
                for vector in 0..N {
                    numbers[vector] = simd.multiply(numbers[vector], factors[vector]);
                }
            }
            for (vector, numbers) in numbers.into_iter().enumerate() {
                simd.write(&mut to[vector * S::LANES..][..S::LANES], numbers);
            }
        }
    }
}

/// Outputs per tile, for the fewest tiles of nearly equal size.
pub(super) fn width_of_tile<S: Simd>(columns: &Range<usize>) -> usize {
    let vectors = columns.len().div_ceil(S::LANES);
    vectors.div_ceil(vectors.div_ceil(S::OUTPUTS)) * S::LANES
}

/// Packs the weights of some inputs for [tiles](width_of_tile), `[tiles, inputs, rows of weights,
/// vectors]`; the last tile has no more vectors than its outputs fill.
///
/// An input's tiles are packed one after the other, because they are in the same rows of memory.
#[inline(always)]
pub(super) fn pack_tiles<S: Simd>(
    simd: S,
    geometry: &LayerGeometry,
    weights: &Weights<'_>,
    inputs: Range<usize>,
    columns: Range<usize>,
    to: &mut [f32],
) {
    let rows = rows_of_weights(geometry, weights);
    let width = width_of_tile::<S>(&columns);
    let of_tile = inputs.len() * rows * width;
    for (index, input) in inputs.enumerate() {
        for (column, to) in columns.clone().step_by(width).zip(to.chunks_mut(of_tile)) {
            let vectors = (columns.end - column).min(width).div_ceil(S::LANES);
            let of_input = rows * vectors * S::LANES;
            let to = &mut to[index * of_input..][..of_input];
            let own = input..input + 1;
            // Compile only the tile sizes that the instruction set uses.
            if const { S::OUTPUTS == 1 } || vectors == 1 {
                pack::<S, 1>(simd, geometry, weights, own, column, to);
            } else if const { S::OUTPUTS == 2 } || vectors == 2 {
                pack::<S, 2>(simd, geometry, weights, own, column, to);
            } else if vectors == 3 {
                pack::<S, 3>(simd, geometry, weights, own, column, to);
            } else {
                pack::<S, 4>(simd, geometry, weights, own, column, to);
            }
        }
    }
}

/// Packs the weights of a convolution's channel, `[tiles, taps, rows of weights, width]`; the last
/// tile has no more vectors than its outputs fill.
#[inline(always)]
pub(super) fn pack_channel<S: Simd>(
    simd: S,
    geometry: &ConvGeometry,
    weights: &Weights<'_>,
    channel: usize,
    width: usize,
    mut to: &mut [f32],
) {
    let taps = geometry.taps();
    let inputs = channel * taps..(channel + 1) * taps;
    let columns = geometry.pixel.out_features().next_multiple_of(S::LANES);
    let of_output = taps * rows_of_weights(&geometry.pixel, weights);
    for column in (0..columns).step_by(width) {
        let own_width = width.min(columns - column);
        let (own, others) = to.split_at_mut(of_output * own_width);
        to = others;
        let (pixel, inputs) = (&geometry.pixel, inputs.clone());
        // Compile only the tile sizes that the instruction set uses.
        if const { S::TILE == 1 } {
            pack::<S, 1>(simd, pixel, weights, inputs, column, own);
            continue;
        }
        match own_width / S::LANES {
            1 => pack::<S, 1>(simd, pixel, weights, inputs, column, own),
            2 => pack::<S, 2>(simd, pixel, weights, inputs, column, own),
            3 => pack::<S, 3>(simd, pixel, weights, inputs, column, own),
            5 if const { S::LANES == 8 } => {
                pack::<S, 5>(simd, pixel, weights, inputs, column, own);
            }
            6 if const { S::LANES == 8 } => {
                pack::<S, 6>(simd, pixel, weights, inputs, column, own);
            }
            _ => pack::<S, 4>(simd, pixel, weights, inputs, column, own),
        }
    }
}

/// The vectors of a part of a row.
#[inline(always)]
fn vectors<S: Simd, const N: usize>(simd: S, part: &[f32]) -> [S::Vector; N] {
    let mut vectors = [simd.zero(); N];
    for (vector, numbers) in vectors.iter_mut().enumerate() {
        *numbers = simd.read(&part[(vector * S::LANES).min(part.len())..]);
    }
    vectors
}
