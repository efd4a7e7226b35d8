//! A block of inputs as the inner loops want it: what each sample sees of the splines, and the
//! samples ordered by the interval that they lie in.
#![expect(unsafe_code, reason = "squares are transposed through checked pointers")]

use std::ops::Range;

use super::function;
use super::vector::Simd;
use super::{GROUP, PITCH, ROWS};
use crate::basis::{Uniform, local_bases};
use crate::grid::MAX_DEGREE;
use crate::kernels::geometry::LayerGeometry;
use crate::kernels::scratch::{Run, Taps, grown};

/// With more intervals than these, counting sorts faster than looking for each.
const MOST_SEARCHES: usize = 16;

/// What is wanted of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// Whether the layer has a base branch.
    pub(super) base: bool,
    /// Whether slopes are wanted beside values.
    pub(super) slopes: bool,
}

/// Evaluates the splines of some inputs for the samples in `x`, and orders the samples by window.
#[inline(always)]
pub(super) fn ordered<S: Simd>(
    simd: S,
    geometry: &LayerGeometry,
    wanted: Wanted,
    x: &[f32],
    inputs: Range<usize>,
    taps: &mut Taps,
) {
    let rows = x.len() / geometry.in_features();
    assert!(rows <= ROWS, "samples of a block");
    let line = (geometry.grid().degree() + 1 + usize::from(wanted.base)) * PITCH;
    let Taps { columns, values, slopes, windows, order, runs, run_ends, starts, has_nan, .. } =
        taps;

    let columns = grown(columns, inputs.len() * PITCH);
    gather(simd, x, geometry.in_features(), inputs.clone(), columns);
    let values = grown(values, inputs.len() * line);
    let slopes = grown(slopes, if wanted.slopes { inputs.len() * line } else { 0 });
    let windows = grown(windows, PITCH);
    let order = grown(order, inputs.len() * PITCH);
    let has_nan = grown(has_nan, inputs.len());
    runs.clear();
    run_ends.clear();

    for (index, input) in inputs.enumerate() {
        let column = &columns[index * PITCH..][..rows];
        let values = &mut values[index * line..][..line];
        let slopes = wanted.slopes.then(|| &mut slopes[index * line..][..line]);
        evaluate(geometry, wanted.base, input, column, values, slopes, windows);
        has_nan[index] = column.iter().fold(false, |any, x| any | x.is_nan());
        let order = &mut order[index * PITCH..][..PITCH];
        sort(simd, &windows[..rows], geometry.grid().intervals(), order, runs, starts);
        run_ends.push(runs.len());
    }
}

/// Evaluates the splines of some inputs for the samples in `x`, and leaves the samples in their
/// order: [`GROUP`] of them at a time have all values of all inputs side by side.
#[inline(always)]
pub(super) fn grouped<S: Simd>(
    simd: S,
    geometry: &LayerGeometry,
    has_base: bool,
    x: &[f32],
    inputs: Range<usize>,
    taps: &mut Taps,
) {
    let rows = x.len() / geometry.in_features();
    assert!(rows <= ROWS, "samples of a block");
    let count = geometry.grid().degree() + 1 + usize::from(has_base);
    let Taps { columns, values, windows, groups, group_windows, .. } = taps;
    let columns = grown(columns, inputs.len() * PITCH);
    gather(simd, x, geometry.in_features(), inputs.clone(), columns);
    let values = grown(values, count * PITCH);
    let windows = grown(windows, PITCH);
    let groups = grown(groups, ROWS * inputs.len() * count);
    let group_windows = grown(group_windows, ROWS * inputs.len());

    for (index, input) in inputs.clone().enumerate() {
        let column = &columns[index * PITCH..][..rows];
        evaluate(geometry, has_base, input, column, values, None, windows);
        // Kernels take several samples at a time, and read on behind the last.
        windows[rows..].fill(0);
        for group in 0..rows.div_ceil(GROUP) {
            let place = (group * inputs.len() + index) * GROUP;
            group_windows[place..][..GROUP].copy_from_slice(&windows[group * GROUP..][..GROUP]);
            let to = groups[place * count..][..count * GROUP].chunks_exact_mut(GROUP);
            for (to, line) in to.zip(values.chunks_exact(PITCH)) {
                to.copy_from_slice(&line[group * GROUP..][..GROUP]);
            }
        }
    }
}

