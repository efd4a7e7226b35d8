//! The forward pass of a layer: the weights of an input stay in registers for all samples in one
//! interval.
//!
//! For each input, the samples of a line are sorted by interval. The sums of a line for a tile of
//! outputs stay in the L1 cache over all inputs. For each run of samples in one interval, the
//! `degree + 1` rows of coefficients of its window and the row of base weights are read once; the
//! sums of each sample are read, all products are added, and the sums are written back. So the
//! number of products does not depend on the number of intervals, and the basis functions of a
//! sample are never stored.

use std::ops::Range;

use updraft_simd::{Isa, Kernel, Simd, dispatch};

use super::Blocking;
use super::flush::Flush;
use super::forward_run::{ForwardRun, Rows};
use super::taps::{self, Wanted};
use super::weights::{self, rows_of_weights};
use crate::kernels::geometry::{LayerGeometry, Weights};
use crate::kernels::scratch::{Taps, Workspace};

/// The outputs of some samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForwardJob<'a> {
    pub(crate) geometry: &'a LayerGeometry,
    pub(crate) weights: Weights<'a>,
    /// All weights as packed by [`pack_all`], if available. Then only the bias of `weights` is
    /// read, and which other weights exist.
    pub(crate) packed: Option<&'a [f32]>,
    /// `[rows, in_features]`.
    pub(crate) x: &'a [f32],
}

impl ForwardJob<'_> {
    /// Computes `y`, `[rows, out_features]`.
    ///
    /// The geometry has checked the weights.
    ///
    /// # Panics
    /// If `y` or the packed weights do not fit, or the CPU does not have `isa`.
    pub(crate) fn run(&self, isa: Isa, y: &mut [f32], space: &mut Workspace) {
        assert!(isa.is_available(), "this CPU has no {isa}");
        let rows = self.x.len() / self.geometry.in_features();
        assert_eq!(y.len(), rows * self.geometry.out_features(), "outputs");
        let all = weights::numbers_of_all(isa, self.geometry, &self.weights);
        assert!(self.packed.is_none_or(|packed| packed.len() == all), "packed weights");
        all_outputs(isa.vectors(), self, y, space);
    }
}

/// Packs all weights into the order in which [`ForwardJob`] reads them on an instruction set.
///
/// The geometry has checked the weights.
///
/// # Panics
/// If `to` does not fit, or the CPU does not have `isa`.
pub(crate) fn pack_all(isa: Isa, geometry: &LayerGeometry, weights: &Weights<'_>, to: &mut [f32]) {
    assert!(isa.is_available(), "this CPU has no {isa}");
    assert_eq!(to.len(), weights::numbers_of_all(isa, geometry, weights), "packed weights");
    pack_weights(isa.vectors(), geometry, weights, to);
}

/// Up to this many samples are not sorted: each is a separate run, and basis values are computed
/// for many inputs at a time.
const FEW: usize = 4;

/// Up to this many samples, packing the weights takes longer than reading them unpacked.
const IN_PLACE: usize = 32;

/// Number of inputs whose weights are prefetched.
const AHEAD: usize = 3;

/// Whether the samples of a job are processed one by one.
pub(crate) fn are_few(geometry: &LayerGeometry, rows: usize) -> bool {
    rows <= FEW && taps::is_closed(geometry)
}

/// Whether a job without packed weights reads the weights without packing them.
pub(crate) fn reads_in_place(isa: Isa, geometry: &LayerGeometry, rows: usize) -> bool {
    rows <= IN_PLACE && geometry.out_features().is_multiple_of(isa.lanes())
}

