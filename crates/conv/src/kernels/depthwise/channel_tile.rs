//! Windows of depthwise convolutions: lanes are channels, pixel by pixel.
//!
//! A tap is a vector of weights times the vector of a pixel, whatever the stride: nothing is
//! broadcast, nothing is added across lanes, forward and in both gradients.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::{Isa, Simd, dispatch};

/// A grid of windows over pixels of one vector each; offsets and steps count pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid<'a> {
    /// The padded image, `[pixels][lanes]`; the first window starts at its start.
    pub(crate) image: &'a [f32],
    /// The offset of each tap from the window's start.
    pub(crate) taps: &'a [u32],
    /// The number of windows, and the distance between them in the image.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_step: usize,
    pub(crate) column_step: usize,
}

impl Grid<'_> {
    /// Checks what the inner loops assume.
    fn check(&self, isa: Isa) {
        assert!(isa.is_available(), "this CPU has no {isa}");
        assert!(self.rows > 0 && self.columns > 0, "a grid has windows");
        let furthest = self.taps.iter().fold(0, |most, &tap| most.max(tap)) as usize;
        let window = (self.rows - 1) * self.row_step + (self.columns - 1) * self.column_step;
        let read = (window + furthest + 1) * isa.lanes();
        assert!(self.taps.is_empty() || read <= self.image.len(), "windows reach over the image");
    }
}

/// Sums over windows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DepthwiseJob<'a> {
    pub(crate) grid: Grid<'a>,
    /// `[taps][lanes]`.
    pub(crate) weights: &'a [f32],
    /// The initial value of each sum: `[lanes]`.
    pub(crate) start: &'a [f32],
    /// The distance between results, in pixels.
    pub(crate) output_row: usize,
    pub(crate) output_column: usize,
}

impl DepthwiseJob<'_> {
    /// Computes the grid into `output`, which starts at the first pixel.
    ///
    /// # Panics
    /// If a slice is shorter than the job requires, or the CPU does not have `isa`.
    pub(crate) fn run(&self, isa: Isa, output: &mut [f32]) {
        self.grid.check(isa);
        let lanes = isa.lanes();
        let Grid { taps, rows, columns, .. } = self.grid;
        assert_eq!(self.weights.len(), taps.len() * lanes, "packed weights");
        assert_eq!(self.start.len(), lanes, "starts of the sums");
        let pixel = (rows - 1) * self.output_row + (columns - 1) * self.output_column;
        assert!((pixel + 1) * lanes <= output.len(), "the output is too short");
        windows(isa.vectors(), self, output);
    }
}

/// The taps of windows, summed over the grid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DepthwiseWeightJob<'a> {
    pub(crate) grid: Grid<'a>,
    /// The results' gradient, `[rows][columns][lanes]`.
    pub(crate) gradient: &'a [f32],
}

impl DepthwiseWeightJob<'_> {
    /// Adds to `sums`, `[taps][lanes]`.
    ///
    /// # Panics
    /// If a slice is shorter than the job requires, or the CPU does not have `isa`.
    pub(crate) fn run(&self, isa: Isa, sums: &mut [f32]) {
        self.grid.check(isa);
        let lanes = isa.lanes();
        let Grid { taps, rows, columns, .. } = self.grid;
        assert!(rows * columns * lanes <= self.gradient.len(), "the gradient is too short");
        assert_eq!(sums.len(), taps.len() * lanes, "sums");
        all_taps(isa.vectors(), self, sums);
    }
}

/// All windows of a job, with enough pixels of a row at a time to hide the latency of a product.
///
/// # Safety
/// [`DepthwiseJob::run`] has checked the job and the output.
#[inline(always)]
unsafe fn sums<S: Simd>(simd: S, job: &DepthwiseJob<'_>, output: &mut [f32]) {
    match job.grid.columns {
        // SAFETY: the caller promises the check; rows have these pixels.
        8.. => unsafe { rows::<S, 8>(simd, job, output) },
        // SAFETY: see above.
        4..8 => unsafe { rows::<S, 4>(simd, job, output) },
        // SAFETY: see above.
        _ => unsafe { rows::<S, 1>(simd, job, output) },
    }
}

