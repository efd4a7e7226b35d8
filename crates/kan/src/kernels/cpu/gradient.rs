//! A layer's gradients: for every run of samples in one interval, the weights or their gradients
//! stay in registers.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use std::ops::Range;

use super::taps::{self, Wanted};
use super::vector::Simd;
use super::weights::{self, rows_of_weights};
use super::{INPUTS, LINES, PITCH, ROWS};
use crate::kernels::geometry::{LayerGeometry, Weights};
use crate::kernels::path::Path;
use crate::kernels::scratch::{Aligned, Taps, Workspace};

/// Rows of weights that registers hold at once.
const MOST_TAPS: usize = 5;

/// The gradients of some inputs over some samples.
#[derive(Debug, Clone)]
pub(crate) struct GradientJob<'a> {
    pub(crate) geometry: &'a LayerGeometry,
    pub(crate) weights: Weights<'a>,
    /// `[rows, in_features]`.
    pub(crate) x: &'a [f32],
    /// What [`pack`] made of the outputs' gradients of these rows.
    pub(crate) dy: &'a [f32],
    /// At most [`INPUTS`].
    pub(crate) inputs: Range<usize>,
}

impl GradientJob<'_> {
    /// Computes the sums that the parameters' gradients are made of, `[tiles, inputs, rows of
    /// weights, outputs of the tile]`, and the gradients of these inputs, `[rows, inputs]`.
    ///
    /// The geometry has checked the weights.
    ///
    /// # Panics
    /// If a slice does not fit, or the path is not available.
    pub(crate) fn run(
        &self,
        path: Path,
        sums: Option<&mut [f32]>,
        dx: Option<&mut [f32]>,
        space: &mut Workspace,
    ) {
        assert!(path.is_available(), "this CPU has no {path}");
        let rows = self.x.len() / self.geometry.in_features();
        let width = self.geometry.out_features().next_multiple_of(super::lanes(path));
        assert_eq!(self.dy.len(), rows * width, "gradients of the outputs");
        assert!(self.inputs.len() <= INPUTS, "inputs of a block");
        if let Some(sums) = &sums {
            let expected = self.inputs.len() * rows_of_weights(self.geometry, &self.weights);
            assert_eq!(sums.len(), expected * width, "sums");
        }
        if let Some(dx) = &dx {
            assert_eq!(dx.len(), rows * self.inputs.len(), "gradients of the inputs");
        }
        match path {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the path is available.
            Path::Avx512 => unsafe { super::avx512::gradients(self, sums, dx, space) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the path is available.
            Path::Avx2 => unsafe { super::avx2::gradients(self, sums, dx, space) },
            // SAFETY: every CPU has it.
            _ => unsafe { super::portable::gradients(self, sums, dx, space) },
        }
    }
}

/// Copies `dy`, `[rows, out_features]`, tile by tile, with zeros up to whole vectors.
///
/// Each line of [`ROWS`] samples becomes `[tiles][samples][outputs of the tile]`.
pub(crate) fn pack(path: Path, dy: &[f32], out_features: usize, to: &mut [f32]) {
    let lanes = super::lanes(path);
    let (width, tile) = (out_features.next_multiple_of(lanes), super::tile(path));
    let blocks = dy.chunks(ROWS * out_features).zip(to.chunks_mut(ROWS * width));
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

/// All gradients of a job.
#[inline(always)]
pub(super) fn gradients<S: Simd>(
    simd: S,
    job: &GradientJob<'_>,
    mut sums: Option<&mut [f32]>,
    mut dx: Option<&mut [f32]>,
    space: &mut Workspace,
) {
    let in_features = job.geometry.in_features();
    let width = job.geometry.out_features().next_multiple_of(S::LANES);
    let wanted = Wanted { base: job.weights.base.is_some(), slopes: dx.is_some(), order: true };
    if let Some(sums) = &mut sums {
        sums.fill(0.0);
    }
    let Workspace { taps, packed, tile, .. } = space;
    if taps.len() < LINES {
        taps.resize_with(LINES, Taps::default);
    }
    // One vector a sample of a line, and one number for each sample and input.
    let (partial, inner) =
        tile.grown(PITCH * (S::LANES + LINES * INPUTS)).split_at_mut(PITCH * S::LANES);
    let rows = LINES * ROWS;
    let groups = job.x.chunks(rows * in_features).zip(job.dy.chunks(rows * width));
    for (group, (x, dy)) in groups.enumerate() {
        let lines = x.chunks(ROWS * in_features);
        let taps = &mut taps[..lines.len()];
        for (x, taps) in lines.zip(taps.iter_mut()) {
            taps::prepare(simd, job.geometry, wanted, x, job.inputs.clone(), taps);
        }
        inner.fill(0.0);
        let rows = x.len() / in_features;
        let mut block = Block { job, taps, rows, width, packed, partial };
        for column in (0..width).step_by(S::TILE * S::LANES) {
            let vectors = ((width - column) / S::LANES).min(S::TILE);
            let sums = sums.as_deref_mut();
            let inner = dx.is_some().then_some(&mut *inner);
            match vectors {
                1 => block.tile::<S, 1>(simd, column, dy, sums, inner),
                2 => block.tile::<S, 2>(simd, column, dy, sums, inner),
                3 => block.tile::<S, 3>(simd, column, dy, sums, inner),
                _ => block.tile::<S, 4>(simd, column, dy, sums, inner),
            }
        }
        if let Some(dx) = &mut dx {
            let inputs = job.inputs.len();
            let dx = &mut dx[group * LINES * ROWS * inputs..][..rows * inputs];
            let lines = dx.chunks_mut(ROWS * inputs).zip(inner.chunks_exact(INPUTS * PITCH));
            for (dx, inner) in lines {
                for (input, inner) in inner.chunks_exact(PITCH).take(inputs).enumerate() {
                    for (dx, value) in dx.chunks_exact_mut(inputs).zip(inner) {
                        dx[input] = *value;
                    }
                }
            }
        }
        if let Some(sums) = &mut sums {
            spread_nan(job, taps, S::TILE * S::LANES, width, sums);
        }
    }
}

/// A sample that is NaN belongs to no interval: it makes all coefficients' gradients NaN.
fn spread_nan(job: &GradientJob<'_>, taps: &[Taps], tile: usize, width: usize, sums: &mut [f32]) {
    let (inputs, bases) = (job.inputs.len(), job.geometry.grid().bases());
    let rows = rows_of_weights(job.geometry, &job.weights);
    for input in (0..inputs).filter(|&input| taps.iter().any(|taps| taps.has_nan[input])) {
        for column in (0..width).step_by(tile) {
            let tile = tile.min(width - column);
            let place = (column * inputs + input * tile) * rows;
            sums[place..place + bases * tile].fill(f32::NAN);
        }
    }
}

/// Some samples of a job.
struct Block<'a> {
    job: &'a GradientJob<'a>,
    /// Of each line.
    taps: &'a [Taps],
    rows: usize,
    width: usize,
    packed: &'a mut Aligned,
    partial: &'a mut [f32],
}