/// Copies columns of `x` into lines; what lies behind their ends is left as it is.
#[inline(always)]
fn gather<S: Simd>(
    simd: S,
    x: &[f32],
    in_features: usize,
    inputs: Range<usize>,
    columns: &mut [f32],
) {
    let rows = x.len() / in_features;
    let squares = [rows / S::LANES * S::LANES, inputs.len() / S::LANES * S::LANES];
    for row in (0..squares[0]).step_by(S::LANES) {
        for column in (0..squares[1]).step_by(S::LANES) {
            let from = x[row * in_features + inputs.start + column..].as_ptr();
            let to = columns[column * PITCH + row..].as_mut_ptr();
            // SAFETY: the square lies below row `rows` and column `inputs.end` of `x`, and in
            // the lines of `PITCH` numbers, one an input.
            unsafe { simd.transpose(from, in_features, to, PITCH) };
        }
    }
    for row in 0..rows {
        let done = if row < squares[0] { squares[1] } else { 0 };
        let line = &x[row * in_features..][inputs.clone()];
        for (column, &value) in line.iter().enumerate().skip(done) {
            columns[column * PITCH + row] = value;
        }
    }
}

/// Evaluates one input's spline, and the base branch behind it, for all samples.
#[inline(always)]
fn evaluate(
    geometry: &LayerGeometry,
    has_base: bool,
    input: usize,
    column: &[f32],
    values: &mut [f32],
    mut slopes: Option<&mut [f32]>,
    windows: &mut [u32],
) {
    let grid = geometry.grid();
    if has_base {
        let base = (grid.degree() + 1) * PITCH;
        function::values(geometry.activation(), column, &mut values[base..]);
        if let Some(slopes) = &mut slopes {
            function::slopes(geometry.activation(), column, &mut slopes[base..]);
        }
    }
    match (Uniform::of(grid), grid.degree()) {
        (Some(uniform), 1) => uniform.evaluate::<2>(column, values, slopes, PITCH, windows),
        (Some(uniform), 2) => uniform.evaluate::<3>(column, values, slopes, PITCH, windows),
        (Some(uniform), 3) => uniform.evaluate::<4>(column, values, slopes, PITCH, windows),
        _ => recursive(geometry, input, column, values, slopes, windows),
    }
}

/// By the recursion in f64, one sample at a time.
fn recursive(
    geometry: &LayerGeometry,
    input: usize,
    column: &[f32],
    values: &mut [f32],
    mut slopes: Option<&mut [f32]>,
    windows: &mut [u32],
) {
    let grid = geometry.grid();
    let taps = grid.degree() + 1;
    let (mut value, mut slope) = ([0.0; MAX_DEGREE + 1], [0.0; MAX_DEGREE + 1]);
    for (row, &x) in column.iter().enumerate() {
        let (value, slope) = (&mut value[..taps], &mut slope[..taps]);
        windows[row] = local_bases(grid, input, f64::from(x), value, slope) as u32;
        for tap in 0..taps {
            values[tap * PITCH + row] = value[tap] as f32;
            if let Some(slopes) = &mut slopes {
                slopes[tap * PITCH + row] = slope[tap] as f32;
            }
        }
    }
}

/// Orders samples by window, those of one window by their number.
#[inline(always)]
fn sort<S: Simd>(
    simd: S,
    windows: &[u32],
    intervals: usize,
    order: &mut [u32],
    runs: &mut Vec<Run>,
    starts: &mut Vec<u32>,
) {
    if intervals <= MOST_SEARCHES {
        let mut start = 0;
        for window in 0..intervals {
            let end = start + simd.indices_of(windows, window as u32, &mut order[start..]);
            push(runs, window, start, end);
            start = end;
        }
        return;
    }
    starts.clear();
    starts.resize(intervals + 1, 0);
    for &window in windows {
        starts[window as usize + 1] += 1;
    }
    for window in 0..intervals {
        starts[window + 1] += starts[window];
        push(runs, window, starts[window] as usize, starts[window + 1] as usize);
    }
    for (row, &window) in windows.iter().enumerate() {
        let place = &mut starts[window as usize];
        order[*place as usize] = row as u32;
        *place += 1;
    }
}

fn push(runs: &mut Vec<Run>, window: usize, start: usize, end: usize) {
    if start < end {
        runs.push(Run { window: window as u32, start: start as u32, end: end as u32 });
    }
}
