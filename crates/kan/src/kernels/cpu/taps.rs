//! Prepares a block of inputs for the inner loops: the basis values of each sample, and the samples
//! sorted by interval.
#![expect(unsafe_code, reason = "squares are transposed through checked pointers")]

use std::ops::Range;

use updraft_simd::{Kernel, Simd};

use super::Blocking;
use super::bspline_uniform::{Bases, Uniform};
use super::function;
use super::{FORWARD_INPUTS, GROUP};
use crate::basis::local_bases;
use crate::grid::MAX_DEGREE;
use crate::kernels::geometry::LayerGeometry;
use crate::kernels::scratch::{Run, Taps, grown};

/// With more intervals than this, a counting sort is faster than one search for each interval.
const MOST_SEARCHES: usize = 16;

/// The distance from one sample's values to the next in the layout of [`side_by_side`].
pub(super) const FEW_PITCH: usize = FORWARD_INPUTS;

/// The required values of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// Whether the layer has a base branch.
    pub(super) base: bool,
    /// Whether slopes are required in addition to values.
    pub(super) slopes: bool,
}

/// Evaluates the splines of some inputs for the samples in `x`, and sorts the samples by window.
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
    assert!(rows <= S::LINE, "samples of a block");
    let line = (geometry.grid().degree() + 1 + usize::from(wanted.base)) * S::PITCH;
    let Taps { columns, values, slopes, windows, order, runs, run_ends, starts, has_nan, .. } =
        taps;

    let columns = grown(columns, inputs.len() * S::PITCH);
    gather(simd, x, geometry.in_features(), inputs.clone(), columns, S::PITCH);
    let values = grown(values, inputs.len() * line);
    let slopes = grown(slopes, if wanted.slopes { inputs.len() * line } else { 0 });
    let windows = grown(windows, S::PITCH);
    let order = grown(order, inputs.len() * S::PITCH);
    let has_nan = grown(has_nan, inputs.len());
    runs.clear();
    run_ends.clear();

    for (index, input) in inputs.enumerate() {
        let column = &columns[index * S::PITCH..][..rows];
        let slopes = wanted.slopes.then(|| &mut slopes[index * line..][..line]);
        let evaluation = Evaluation::of(simd, geometry, wanted.base, input, column);
        let values = &mut values[index * line..][..line];
        let column = &columns[index * S::PITCH..][..rows.next_multiple_of(GROUP)];
        evaluation.run(simd, column, Bases { values, slopes, pitch: S::PITCH, windows });
        let column = &column[..rows];
        has_nan[index] = column.iter().fold(false, |any, x| any | x.is_nan());
        let order = &mut order[index * S::PITCH..][..S::PITCH];
        sort(simd, &windows[..rows], geometry.grid().intervals(), order, runs, starts);
        run_ends.push(runs.len());
    }
}

/// Whether splines are evaluated in closed form, the same for all inputs.
pub(super) fn is_closed(geometry: &LayerGeometry) -> bool {
    (1..=3).contains(&geometry.grid().degree()) && Uniform::of(geometry.grid()).is_some()
}

/// Evaluates the splines of some inputs for each sample in `x`, many inputs at a time: values
/// `[taps][samples][FEW_PITCH]`, windows `[samples][FEW_PITCH]`.
///
/// # Panics
/// If there are more inputs than [`FEW_PITCH`], or the geometry is not [closed](is_closed).
#[inline(always)]
pub(super) fn side_by_side<S: Simd>(
    simd: S,
    geometry: &LayerGeometry,
    has_base: bool,
    x: &[f32],
    inputs: Range<usize>,
    taps: &mut Taps,
) {
    let rows = x.len() / geometry.in_features();
    assert!(is_closed(geometry) && inputs.len() <= FEW_PITCH, "inputs of a block");
    let pitch = rows * FEW_PITCH;
    let count = geometry.grid().degree() + 1 + usize::from(has_base);
    let Taps { columns, values, windows, .. } = taps;
    let column = grown(columns, FEW_PITCH);
    let values = grown(values, count * pitch);
    let windows = grown(windows, pitch);
    for (row, x) in x.chunks_exact(geometry.in_features()).enumerate() {
        column[..inputs.len()].copy_from_slice(&x[inputs.clone()]);
        let evaluation =
            Evaluation::of(simd, geometry, has_base, inputs.start, &column[..inputs.len()]);
        let values = &mut values[row * FEW_PITCH..];
        let windows = &mut windows[row * FEW_PITCH..];
        let column = &column[..inputs.len().next_multiple_of(GROUP)];
        evaluation.run(simd, column, Bases { values, slopes: None, pitch, windows });
    }
}

