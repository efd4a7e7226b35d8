//! A layer's outputs: samples pass by weights that stay in the fastest cache.
//!
//! A panel holds the weights of a few inputs for a tile of outputs, and fits the first-level
//! cache; a line of samples passes by the panels of several tiles while the second-level cache
//! holds what it sees of the splines. A group of samples takes its sums into registers; for each
//! input of the panel, all add the row of base weights, and every sample the `degree + 1` rows of
//! coefficients that its window names, read as operands of the products. So the work does not
//! depend on the number of intervals, and no sample's bases are ever laid out.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use std::ops::Range;

use super::flush::Flush;
use super::taps;
use super::vector::Simd;
use super::weights::{self, rows_of_weights};
use super::{FORWARD_INPUTS, GROUP, ROWS};
use crate::kernels::geometry::{LayerGeometry, Weights};
use crate::kernels::path::Path;
use crate::kernels::scratch::{Taps, Workspace};

/// Taps of a spline that are added at once.
const MOST_TAPS: usize = 4;

/// Numbers of a panel: 20 KiB, which leaves room beside it for what streams past.
const PANEL: usize = 5 * 1024;

/// Outputs whose weights are packed together, rounded up to whole tiles: long enough reads of a row
/// for memory to stream, few enough for the second-level cache.
pub(crate) const PACKED: usize = 128;

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
pub(super) fn outputs<S: Products>(
    simd: S,
    job: &ForwardJob<'_>,
    y: &mut [f32],
    space: &mut Workspace,
) {
    let (in_features, out_features) = (job.geometry.in_features(), job.geometry.out_features());
    let has_base = job.weights.base.is_some();
    let Workspace { taps, packed, tile, .. } = space;
    let lines = job.x.chunks(ROWS * in_features);
    if taps.len() < lines.len() {
        taps.resize_with(lines.len(), Taps::default);
    }
    let sums = tile.grown(ROWS * S::OUTPUTS * S::LANES);
    for first in (0..in_features).step_by(FORWARD_INPUTS) {
        let inputs = first..(first + FORWARD_INPUTS).min(in_features);
        for (x, taps) in lines.clone().zip(taps.iter_mut()) {
            taps::grouped(simd, job.geometry, has_base, x, inputs.clone(), taps);
        }
        let taps = &taps[..lines.len()];
        let of_column = inputs.len() * rows_of_weights(job.geometry, &job.weights);
        let together = PACKED.next_multiple_of(S::OUTPUTS * S::LANES);
        for first in (0..out_features).step_by(together) {
            let columns = first..(first + together).min(out_features);
            let width = weights::width_of_tile::<S>(&columns);
            let packed = packed.grown(of_column * columns.len().next_multiple_of(S::LANES));
            let (geometry, weights) = (job.geometry, &job.weights);
            let (own, all) = (inputs.clone(), columns.clone());
            weights::pack_tiles(simd, geometry, weights, own, all, packed);
            for (line, taps) in taps.iter().enumerate() {
                let tiles = packed.chunks(of_column * width);
                for (column, packed) in columns.clone().step_by(width).zip(tiles) {
                    let mut block = Block { job, line, taps, inputs: inputs.clone(), packed, sums };
                    // Only the tiles that a path has are compiled for it.
                    let vectors = (columns.end - column).min(width).div_ceil(S::LANES);
                    if const { S::OUTPUTS == 1 } {
                        block.tile::<S, 1, 8>(simd, column, y);
                    } else if const { S::LANES > 8 } {
                        match vectors {
                            1 => block.tile::<S, 1, 8>(simd, column, y),
                            2 => block.tile::<S, 2, 8>(simd, column, y),
                            3 => block.tile::<S, 3, 4>(simd, column, y),
                            _ => block.tile::<S, 4, 4>(simd, column, y),
                        }
                    } else {
                        match vectors {
                            1 => block.tile::<S, 1, 8>(simd, column, y),
                            2 => block.tile::<S, 2, 4>(simd, column, y),
                            3 => block.tile::<S, 3, 4>(simd, column, y),
                            4 => block.tile::<S, 4, 2>(simd, column, y),
                            5 => block.tile::<S, 5, 2>(simd, column, y),
                            _ => block.tile::<S, 6, 2>(simd, column, y),
                        }
                    }
                }
            }
        }
    }
}

/// Some inputs of a line of samples, and their weights for a tile of outputs.
struct Block<'a> {
    job: &'a ForwardJob<'a>,
    line: usize,
    taps: &'a Taps,
    inputs: Range<usize>,
    /// `[inputs][rows of weights][N vectors]`.
    packed: &'a [f32],
    sums: &'a mut [f32],
}

