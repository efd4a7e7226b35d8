//! A layer's gradients: for every run of samples in one interval, the sums of the weights'
//! gradients stay in registers, and the weights are operands from the fastest cache.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use std::ops::Range;

use super::taps::{self, Wanted};
use super::vector::Simd;
use super::weights::{self, rows_of_weights};
use super::{INPUTS, LINES, PITCH, ROWS};
use crate::kernels::geometry::{LayerGeometry, Weights};
use crate::kernels::path::Path;
use crate::kernels::scratch::{Aligned, Taps, Workspace};

/// Rows of weights whose sums registers hold at once.
const MOST_TAPS: usize = 5;

/// The gradients of some inputs over some samples.
#[derive(Debug, Clone)]
pub(crate) struct GradientJob<'a> {
    pub(crate) geometry: &'a LayerGeometry,
    pub(crate) weights: Weights<'a>,
    /// `[rows, in_features]`.
    pub(crate) x: &'a [f32],
    /// What [`pack`](super::pack) made of the outputs' gradients of these rows.
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
    let wanted = Wanted { base: job.weights.base.is_some(), slopes: dx.is_some() };
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
            taps::ordered(simd, job.geometry, wanted, x, job.inputs.clone(), taps);
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
                    let group = Group {
                        order,
                        dy,
                        window: run.window as usize,
                        spline_taps,
                        values: &taps.values[lines.clone()],
                        slopes: taps.slopes.get(lines.clone()).unwrap_or_default(),
                        packed: packed.get(weights.clone()).unwrap_or_default(),
                        width: of_input,
                    };
                    let sums = sums.as_mut().map(|sums| &mut sums[weights.clone()]);
                    match (sums, inner.is_some()) {
                        (Some(sums), true) => {
                            group.all::<S, N, true, true>(simd, taps_count, sums, self.partial);
                        }
                        (Some(sums), false) => {
                            group.all::<S, N, true, false>(simd, taps_count, sums, &mut []);
                        }
                        (None, _) => {
                            group.all::<S, N, false, true>(simd, taps_count, &mut [], self.partial);
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

/// One input, for the samples of a run.
struct Group<'a> {
    order: &'a [u32],
    /// `[rows][N vectors]`.
    dy: &'a [f32],
    window: usize,
    spline_taps: usize,
    /// `[taps][PITCH]`.
    values: &'a [f32],
    /// The same; empty where no slopes are wanted.
    slopes: &'a [f32],
    /// `[rows of weights][N vectors]`; empty where no slopes are wanted.
    packed: &'a [f32],
    /// Numbers of the input's weights.
    width: usize,
}

impl Group<'_> {
    /// All taps, as many at a time as registers hold sums of.
    #[inline(always)]
    fn all<S: Simd, const N: usize, const SUMS: bool, const INNER: bool>(
        &self,
        simd: S,
        taps: usize,
        sums: &mut [f32],
        partial: &mut [f32],
    ) {
        for first in (0..taps).step_by(MOST_TAPS) {
            match (taps - first).min(MOST_TAPS) {
                1 => self.taps::<S, 1, N, SUMS, INNER>(simd, first, sums, partial),
                2 => self.taps::<S, 2, N, SUMS, INNER>(simd, first, sums, partial),
                3 => self.taps::<S, 3, N, SUMS, INNER>(simd, first, sums, partial),
                4 => self.taps::<S, 4, N, SUMS, INNER>(simd, first, sums, partial),
                _ => self.taps::<S, 5, N, SUMS, INNER>(simd, first, sums, partial),
            }
        }
    }

    /// `T` taps: with `SUMS`, adds `Σ value·dy` over the samples to their rows of `sums`; with
    /// `INNER`, writes a vector a sample whose lanes sum up to `Σ_tap slope·(weights·dy)`, to
    /// which taps after the first ones add.
    #[inline(always)]
    fn taps<S: Simd, const T: usize, const N: usize, const SUMS: bool, const INNER: bool>(
        &self,
        simd: S,
        first: usize,
        to: &mut [f32],
        partial: &mut [f32],
    ) {
        let tile = N * S::LANES;
        let mut places = [0; T];
        for (tap, place) in places.iter_mut().enumerate() {
            let tap = first + tap;
            let is_spline = tap < self.spline_taps;
            *place = if is_spline { (self.window + tap) * tile } else { self.width - tile };
            assert!(*place + tile <= self.width);
        }
        let values = self.values[first * PITCH..][..T * PITCH].as_ptr();
        let (mut slopes, mut weights) = (values, [values; T]);
        if INNER {
            slopes = self.slopes[first * PITCH..][..T * PITCH].as_ptr();
            let packed = self.packed[..self.width].as_ptr();
            weights = places.map(|place| simd.one_address(packed.wrapping_add(place)));
            assert!(partial.len() >= PITCH * S::LANES);
        }
        if SUMS {
            assert!(to.len() >= self.width);
            for place in places {
                for vector in 0..N {
                    simd.prefetch(to.as_ptr().wrapping_add(place + vector * S::LANES));
                }
            }
        }
        let partial = partial.as_mut_ptr();
        let mut sums = [[simd.zero(); N]; T];
        for &row in self.order {
            let row = row as usize;
            let place = self.dy.as_ptr().wrapping_add(row * tile);
            let mut dy = [simd.zero(); N];
            for (vector, dy) in dy.iter_mut().enumerate() {
                // SAFETY: the order holds numbers of samples, and each has `N` vectors.
                *dy = unsafe { simd.load(place.wrapping_add(vector * S::LANES)) };
            }
            if SUMS {
                for (tap, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: each tap has a value for every sample.
                    let value = unsafe { values.wrapping_add(tap * PITCH + row).read() };
                    let value = simd.splat(value);
                    for vector in 0..N {
                        sums[vector] = simd.multiply_add(sums[vector], value, dy[vector]);
                    }
                }
            }
            if INNER {
                // The slope of every output in this sample.
                let mut along = [simd.zero(); N];
                for (tap, weights) in weights.iter().enumerate() {
                    // SAFETY: each tap has a slope for every sample.
                    let slope = unsafe { slopes.wrapping_add(tap * PITCH + row).read() };
                    let slope = simd.splat(slope);
                    for (vector, along) in along.iter_mut().enumerate() {
                        // SAFETY: each row of weights has `N` vectors.
                        let weight = unsafe { simd.load(weights.wrapping_add(vector * S::LANES)) };
                        *along = match tap {
                            0 => simd.multiply(slope, weight),
                            _ => simd.multiply_add(*along, slope, weight),
                        };
                    }
                }
                let place = partial.wrapping_add(row * S::LANES);
                let mut sum = simd.multiply(along[0], dy[0]);
                for vector in 1..N {
                    sum = simd.multiply_add(sum, along[vector], dy[vector]);
                }
                if first > 0 {
                    // SAFETY: each sample has a vector.
                    sum = simd.add(sum, unsafe { simd.load(place) });
                }
                // SAFETY: as above.
                unsafe { simd.store(place, sum) };
            }
        }
        if SUMS {
            for (place, sums) in places.into_iter().zip(&sums) {
                let to = &mut to[place..place + tile];
                for (to, &sum) in to.chunks_exact_mut(S::LANES).zip(sums) {
                    simd.write(to, simd.add(simd.read(to), sum));
                }
            }
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