impl Block<'_> {
    /// `N` vectors of outputs, from a column on.
    #[inline(always)]
    fn tile<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        column: usize,
        dy: &[f32],
        sums: Option<&mut [f32]>,
        inner: Option<&mut [f32]>,
    ) {
        let GradientJob { geometry, ref weights, ref inputs, .. } = *self.job;
        let tile = N * S::LANES;
        let of_input = rows_of_weights(geometry, weights) * tile;
        let of_tile = inputs.len() * of_input;
        let mut sums = sums.map(|sums| {
            &mut sums[column * inputs.len() * rows_of_weights(geometry, weights)..][..of_tile]
        });
        let packed = self.packed.grown(of_tile);
        let mut inner = inner;
        if inner.is_some() {
            weights::pack::<S, N>(simd, geometry, weights, inputs.clone(), column, packed);
        }
        let taps_count = geometry.taps(weights);
        let spline_taps = geometry.grid().degree() + 1;
        for (line, taps) in self.taps.iter().enumerate() {
            let rows = ROWS.min(self.rows - line * ROWS);
            let dy = &dy[line * ROWS * self.width + column * rows..][..rows * tile];
            let mut first_run = 0;
            for index in 0..inputs.len() {
                let lines = index * taps_count * PITCH..(index + 1) * taps_count * PITCH;
                let weights = index * of_input..(index + 1) * of_input;
                let order = &taps.order[index * PITCH..][..rows];
                for run in &taps.runs[first_run..taps.run_ends[index]] {
                    let order = &order[run.start as usize..run.end as usize];
                    for first in (0..taps_count).step_by(MOST_TAPS) {
                        let count = (taps_count - first).min(MOST_TAPS);
                        let group =
                            Group { order, dy, window: run.window as usize, first, spline_taps };
                        if let Some(sums) = &mut sums {
                            let sums = &mut sums[weights.clone()];
                            let values = &taps.values[lines.clone()];
                            match count {
                                1 => group.accumulate::<S, 1, N>(simd, values, sums),
                                2 => group.accumulate::<S, 2, N>(simd, values, sums),
                                3 => group.accumulate::<S, 3, N>(simd, values, sums),
                                4 => group.accumulate::<S, 4, N>(simd, values, sums),
                                _ => group.accumulate::<S, 5, N>(simd, values, sums),
                            }
                        }
                        if inner.is_some() {
                            let packed = &packed[weights.clone()];
                            let (slopes, partial) =
                                (&taps.slopes[lines.clone()], &mut *self.partial);
                            match count {
                                1 => group.project::<S, 1, N>(simd, slopes, packed, partial),
                                2 => group.project::<S, 2, N>(simd, slopes, packed, partial),
                                3 => group.project::<S, 3, N>(simd, slopes, packed, partial),
                                4 => group.project::<S, 4, N>(simd, slopes, packed, partial),
                                _ => group.project::<S, 5, N>(simd, slopes, packed, partial),
                            }
                        }
                    }
                }
                first_run = taps.run_ends[index];
                if let Some(inner) = &mut inner {
                    let place = (line * INPUTS + index) * PITCH;
                    let inner = &mut inner[place..place + rows.next_multiple_of(S::LANES)];
                    add_sums(simd, self.partial, inner);
                }
            }
        }
    }
}

