//! A layer's outputs: for every run of samples in one interval, the weights stay in registers.
//!
//! A run's samples see the same `degree + 1` rows of coefficients and the same row of base
//! weights. A tile of outputs of those rows is loaded once, then each sample's sums are read,
//! raised by one product a row, and written back. So the work does not depend on the number of
//! intervals, and no sample's bases are ever laid out.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use std::ops::Range;

use super::taps::{self, Wanted};
use super::vector::Simd;
use super::weights::{self, rows_of_weights};
use super::{INPUTS, PITCH, ROWS};
use crate::kernels::geometry::{LayerGeometry, Weights};
use crate::kernels::path::Path;
use crate::kernels::scratch::{Run, Taps, Workspace, grown};

/// Rows of weights that registers hold at once.
pub(super) const MOST_TAPS: usize = 5;

/// The outputs of some samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForwardJob<'a> {
    pub(crate) geometry: &'a LayerGeometry,
    pub(crate) weights: Weights<'a>,
    /// `[rows, in_features]`.
    pub(crate) x: &'a [f32],
}

impl ForwardJob<'_> {
    /// Computes `y`, `[rows, out_features]`.
    ///
    /// The geometry has checked the weights.
    ///
    /// # Panics
    /// If `y` does not fit, or the path is not available.
    pub(crate) fn run(&self, path: Path, y: &mut [f32], space: &mut Workspace) {
        assert!(path.is_available(), "this CPU has no {path}");
        let rows = self.x.len() / self.geometry.in_features();
        assert_eq!(y.len(), rows * self.geometry.out_features(), "outputs");
        match path {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the path is available.
            Path::Avx512 => unsafe { super::avx512::outputs(self, y, space) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the path is available.
            Path::Avx2 => unsafe { super::avx2::outputs(self, y, space) },
            // SAFETY: every CPU has it.
            _ => unsafe { super::portable::outputs(self, y, space) },
        }
    }
}

/// All outputs of a job.
#[inline(always)]
pub(super) fn outputs<S: Simd>(
    simd: S,
    job: &ForwardJob<'_>,
    y: &mut [f32],
    space: &mut Workspace,
) {
    let (in_features, out_features) = (job.geometry.in_features(), job.geometry.out_features());
    let wanted = Wanted { base: job.weights.base.is_some(), slopes: false };
    let Workspace { taps, packed, tile, .. } = space;
    let lines = job.x.chunks(ROWS * in_features);
    if taps.len() < lines.len() {
        taps.resize_with(lines.len(), Taps::default);
    }
    let sums = grown(tile, ROWS * S::TILE * S::LANES);
    for first in (0..in_features).step_by(INPUTS) {
        let inputs = first..(first + INPUTS).min(in_features);
        for (x, taps) in lines.clone().zip(taps.iter_mut()) {
            taps::prepare(simd, job.geometry, wanted, x, inputs.clone(), taps);
        }
        let mut block = Block { job, taps: &taps[..lines.len()], inputs, packed, sums };
        for column in (0..out_features).step_by(S::TILE * S::LANES) {
            match (out_features - column).div_ceil(S::LANES).min(S::TILE) {
                1 => block.tile::<S, 1>(simd, column, y),
                2 => block.tile::<S, 2>(simd, column, y),
                3 => block.tile::<S, 3>(simd, column, y),
                _ => block.tile::<S, 4>(simd, column, y),
            }
        }
    }
}

/// Some inputs of a job.
struct Block<'a> {
    job: &'a ForwardJob<'a>,
    /// Of each line.
    taps: &'a [Taps],
    inputs: Range<usize>,
    packed: &'a mut Vec<f32>,
    sums: &'a mut [f32],
}