/// Copies columns of `x` into lines; numbers after the end of a line are not changed.
#[inline(always)]
pub(super) fn gather<S: Simd>(
    simd: S,
    x: &[f32],
    in_features: usize,
    inputs: Range<usize>,
    columns: &mut [f32],
    pitch: usize,
) {
    let rows = x.len() / in_features;
    let squares = [rows / S::LANES * S::LANES, inputs.len() / S::LANES * S::LANES];
    for row in (0..squares[0]).step_by(S::LANES) {
        for column in (0..squares[1]).step_by(S::LANES) {
            let from = x[row * in_features + inputs.start + column..].as_ptr();
            let to = columns[column * pitch + row..].as_mut_ptr();
            // SAFETY: the square lies below row `rows` and column `inputs.end` of `x`, and in
            // the lines of `pitch` numbers, one per input.
            unsafe { simd.transpose(from, in_features, to, pitch) };
        }
    }
    for row in 0..rows {
        let done = if row < squares[0] { squares[1] } else { 0 };
        let line = &x[row * in_features..][inputs.clone()];
        for (column, &value) in line.iter().enumerate().skip(done) {
            columns[column * pitch + row] = value;
        }
    }
}

/// The evaluation of one input's spline and base branch.
pub(super) struct Evaluation<'a> {
    geometry: &'a LayerGeometry,
    has_base: bool,
    input: usize,
    uniform: Option<Uniform>,
    is_inside: bool,
}

impl<'a> Evaluation<'a> {
    /// Returns the evaluation for the samples of a column.
    #[inline(always)]
    pub(super) fn of<S: Simd>(
        simd: S,
        geometry: &'a LayerGeometry,
        has_base: bool,
        input: usize,
        column: &[f32],
    ) -> Self {
        let is_closed = (1..=3).contains(&geometry.grid().degree());
        let uniform = if is_closed { Uniform::of(geometry.grid()) } else { None };
        let is_inside = uniform.is_some_and(|uniform| uniform.has_all(simd, column));
        Self { geometry, has_base, input, uniform, is_inside }
    }

    /// Evaluates some vectors of samples; numbers after the samples of the column may be arbitrary.
    #[inline(always)]
    pub(super) fn run<S: Simd>(&self, simd: S, x: &[f32], bases: Bases<'_>) {
        simd.vectorize(Evaluate { evaluation: self, x, bases });
    }

    #[inline(always)]
    fn evaluate<S: Simd>(&self, simd: S, x: &[f32], mut bases: Bases<'_>) {
        let degree = self.geometry.grid().degree();
        if self.has_base {
            let activation = self.geometry.activation();
            let first = (degree + 1) * bases.pitch;
            let to = bases.values[first..].chunks_exact_mut(S::LANES);
            for (x, to) in x.chunks_exact(S::LANES).zip(to) {
                simd.write(to, function::value(simd, activation, simd.read(x)));
            }
            if let Some(slopes) = &mut bases.slopes {
                let to = slopes[first..].chunks_exact_mut(S::LANES);
                for (x, to) in x.chunks_exact(S::LANES).zip(to) {
                    simd.write(to, function::slope(simd, activation, simd.read(x)));
                }
            }
        }
        match (&self.uniform, degree) {
            (Some(uniform), 1) => uniform.evaluate::<S, 2>(simd, self.is_inside, x, bases),
            (Some(uniform), 2) => uniform.evaluate::<S, 3>(simd, self.is_inside, x, bases),
            (Some(uniform), _) => uniform.evaluate::<S, 4>(simd, self.is_inside, x, bases),
            (None, _) => recursive(self.geometry, self.input, x, bases),
        }
    }
}

/// [`Evaluation::evaluate`] in a separate function, which all passes share.
struct Evaluate<'a> {
    evaluation: &'a Evaluation<'a>,
    x: &'a [f32],
    bases: Bases<'a>,
}

impl Kernel for Evaluate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { evaluation, x, bases } = self;
        evaluation.evaluate(simd, x, bases);
    }
}

/// Evaluates the recursion in f64, one sample at a time.
fn recursive(geometry: &LayerGeometry, input: usize, x: &[f32], bases: Bases<'_>) {
    let Bases { values, mut slopes, pitch, windows } = bases;
    let grid = geometry.grid();
    let taps = grid.degree() + 1;
    let (mut value, mut slope) = ([0.0; MAX_DEGREE + 1], [0.0; MAX_DEGREE + 1]);
    for (row, &x) in x.iter().enumerate() {
        let (value, slope) = (&mut value[..taps], &mut slope[..taps]);
        windows[row] = local_bases(grid, input, f64::from(x), value, slope) as u32;
        for tap in 0..taps {
            values[tap * pitch + row] = value[tap] as f32;
            if let Some(slopes) = &mut slopes {
                slopes[tap * pitch + row] = slope[tap] as f32;
            }
        }
    }
}

/// Sorts samples by window, and samples of one window by index.
#[inline(always)]
pub(super) fn sort<S: Simd>(
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
