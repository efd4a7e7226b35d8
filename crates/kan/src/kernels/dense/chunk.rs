//! The gradients of a chunk of inputs.
#![expect(unsafe_code, reason = "squares are transposed through pointers that were checked")]

use std::ops::Range;

use updraft_simd::matrix::{
    Left, Right, Rows, Target, multiply, pack_transposed, padded, tile_rows, width,
};
use updraft_simd::{MAX_LANES, Simd, dispatch};

use super::backward::Results;
use super::layer::{DenseInput, DenseLayer, DenseWeights, PITCH, Parameters, ROWS};
use super::panel::{Lanes, base, base_gradients, columns_of, gradients, values};
use super::plan::{Plan, Wants};
use super::scratch::DenseSpace;
use super::weights::pack_rows;

/// What all chunks share.
pub(super) struct Job<'a> {
    pub(super) layer: &'a DenseLayer,
    pub(super) weights: &'a DenseWeights<'a>,
    pub(super) parameters: &'a Parameters<'a>,
    pub(super) input: DenseInput<'a>,
    pub(super) plan: Plan,
    /// Panels of outputs for each block, and panels of rows.
    pub(super) dy: [&'a [f32]; 2],
    pub(super) wants: Wants,
}

/// Some inputs and blocks of rows, with where their gradients go.
pub(super) struct Task<'a> {
    pub(super) chunk: Range<usize>,
    pub(super) blocks: Range<usize>,
    /// `[blocks][inputs][PITCH]`, for the inputs of the base branch and of the functions.
    pub(super) of_x: Option<&'a mut [f32]>,
    pub(super) of_seen: Option<&'a mut [f32]>,
    pub(super) results: Results<'a>,
    /// Of the functions' parameters, `[inputs][parameters]`.
    pub(super) sums: &'a mut [f64],
}

dispatch! {
    /// Packs a block of rows for the gradients of weights: panels of outputs.
    pub(super) fn pack_dy(simd, dy: &[f32], outputs: usize, to: &mut [f32]) {
        panels_of_outputs(simd, dy, outputs, to);
    }

    /// Packs a block of rows for the gradients of values: panels of rows.
    pub(super) fn transpose_dy(simd, dy: &[f32], outputs: usize, to: &mut [f32]) {
        panels_of_rows(simd, dy, outputs, to);
    }

    /// Computes the gradients of a task.
    pub(super) fn run(simd, job: &Job<'_>, task: Task<'_>, space: &mut DenseSpace) {
        compute(simd, job, task, space);
    }

    /// Writes lines of inputs, `[inputs][PITCH]`, as rows of `pitch` numbers.
    pub(super) fn write_lines(simd, lines: &[f32], chunk: Range<usize>, pitch: usize, to: &mut [f32]) {
        rows_of_lines(simd, lines, chunk, pitch, to);
    }
}

#[inline(always)]
fn panels_of_outputs<S: Simd>(_simd: S, dy: &[f32], outputs: usize, to: &mut [f32]) {
    let rows = Rows { numbers: dy, pitch: outputs, count: dy.len() / outputs, len: outputs };
    pack_rows(width::<S>(), rows, to, ROWS, 0);
}

#[inline(always)]
fn panels_of_rows<S: Simd>(simd: S, dy: &[f32], outputs: usize, to: &mut [f32]) {
    let rows = Rows { numbers: dy, pitch: outputs, count: dy.len() / outputs, len: outputs };
    pack_transposed(simd, width::<S>(), rows, to);
}