impl Block<'_> {
    /// `N` vectors of outputs, from a column on.
    #[inline(always)]
    fn tile<S: Simd, const N: usize>(&mut self, simd: S, column: usize, y: &mut [f32]) {
        let ForwardJob { geometry, ref weights, x } = *self.job;
        let width = N * S::LANES;
        let of_input = rows_of_weights(geometry, weights) * width;
        let packed = grown(self.packed, self.inputs.len() * of_input);
        weights::pack::<S, N>(simd, geometry, weights, self.inputs.clone(), column, packed);
        let taps_count = geometry.taps(weights);
        let spline_taps = geometry.grid().degree() + 1;
        let rows = x.len() / geometry.in_features();
        let out_features = geometry.out_features();
        for (line, taps) in self.taps.iter().enumerate() {
            let rows = ROWS.min(rows - line * ROWS);
            let sums = &mut self.sums[..rows * width];
            sums.fill(0.0);
            let mut first_run = 0;
            for (index, packed) in packed.chunks_exact(of_input).enumerate() {
                let values = &taps.values[index * taps_count * PITCH..][..taps_count * PITCH];
                let order = &taps.order[index * PITCH..][..rows];
                for run in &taps.runs[first_run..taps.run_ends[index]] {
                    for first in (0..taps_count).step_by(MOST_TAPS) {
                        let group = Group { values, order, packed, first, spline_taps };
                        match (taps_count - first).min(MOST_TAPS) {
                            1 => group.add::<S, 1, N>(simd, run, sums),
                            2 => group.add::<S, 2, N>(simd, run, sums),
                            3 => group.add::<S, 3, N>(simd, run, sums),
                            4 => group.add::<S, 4, N>(simd, run, sums),
                            _ => group.add::<S, 5, N>(simd, run, sums),
                        }
                    }
                }
                first_run = taps.run_ends[index];
            }
            let y = &mut y[line * ROWS * out_features..][..rows * out_features];
            let start = (self.inputs.start == 0).then_some(weights.bias);
            flush::<S, N>(simd, start, out_features, column, sums, y);
        }
    }
}

/// Adds a tile's sums to the outputs; the first block of inputs starts them, with the bias if
/// there is one.
#[inline(always)]
fn flush<S: Simd, const N: usize>(
    simd: S,
    start: Option<Option<&[f32]>>,
    out_features: usize,
    column: usize,
    sums: &[f32],
    y: &mut [f32],
) {
    let end = (column + N * S::LANES).min(out_features);
    let lines = y.chunks_exact_mut(out_features).zip(sums.chunks_exact(N * S::LANES));
    for (y, sums) in lines {
        let y = &mut y[column..end];
        for (vector, sums) in sums.chunks_exact(S::LANES).enumerate() {
            let place = vector * S::LANES..y.len().min((vector + 1) * S::LANES);
            let before = match start {
                None => simd.read(&y[place.clone()]),
                Some(Some(bias)) => simd.read(&bias[column..end][place.clone()]),
                Some(None) => simd.zero(),
            };
            simd.write(&mut y[place], simd.add(before, simd.read(sums)));
        }
    }
}

/// Some taps of one input.
struct Group<'a> {
    values: &'a [f32],
    order: &'a [u32],
    packed: &'a [f32],
    first: usize,
    spline_taps: usize,
}

impl Group<'_> {
    /// Adds `T` products to each sum of a run's samples.
    #[inline(always)]
    fn add<S: Simd, const T: usize, const N: usize>(&self, simd: S, run: &Run, sums: &mut [f32]) {
        let Self { values, order, packed, first, spline_taps } = *self;
        let window = run.window as usize;
        let weights = weights::load::<S, T, N>(simd, packed, window, first, spline_taps);
        let values = values[first * PITCH..][..T * PITCH].as_ptr();
        let sums = sums.as_mut_ptr();
        for &row in &order[run.start as usize..run.end as usize] {
            let row = row as usize;
            let place = sums.wrapping_add(row * N * S::LANES);
            let mut sum = [simd.zero(); N];
            for (vector, sum) in sum.iter_mut().enumerate() {
                // SAFETY: the order holds numbers of samples, and each has its sums.
                *sum = unsafe { simd.load(place.wrapping_add(vector * S::LANES)) };
            }
            for (tap, weights) in weights.iter().enumerate() {
                // SAFETY: each tap has a value for every sample.
                let value = unsafe { values.wrapping_add(tap * PITCH + row).read() };
                let value = simd.splat(value);
                for vector in 0..N {
                    sum[vector] = simd.multiply_add(sum[vector], value, weights[vector]);
                }
            }
            for (vector, &sum) in sum.iter().enumerate() {
                // SAFETY: as above.
                unsafe { simd.store(place.wrapping_add(vector * S::LANES), sum) };
            }
        }
    }
}

/// A path's `outputs`.
macro_rules! entries {
    ($(#[$feature:meta])* $kind:ty = $proof:expr) => {
        /// Computes a job.
        ///
        /// # Safety
        /// The CPU has what this path needs.
        $(#[$feature])*
        pub(super) unsafe fn outputs(job: &ForwardJob<'_>, y: &mut [f32], space: &mut Workspace) {
            forward::outputs::<$kind>($proof, job, y, space);
        }
    };
}
pub(super) use entries;