impl Block<'_> {
    /// `N` vectors of outputs, from a column on, for `R` samples at a time.
    #[inline(always)]
    fn tile<S: Products, const N: usize, const R: usize>(
        &mut self,
        simd: S,
        column: usize,
        y: &mut [f32],
    ) {
        let ForwardJob { geometry, ref weights, x } = *self.job;
        let width = N * S::LANES;
        let of_input = rows_of_weights(geometry, weights) * width;
        let rows = x.len() / geometry.in_features();
        let rows = self.line * ROWS..rows.min((self.line + 1) * ROWS);
        let inputs_of_panel = (PANEL / of_input).max(1);
        let out_features = geometry.out_features();
        let last = self.inputs.len().div_ceil(inputs_of_panel) - 1;
        let mut flush = Flush {
            bias: self.job.weights.bias,
            is_first: self.inputs.start == 0,
            columns: column..(column + width).min(out_features),
            out_features,
            y,
        };
        for (index, weights) in self.packed.chunks(inputs_of_panel * of_input).enumerate() {
            let panel = Panel {
                geometry,
                taps: self.taps,
                inputs: self.inputs.len(),
                first_input: index * inputs_of_panel,
                weights,
                of_input,
                has_base: self.job.weights.base.is_some(),
            };
            let flush = (index == last).then_some(&mut flush);
            panel.add::<S, N, R>(simd, rows.clone(), &mut self.sums[..ROWS * width], flush);
        }
    }
}

/// The weights of some inputs, and what a line's samples see of them.
pub(super) struct Panel<'a> {
    geometry: &'a LayerGeometry,
    taps: &'a Taps,
    /// Of the taps.
    inputs: usize,
    /// The first that the weights belong to.
    first_input: usize,
    /// `[inputs][rows of weights][N vectors]`.
    weights: &'a [f32],
    /// Numbers of an input's weights.
    of_input: usize,
    has_base: bool,
}