/// Adds to each number the sum over the lanes of its vector.
#[inline(always)]
fn add_sums<S: Simd>(simd: S, vectors: &[f32], to: &mut [f32]) {
    let squares = vectors.chunks_exact(S::LANES * S::LANES).zip(to.chunks_exact_mut(S::LANES));
    for (vectors, to) in squares {
        // SAFETY: the chunk holds that many vectors.
        let sums = unsafe { simd.sums(vectors.as_ptr()) };
        simd.write(to, simd.add(simd.read(to), sums));
    }
}

/// Some taps of one input, for the samples of a run.
struct Group<'a> {
    order: &'a [u32],
    /// `[rows][N vectors]`.
    dy: &'a [f32],
    window: usize,
    first: usize,
    spline_taps: usize,
}

impl Group<'_> {
    /// Reads a sample's outputs' gradients.
    #[inline(always)]
    fn read<S: Simd, const N: usize>(&self, simd: S, row: usize) -> [S::Vector; N] {
        let place = self.dy.as_ptr().wrapping_add(row * N * S::LANES);
        let mut dy = [simd.zero(); N];
        for (vector, dy) in dy.iter_mut().enumerate() {
            // SAFETY: the order holds numbers of samples, and each has `N` vectors.
            *dy = unsafe { simd.load(place.wrapping_add(vector * S::LANES)) };
        }
        dy
    }

    /// Adds `Σ value·dy` over the samples to `T` rows of an input's sums.
    #[inline(always)]
    fn accumulate<S: Simd, const T: usize, const N: usize>(
        &self,
        simd: S,
        values: &[f32],
        to: &mut [f32],
    ) {
        let values = values[self.first * PITCH..][..T * PITCH].as_ptr();
        let mut sums = [[simd.zero(); N]; T];
        for &row in self.order {
            let row = row as usize;
            let dy = self.read::<S, N>(simd, row);
            for (tap, sums) in sums.iter_mut().enumerate() {
                // SAFETY: each tap has a value for every sample.
                let value = unsafe { values.wrapping_add(tap * PITCH + row).read() };
                let value = simd.splat(value);
                for vector in 0..N {
                    sums[vector] = simd.multiply_add(sums[vector], value, dy[vector]);
                }
            }
        }
        let tile = N * S::LANES;
        for (tap, sums) in sums.iter().enumerate() {
            let tap = self.first + tap;
            let is_spline = tap < self.spline_taps;
            let place = if is_spline { (self.window + tap) * tile } else { to.len() - tile };
            let to = &mut to[place..place + tile];
            for (to, &sum) in to.chunks_exact_mut(S::LANES).zip(sums) {
                simd.write(to, simd.add(simd.read(to), sum));
            }
        }
    }

    /// Writes a vector a sample whose lanes sum up to `Σ_tap slope·(weights·dy)`; groups of taps
    /// after the first add to it.
    #[inline(always)]
    fn project<S: Simd, const T: usize, const N: usize>(
        &self,
        simd: S,
        slopes: &[f32],
        packed: &[f32],
        partial: &mut [f32],
    ) {
        let Self { first, window, spline_taps, .. } = *self;
        let weights = weights::load::<S, T, N>(simd, packed, window, first, spline_taps);
        let slopes = slopes[first * PITCH..][..T * PITCH].as_ptr();
        let partial = partial[..PITCH * S::LANES].as_mut_ptr();
        for &row in self.order {
            let row = row as usize;
            let dy = self.read::<S, N>(simd, row);
            let place = partial.wrapping_add(row * S::LANES);
            // Two chains of sums, which the processor runs side by side.
            let mut sums = [simd.zero(); 2];
            if first > 0 {
                // SAFETY: each sample has a vector.
                sums[1] = unsafe { simd.load(place) };
            }
            for (tap, weights) in weights.iter().enumerate() {
                // SAFETY: each tap has a slope for every sample.
                let slope = unsafe { slopes.wrapping_add(tap * PITCH + row).read() };
                let mut product = simd.multiply(dy[0], weights[0]);
                for vector in 1..N {
                    product = simd.multiply_add(product, dy[vector], weights[vector]);
                }
                sums[tap % 2] = simd.multiply_add(sums[tap % 2], simd.splat(slope), product);
            }
            // SAFETY: as above.
            unsafe { simd.store(place, simd.add(sums[0], sums[1])) };
        }
    }
}

/// A path's `gradients`.
macro_rules! entries {
    ($(#[$feature:meta])* $kind:ty = $proof:expr) => {
        /// Computes a job.
        ///
        /// # Safety
        /// The CPU has what this path needs.
        $(#[$feature])*
        pub(super) unsafe fn gradients(
            job: &GradientJob<'_>,
            sums: Option<&mut [f32]>,
            dx: Option<&mut [f32]>,
            space: &mut Workspace,
        ) {
            gradient::gradients::<$kind>($proof, job, sums, dx, space);
        }
    };
}
pub(super) use entries;