/// All rows, `Q` pixels at a time; the last overlap the ones before, so that no vector is partial.
///
/// # Safety
/// [`DepthwiseJob::run`] has checked the job and the output; rows have at least `Q` pixels.
#[inline(always)]
unsafe fn rows<S: Simd, const Q: usize>(simd: S, job: &DepthwiseJob<'_>, output: &mut [f32]) {
    let grid = job.grid;
    let (image, weights) = (grid.image.as_ptr(), job.weights.as_ptr());
    let step = grid.column_step * S::LANES;
    // SAFETY: there is a vector of starts.
    let start = unsafe { simd.load(job.start.as_ptr()) };
    for row in 0..grid.rows {
        for tile in 0..grid.columns.div_ceil(Q) {
            let column = (tile * Q).min(grid.columns - Q);
            let window = (row * grid.row_step + column * grid.column_step) * S::LANES;
            let window = image.wrapping_add(window);
            let mut sums = [start; Q];
            for (index, &tap) in grid.taps.iter().enumerate() {
                // SAFETY: every tap has a vector of weights.
                let weight = unsafe { simd.load(weights.wrapping_add(index * S::LANES)) };
                let from = window.wrapping_add(tap as usize * S::LANES);
                for (pixel, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the windows of all pixels lie in the image.
                    let value = unsafe { simd.load(from.wrapping_add(pixel * step)) };
                    *sum = simd.multiply_add(*sum, weight, value);
                }
            }
            let first = row * job.output_row + column * job.output_column;
            for (pixel, sum) in sums.into_iter().enumerate() {
                let at = (first + pixel * job.output_column) * S::LANES;
                // SAFETY: the pixel lies in the output.
                unsafe { simd.store(output.as_mut_ptr().wrapping_add(at), sum) };
            }
        }
    }
}

/// Taps whose sums stay in registers: a window of three by three.
const TAPS: usize = 9;

/// All taps of a job.
///
/// # Safety
/// [`DepthwiseWeightJob::run`] has checked the job and the sums.
#[inline(always)]
unsafe fn weights<S: Simd>(simd: S, job: &DepthwiseWeightJob<'_>, sums: &mut [f32]) {
    let whole = job.grid.taps.len() / TAPS * TAPS;
    for first in (0..whole).step_by(TAPS) {
        // SAFETY: the caller promises the check; the job has these taps.
        unsafe { some::<S, TAPS>(simd, job, first, sums) };
    }
    for first in whole..job.grid.taps.len() {
        // SAFETY: see above.
        unsafe { some::<S, 1>(simd, job, first, sums) };
    }
}

/// The sums of `T` taps from `first` on; a job's are added to the total when they are complete, so
/// that no chain of additions is longer than one sample's pixels.
///
/// # Safety
/// [`DepthwiseWeightJob::run`] has checked the job and the sums; the job has the taps.
#[inline(always)]
unsafe fn some<S: Simd, const T: usize>(
    simd: S,
    job: &DepthwiseWeightJob<'_>,
    first: usize,
    sums: &mut [f32],
) {
    let grid = job.grid;
    let kept = sums.as_mut_ptr().wrapping_add(first * S::LANES);
    let mut sums = [simd.zero(); T];
    let mut taps = [0; T];
    for index in 0..T {
        taps[index] = grid.taps[first + index] as usize * S::LANES;
    }
    for row in 0..grid.rows {
        for column in 0..grid.columns {
            let at = (row * grid.columns + column) * S::LANES;
            // SAFETY: every pixel has its gradient.
            let gradient = unsafe { simd.load(job.gradient.as_ptr().wrapping_add(at)) };
            let window = (row * grid.row_step + column * grid.column_step) * S::LANES;
            let window = grid.image.as_ptr().wrapping_add(window);
            for (sum, tap) in sums.iter_mut().zip(taps) {
                // SAFETY: the windows of all pixels lie in the image.
                let value = unsafe { simd.load(window.wrapping_add(tap)) };
                *sum = simd.multiply_add(*sum, gradient, value);
            }
        }
    }
    for (index, sum) in sums.into_iter().enumerate() {
        let kept = kept.wrapping_add(index * S::LANES);
        // SAFETY: every tap has a vector of sums.
        let before = unsafe { simd.load(kept) };
        // SAFETY: see above.
        unsafe { simd.store(kept, simd.add(before, sum)) };
    }
}

dispatch! {
    /// All windows of a job that was checked.
    fn windows(simd, job: &DepthwiseJob<'_>, output: &mut [f32]) {
        // SAFETY: `DepthwiseJob::run` has checked the job and the output.
        unsafe { sums(simd, job, output) };
    }

    /// All taps of a job that was checked.
    fn all_taps(simd, job: &DepthwiseWeightJob<'_>, kept: &mut [f32]) {
        // SAFETY: `DepthwiseWeightJob::run` has checked the job and the sums.
        unsafe { weights(simd, job, kept) };
    }
}