#[inline(always)]
fn compute<S: Simd>(simd: S, job: &Job<'_>, task: Task<'_>, space: &mut DenseSpace) {
    let &Job { layer, weights, parameters, input, plan, dy, wants } = job;
    let Task { chunk, blocks, mut of_x, mut of_seen, results, sums } = task;
    let &DenseLayer { inputs, outputs, activation, .. } = layer;
    let (width, height, count) = (width::<S>(), tile_rows::<S>(), layer.count());
    let has_base = weights.base.is_some();
    let of_functions = chunk.len() * count;
    let terms = of_functions + if has_base { chunk.len() } else { 0 };
    let padded = padded::<S>(outputs);
    let tiles = |rows: usize| rows.next_multiple_of(height) * outputs;

    let DenseSpace { columns: [columns, others], panel, gradients: upstream, .. } = space;
    let DenseSpace { weights: packed, result, lanes, .. } = space;
    let columns = columns.grown(chunk.len() * PITCH);
    let differs = has_base && input.seen.is_some();
    let others = others.grown(if differs { chunk.len() * PITCH } else { 0 });
    let panel = panel.grown(terms * PITCH);
    let of_weights = result.grown(if wants.weights { terms * padded } else { 0 });
    let (upstream, packed) = if wants.values() {
        // The transpose of the last tile may be a vector longer.
        let len = tiles(of_functions) + tiles(terms - of_functions) + MAX_LANES;
        (upstream.grown((terms + chunk.len()) * PITCH), packed.grown(len))
    } else {
        (upstream.grown(0), packed.grown(0))
    };
    let lanes = lanes.grown(parameters.trained() * S::LANES);
    if wants.values() {
        let coefficients = Rows {
            numbers: &weights.coefficients[chunk.start * count * outputs..],
            pitch: outputs,
            count: of_functions,
            len: outputs,
        };
        pack_transposed(simd, height, coefficients, packed);
        if let Some(base) = weights.base {
            let numbers = &base[chunk.start * outputs..];
            let base = Rows { numbers, count: chunk.len(), ..coefficients };
            pack_transposed(simd, height, base, &mut packed[tiles(of_functions)..]);
        }
    }

    for (index, block) in blocks.enumerate() {
        let rows = plan.rows_of(block);
        let all = block * ROWS..block * ROWS + rows;
        let seen = input.seen.unwrap_or(input.x);
        columns_of(simd, seen, inputs, all.clone(), chunk.clone(), columns);
        let base_columns = if differs {
            columns_of(simd, input.x, inputs, all, chunk.clone(), others);
            &*others
        } else {
            &*columns
        };
        let of_block = block * (dy[0].len().max(dy[1].len()) / plan.blocks());
        if wants.values() {
            let panels = &dy[1][of_block..];
            let right = Right { panels, pitch: [outputs * width, width] };
            let left = Left::tiles::<S>(packed, outputs);
            let size = [of_functions, outputs, rows];
            multiply(simd, size, left, right, upstream, PITCH, Target::Replaced);
            if has_base {
                let left = Left::tiles::<S>(&packed[tiles(of_functions)..], outputs);
                let (size, to) =
                    ([chunk.len(), outputs, rows], &mut upstream[of_functions * PITCH..]);
                multiply(simd, size, left, right, to, PITCH, Target::Replaced);
            }
            let (upstream, own) = upstream.split_at_mut(terms * PITCH);
            let (weights, of_base) = upstream.split_at_mut(of_functions * PITCH);
            let place = index * chunk.len() * PITCH..(index + 1) * chunk.len() * PITCH;
            let slopes = match (&mut of_seen, &mut of_x) {
                (Some(slopes), _) => &mut slopes[place.clone()],
                (None, Some(slopes)) if input.seen.is_none() => &mut slopes[place.clone()],
                _ => own,
            };
            let lines = Lanes { columns, weights, panel, slopes, lanes, pitch: PITCH };
            let inputs = chunk.clone();
            if wants.functions {
                gradients::<S, true>(simd, layer, parameters, inputs, rows, lines, sums);
            } else {
                gradients::<S, false>(simd, layer, parameters, inputs, rows, lines, sums);
            }
            if let Some(slopes) = &mut of_x {
                let adds = input.seen.is_none();
                let slopes = &mut slopes[place];
                if has_base {
                    let sizes = [chunk.len(), rows, PITCH];
                    let lines = [base_columns, &*of_base];
                    base_gradients(simd, activation, sizes, lines, slopes, adds);
                } else if !adds {
                    slopes.fill(0.0);
                }
            }
        } else {
            values(simd, layer, parameters, chunk.clone(), columns, panel, [rows, PITCH]);
        }
        if wants.weights {
            if has_base {
                let panel = &mut panel[of_functions * PITCH..];
                base(simd, activation, base_columns, panel, [chunk.len(), rows, PITCH]);
            }
            let target = if index == 0 { Target::Replaced } else { Target::Sum };
            let right = Right { panels: &dy[0][of_block..], pitch: [ROWS * width, width] };
            let left = Left::new(&panel[..terms * PITCH], [PITCH, 1]);
            multiply(simd, [terms, rows, outputs], left, right, of_weights, padded, target);
        }
    }
    let Results { coefficients, base } = results;
    let (of_coefficients, of_base) =
        of_weights.split_at(if wants.weights { of_functions * padded } else { 0 });
    for (sums, to) in [(of_coefficients, coefficients), (of_base, base)] {
        let Some(to) = to else { continue };
        for (sums, to) in sums.chunks_exact(padded).zip(to.chunks_exact_mut(outputs)) {
            to.copy_from_slice(&sums[..outputs]);
        }
    }
}

#[inline(always)]
fn rows_of_lines<S: Simd>(
    simd: S,
    lines: &[f32],
    chunk: Range<usize>,
    pitch: usize,
    to: &mut [f32],
) {
    let rows = to.len() / pitch;
    for row in (0..rows).step_by(S::LANES) {
        for column in (0..chunk.len()).step_by(S::LANES) {
            let (from, place) = (column * PITCH + row, row * pitch + chunk.start + column);
            let is_whole = row + S::LANES <= rows && column + S::LANES <= chunk.len();
            let ends = [
                (from + (S::LANES - 1) * PITCH + S::LANES, lines.len()),
                (place + (S::LANES - 1) * pitch + S::LANES, to.len()),
            ];
            if is_whole && ends.iter().all(|(end, len)| end <= len) {
                let (from, to) = (lines[from..].as_ptr(), to[place..].as_mut_ptr());
                // SAFETY: both squares end within their slices, as was just compared.
                unsafe { simd.transpose(from, PITCH, to, pitch) };
                continue;
            }
            for row in row..rows.min(row + S::LANES) {
                for column in column..chunk.len().min(column + S::LANES) {
                    to[row * pitch + chunk.start + column] = lines[column * PITCH + row];
                }
            }
        }
    }
}