/// All outputs of a job.
#[inline(always)]
fn outputs<S: Simd>(simd: S, job: &ForwardJob<'_>, y: &mut [f32], space: &mut Workspace) {
    let in_features = job.geometry.in_features();
    let wanted = Wanted { base: job.weights.base.is_some(), slopes: false };
    let Workspace { taps, packed, tile, .. } = space;
    let lines = job.x.chunks(S::LINE * in_features);
    if taps.len() < lines.len() {
        taps.resize_with(lines.len(), Taps::default);
    }
    let sums = tile.grown(S::LINE * S::OUTPUTS * S::LANES);
    let rows = job.x.len() / in_features;
    let are_few = are_few(job.geometry, rows);
    let is_direct = reads_in_place(S::ISA, job.geometry, rows);
    let mut left = job.packed;
    for inputs in weights::blocks(in_features) {
        for (x, taps) in lines.clone().zip(taps.iter_mut()) {
            if are_few {
                taps::side_by_side(simd, job.geometry, wanted.base, x, inputs.clone(), taps);
            } else {
                taps::ordered(simd, job.geometry, wanted, x, inputs.clone(), taps);
            }
        }
        let taps = &taps[..lines.len()];
        let of_column = inputs.len() * rows_of_weights(job.geometry, &job.weights);
        for columns in weights::groups::<S>(job.geometry.out_features()) {
            let width = weights::width_of_tile::<S>(&columns);
            let count = of_column * columns.len().next_multiple_of(S::LANES);
            let packed = match left.as_mut().and_then(|left| left.split_off(..count)) {
                Some(packed) => packed,
                None if is_direct => &[],
                None => {
                    let packed = packed.grown(count);
                    let (geometry, weights) = (job.geometry, &job.weights);
                    let (own, all) = (inputs.clone(), columns.clone());
                    weights::pack_tiles(simd, geometry, weights, own, all, packed);
                    packed
                }
            };
            for (line, taps) in taps.iter().enumerate() {
                for column in columns.clone().step_by(width) {
                    let vectors = (columns.end - column).min(width).div_ceil(S::LANES);
                    let start = (column - columns.start) * of_column;
                    let end = start + of_column * vectors * S::LANES;
                    let packed = packed.get(start..end);
                    let inputs = inputs.clone();
                    let tile = Tile { job, line, taps, are_few, inputs, column, packed };
                    // Compile only the tile sizes that the instruction set uses.
                    if const { S::OUTPUTS == 1 } || vectors == 1 {
                        simd.vectorize(TileOutputs::<1> { tile, sums, y });
                    } else if const { S::OUTPUTS == 2 } || vectors == 2 {
                        simd.vectorize(TileOutputs::<2> { tile, sums, y });
                    } else if vectors == 3 {
                        simd.vectorize(TileOutputs::<3> { tile, sums, y });
                    } else {
                        simd.vectorize(TileOutputs::<4> { tile, sums, y });
                    }
                }
            }
        }
    }
}

/// Some inputs of a line of samples, and a tile of outputs.
struct Tile<'a> {
    job: &'a ForwardJob<'a>,
    line: usize,
    taps: &'a Taps,
    /// Whether the taps are [side by side](taps::side_by_side).
    are_few: bool,
    inputs: Range<usize>,
    /// The first output.
    column: usize,
    /// `[inputs][rows of weights][N vectors]`; `None` if the weights are read without packing.
    packed: Option<&'a [f32]>,
}