impl Panel<'_> {
    /// Adds the panel's products to each sample's sums, which the first panel starts.
    #[inline(always)]
    fn add<S: Products, const N: usize, const R: usize>(
        &self,
        simd: S,
        rows: Range<usize>,
        sums: &mut [f32],
        mut flush: Option<&mut Flush<'_>>,
    ) {
        let spline_taps = self.geometry.grid().degree() + 1;
        for first in (0..spline_taps).step_by(MOST_TAPS) {
            let count = (spline_taps - first).min(MOST_TAPS);
            let rows = rows.clone();
            let is_last = first + count == spline_taps;
            let flush = if is_last { flush.take() } else { None };
            // The last taps take the base branch along.
            match (count, self.has_base && is_last) {
                (1, false) => simd.products::<1, false, N, R>(self, first, rows, sums, flush),
                (2, false) => simd.products::<2, false, N, R>(self, first, rows, sums, flush),
                (3, false) => simd.products::<3, false, N, R>(self, first, rows, sums, flush),
                (_, false) => simd.products::<4, false, N, R>(self, first, rows, sums, flush),
                (1, true) => simd.products::<1, true, N, R>(self, first, rows, sums, flush),
                (2, true) => simd.products::<2, true, N, R>(self, first, rows, sums, flush),
                (3, true) => simd.products::<3, true, N, R>(self, first, rows, sums, flush),
                (_, true) => simd.products::<4, true, N, R>(self, first, rows, sums, flush),
            }
        }
    }

    /// The products of `T` taps of a spline, and of the base branch behind them.
    #[inline(always)]
    pub(super) fn products<
        S: Simd,
        const T: usize,
        const BASE: bool,
        const N: usize,
        const R: usize,
    >(
        &self,
        simd: S,
        first: usize,
        rows: Range<usize>,
        sums: &mut [f32],
        mut flush: Option<&mut Flush<'_>>,
    ) {
        let (width, of_input) = (N * S::LANES, self.of_input);
        let inputs = self.weights.len() / of_input;
        let taps = self.geometry.grid().degree() + 1 + usize::from(self.has_base);
        let (first_row, rows) = (rows.start, rows.len());
        let groups = rows.div_ceil(GROUP);
        assert!(self.taps.groups.len() >= groups * self.inputs * taps * GROUP);
        assert!(self.taps.group_windows.len() >= groups * self.inputs * GROUP);
        assert!(self.first_input + inputs <= self.inputs);
        assert!(GROUP.is_multiple_of(R) && rows <= ROWS && sums.len() >= ROWS * width);
        let is_first = self.first_input == 0 && first == 0;

        for row in (0..rows).step_by(R) {
            let group = row / GROUP * self.inputs + self.first_input;
            let own = first_row + row..first_row + rows.min(row + R);
            if let Some(flush) = &flush {
                flush.prefetch(simd, own.end..own.end + R);
            }
            let places = sums.as_mut_ptr().wrapping_add(row * width);
            let place = |sample, vector| places.wrapping_add(sample * width + vector * S::LANES);
            let mut all = [[simd.zero(); N]; R];
            if !is_first {
                for (sample, sums) in all.iter_mut().enumerate() {
                    for (vector, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: each of the line's samples has `N` vectors.
                        *sum = unsafe { simd.load(place(sample, vector)) };
                    }
                }
            }
            let of_group = (group * taps + first) * GROUP + row % GROUP;
            let mut values = self.taps.groups.as_ptr().wrapping_add(of_group);
            let of_group = group * GROUP + row % GROUP;
            let mut windows = self.taps.group_windows.as_ptr().wrapping_add(of_group);
            let mut weights = self.weights.as_ptr();
            for _ in 0..inputs {
                let mut rows = [weights; R];
                for (sample, rows) in rows.iter_mut().enumerate() {
                    // SAFETY: a group has a window for every sample, also behind the last.
                    let window = unsafe { windows.wrapping_add(sample).read() } as usize;
                    *rows = simd.one_address(weights.wrapping_add((window + first) * width));
                }
                if BASE {
                    let row = weights.wrapping_add(of_input - width);
                    let mut of_samples = [simd.zero(); R];
                    for (sample, value) in of_samples.iter_mut().enumerate() {
                        let place = values.wrapping_add(T * GROUP + sample);
                        // SAFETY: the base branch has a value for every sample.
                        *value = simd.splat(unsafe { place.read() });
                    }
                    for vector in 0..N {
                        // SAFETY: the base branch has an input's last row of weights.
                        let base = unsafe { simd.load(row.wrapping_add(vector * S::LANES)) };
                        for (sums, &value) in all.iter_mut().zip(&of_samples) {
                            sums[vector] = simd.multiply_add(sums[vector], value, base);
                        }
                        simd.in_order();
                    }
                }
                for tap in 0..T {
                    for (sample, sums) in all.iter_mut().enumerate() {
                        // SAFETY: a tap has a value for every sample.
                        let value = unsafe { values.wrapping_add(tap * GROUP + sample).read() };
                        let value = simd.splat(value);
                        for (vector, sum) in sums.iter_mut().enumerate() {
                            let row = rows[sample].wrapping_add(tap * width + vector * S::LANES);
                            // SAFETY: a window is that of an interval, so that its taps are bases.
                            *sum = simd.multiply_add(*sum, value, unsafe { simd.load(row) });
                        }
                        simd.in_order();
                    }
                }
                values = values.wrapping_add(taps * GROUP);
                windows = windows.wrapping_add(GROUP);
                weights = weights.wrapping_add(of_input);
            }
            for (sample, sums) in all.iter().enumerate() {
                for (vector, &sum) in sums.iter().enumerate() {
                    // SAFETY: each of the line's samples has `N` vectors.
                    unsafe { simd.store(place(sample, vector), sum) };
                }
            }
            if let Some(flush) = &mut flush {
                flush.add::<S, N>(simd, own, &sums[row * width..]);
            }
        }
    }
}

/// A path's [`Panel::products`], each a function of its own with the path's features: all in one,
/// they take the compiler minutes.
pub(super) trait Products: Simd {
    /// Adds to the sums of some rows.
    fn products<const T: usize, const BASE: bool, const N: usize, const R: usize>(
        self,
        panel: &Panel<'_>,
        first: usize,
        rows: Range<usize>,
        sums: &mut [f32],
        flush: Option<&mut Flush<'_>>,
    );
}

/// A path's `outputs`, and its products.
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

        impl forward::Products for $kind {
            fn products<const T: usize, const BASE: bool, const N: usize, const R: usize>(
                self,
                panel: &forward::Panel<'_>,
                first: usize,
                rows: std::ops::Range<usize>,
                sums: &mut [f32],
                flush: Option<&mut Flush<'_>>,
            ) {
                $(#[$feature])*
                unsafe fn products<const T: usize, const BASE: bool, const N: usize, const R: usize>(
                    simd: $kind,
                    panel: &forward::Panel<'_>,
                    first: usize,
                    rows: std::ops::Range<usize>,
                    sums: &mut [f32],
                    flush: Option<&mut Flush<'_>>,
                ) {
                    panel.products::<$kind, T, BASE, N, R>(simd, first, rows, sums, flush);
                }
                // SAFETY: a value of the type proves that the CPU has what this path needs.
                unsafe { products::<T, BASE, N, R>(self, panel, first, rows, sums, flush) }
            }
        }
    };
}
pub(super) use entries;