impl Tile<'_> {
    /// Computes `N` vectors of outputs.
    #[inline(always)]
    fn run<S: Simd, const N: usize>(&self, simd: S, sums: &mut [f32], y: &mut [f32]) {
        let ForwardJob { geometry, ref weights, x, .. } = *self.job;
        let width = N * S::LANES;
        let first_row = self.line * S::LINE;
        let rows = (x.len() / geometry.in_features() - first_row).min(S::LINE);
        let out_features = geometry.out_features();
        let mut flush = Flush {
            bias: weights.bias,
            is_first: self.inputs.start == 0,
            columns: self.column..(self.column + width).min(out_features),
            out_features,
            y,
        };
        let sums = &mut sums[..rows * width];
        sums.fill(0.0);
        let mut first_run = 0;
        let inputs = self.inputs.len();
        for index in 0..inputs {
            // Prefetch a share of the outputs, to which the sums are added at the end.
            let row = |index: usize| first_row + rows * index / inputs;
            flush.prefetch(simd, row(index)..row(index + 1));
            if self.are_few {
                self.few::<S, N>(simd, index, rows, sums);
            } else {
                let end = self.taps.run_ends[index];
                self.runs::<S, N>(simd, index, first_run..end, rows, sums);
                first_run = end;
            }
        }
        flush.add::<S, N>(simd, first_row..first_row + rows, sums);
    }

    /// Adds the products of an input, run by run.
    #[inline(always)]
    fn runs<S: Simd, const N: usize>(
        &self,
        simd: S,
        index: usize,
        runs: Range<usize>,
        rows: usize,
        sums: &mut [f32],
    ) {
        let geometry = self.job.geometry;
        let taps = geometry.taps(&self.job.weights);
        let weights = self.weights::<S, N>(index);
        if self.packed.is_none() && index + 1 < self.inputs.len() {
            let bases = geometry.grid().bases();
            self.weights::<S, N>(index + 1).prefetch::<S, N>(simd, 0, bases);
        }
        let order = &self.taps.order[index * S::PITCH..][..rows];
        for run in &self.taps.runs[runs] {
            let run = ForwardRun {
                order: &order[run.start as usize..run.end as usize],
                window: run.window as usize,
                spline_taps: geometry.grid().degree() + 1,
                values: &self.taps.values[index * taps * S::PITCH..],
                pitch: S::PITCH,
                weights,
            };
            run.add::<S, N>(simd, taps, sums);
        }
    }

    /// Adds the products of an input whose taps are side by side.
    #[inline(always)]
    fn few<S: Simd, const N: usize>(&self, simd: S, index: usize, rows: usize, sums: &mut [f32]) {
        let geometry = self.job.geometry;
        let spline_taps = geometry.grid().degree() + 1;
        let weights = self.weights::<S, N>(index);
        let window =
            |row: usize, index: usize| self.taps.windows[row * taps::FEW_PITCH + index] as usize;
        if index + AHEAD < self.inputs.len() {
            let ahead = self.weights::<S, N>(index + AHEAD);
            for row in 0..rows {
                ahead.prefetch::<S, N>(simd, window(row, index + AHEAD), spline_taps);
            }
        }
        let width = N * S::LANES;
        for (row, sums) in sums.chunks_exact_mut(width).enumerate() {
            let run = ForwardRun {
                order: &[0],
                window: window(row, index),
                spline_taps,
                values: &self.taps.values[row * taps::FEW_PITCH + index..],
                pitch: rows * taps::FEW_PITCH,
                weights,
            };
            run.add::<S, N>(simd, geometry.taps(&self.job.weights), sums);
        }
    }

    /// The weights of one of the inputs.
    #[inline(always)]
    fn weights<S: Simd, const N: usize>(&self, index: usize) -> Rows<'_> {
        let ForwardJob { geometry, ref weights, .. } = *self.job;
        let width = N * S::LANES;
        if let Some(packed) = self.packed {
            let of_input = rows_of_weights(geometry, weights) * width;
            let spline = &packed[index * of_input..][..of_input];
            // The last row belongs to the base branch.
            let base = if weights.base.is_some() { &spline[of_input - width..] } else { &[] };
            return Rows { spline, pitch: width, base, scaler: &[] };
        }
        let (input, outputs) = (self.inputs.start + index, geometry.out_features());
        let bases = geometry.grid().bases();
        let start = input * outputs + self.column;
        let spline = &weights.spline[input * bases * outputs + self.column..];
        Rows {
            spline: &spline[..(bases - 1) * outputs + width],
            pitch: outputs,
            base: weights.base.map_or(&[], |base| &base[start..start + width]),
            scaler: weights.scaler.map_or(&[], |scaler| &scaler[start..start + width]),
        }
    }
}

/// [`Tile::run`] in a separate function; a single function would take minutes to compile.
struct TileOutputs<'a, const N: usize> {
    tile: Tile<'a>,
    sums: &'a mut [f32],
    y: &'a mut [f32],
}

impl<const N: usize> Kernel for TileOutputs<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { tile, sums, y } = self;
        tile.run::<S, N>(simd, sums, y);
    }
}

dispatch! {
    /// All outputs of a job.
    fn all_outputs(simd, job: &ForwardJob<'_>, y: &mut [f32], space: &mut Workspace) {
        outputs(simd, job, y, space);
    }

    /// Packs all weights.
    fn pack_weights(simd, geometry: &LayerGeometry, weights: &Weights<'_>, to: &mut [f32]) {
        weights::pack_all(simd, geometry, weights, to);
    }
}
