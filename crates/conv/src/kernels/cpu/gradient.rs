//! The weight gradient: lanes are output channels, a register tile is a set of taps.
//!
//! `dw[tap][channel] += Σ_pixels image[window(pixel) + tap] · g[pixel][channel]`: each pixel
//! gives one vector of the output's gradient, and each tap one number of the padded image,
//! spread over all lanes.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use super::vector::Simd;
use crate::kernels::path::Path;

/// The taps of a window over one padded image, summed over a grid of pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WeightJob<'a> {
    /// The padded image; `origin` is where the first pixel's window starts.
    pub(crate) image: &'a [f32],
    pub(crate) origin: usize,
    /// Where each run of neighbouring taps starts, from the window's start.
    pub(crate) runs: &'a [u32],
    /// Taps in a run: 3 neighbours, or 1.
    pub(crate) run_len: usize,
    /// The output's gradient, `[rows][columns][blocks][lanes]`.
    pub(crate) gradient: &'a [f32],
    /// Vectors of output channels.
    pub(crate) blocks: usize,
    /// Pixels of the grid, and how far apart their windows are in the image.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_step: usize,
    pub(crate) column_step: usize,
}

impl WeightJob<'_> {
    /// Adds to `sums`, `[runs][run_len][blocks][lanes]`.
    ///
    /// # Panics
    /// If a slice is too short for what the job says of it, or the path is not available.
    pub(crate) fn run(&self, path: Path, sums: &mut [f32]) {
        assert!(path.is_available(), "this CPU has no {path}");
        let lanes = super::lanes(path);
        assert!(self.run_len == 3 || self.run_len == 1, "runs of 3 taps or of 1");
        let furthest = self.runs.iter().fold(0, |most, &tap| most.max(tap)) as usize;
        let furthest = furthest + self.run_len - 1;
        let window =
            self.origin + (self.rows - 1) * self.row_step + (self.columns - 1) * self.column_step;
        assert!(window + furthest < self.image.len(), "windows reach over the image");
        let pixels = self.rows * self.columns;
        assert!(pixels * self.blocks * lanes <= self.gradient.len(), "the gradient is too short");
        let taps = self.runs.len() * self.run_len;
        assert!(taps * self.blocks * lanes <= sums.len(), "the sums are too short");
        match path {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the path is available, the job checked.
            Path::Avx512 => unsafe { super::avx512::weights(self, sums) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the path is available, the job checked.
            Path::Avx2 => unsafe { super::avx2::weights(self, sums) },
            // SAFETY: every CPU has it, and the job is checked.
            _ => unsafe { super::portable::weights(self, sums) },
        }
    }
}

/// `R` runs of `K` taps from the run `first` on, for `B` vectors from `block` on.
///
/// # Safety
/// [`WeightJob::run`] has checked the job and the sums, and the job has these runs and vectors.
#[inline(always)]
pub(super) unsafe fn tile<
    S: Simd,
    const B: usize,
    const K: usize,
    const R: usize,
    const STEP: usize,
>(
    simd: S,
    job: &WeightJob<'_>,
    first: usize,
    block: usize,
    sums: &mut [f32],
) {
    let step = if STEP == 0 { job.column_step } else { STEP };
    let pixel_len = job.blocks * S::LANES;
    let mut total = [[[simd.zero(); B]; K]; R];
    for row in 0..job.rows {
        let window = job.image.as_ptr().wrapping_add(job.origin + row * job.row_step);
        let mut starts = [window; R];
        for (start, &run) in starts.iter_mut().zip(&job.runs[first..first + R]) {
            *start = window.wrapping_add(run as usize);
        }
        let at = row * job.columns * pixel_len + block * S::LANES;
        let gradient = job.gradient.as_ptr().wrapping_add(at);
        for column in 0..job.columns {
            let mut factors = [simd.zero(); B];
            for (vector, factor) in factors.iter_mut().enumerate() {
                let from = gradient.wrapping_add(column * pixel_len + vector * S::LANES);
                // SAFETY: every pixel has a vector of the gradient for every block.
                *factor = unsafe { simd.load(from) };
            }
            for run in 0..R {
                for tap in 0..K {
                    let from = starts[run].wrapping_add(column * step + tap);
                    // SAFETY: the windows of all pixels lie in the image.
                    let value = simd.splat(unsafe { from.read() });
                    for vector in 0..B {
                        total[run][tap][vector] =
                            simd.multiply_add(total[run][tap][vector], value, factors[vector]);
                    }
                }
            }
        }
    }
    for (run, total) in total.iter().enumerate() {
        for (tap, total) in total.iter().enumerate() {
            for (vector, &sum) in total.iter().enumerate() {
                let tap = (first + run) * K + tap;
                let at = tap * pixel_len + (block + vector) * S::LANES;
                let to = sums.as_mut_ptr().wrapping_add(at);
                // SAFETY: every tap has a vector of sums for every block.
                let before = unsafe { simd.load(to) };
                let after = simd.add(before, sum);
                // SAFETY: as above.
                unsafe { simd.store(to, after) };
            }
        }
    }
}

/// Cuts `count` runs into tiles of the sizes there are, largest first.
pub(super) fn tiles(sizes: &[usize], count: usize, mut run: impl FnMut(usize, usize)) {
    let mut first = 0;
    for &size in sizes {
        while count - first >= size {
            run(size, first);
            first += size;
        }
    }
}

/// A path's `weights`: picks the instances for a job's runs and stride.
macro_rules! entries {
    (
        $(#[$feature:meta])* $kind:ty = $proof:expr,
        triples one [$($one3:literal)*] two [$($two3:literal)*],
        singles one [$($one1:literal)*] two [$($two1:literal)*]
    ) => {
        /// Computes a job.
        ///
        /// # Safety
        /// The CPU has what this path needs, and the job was checked for these sums.
        pub(super) unsafe fn weights(job: &WeightJob<'_>, sums: &mut [f32]) {
            let pairs = job.blocks / 2 * 2;
            for block in (0..pairs).step_by(2).chain(pairs..job.blocks) {
                let is_pair = block < pairs;
                let sizes: &[usize] = match (job.run_len, is_pair) {
                    (3, true) => &[$($two3),*],
                    (3, false) => &[$($one3),*],
                    (_, true) => &[$($two1),*],
                    (_, false) => &[$($one1),*],
                };
                gradient::tiles(sizes, job.runs.len(), |size, first| {
                    let run: Weights = match (job.run_len, is_pair, size, job.column_step) {
                        $(
                            (3, true, $two3, 1) => weight_tile::<2, 3, $two3, 1>,
                            (3, true, $two3, 2) => weight_tile::<2, 3, $two3, 2>,
                            (3, true, $two3, _) => weight_tile::<2, 3, $two3, 0>,
                        )*
                        $(
                            (3, false, $one3, 1) => weight_tile::<1, 3, $one3, 1>,
                            (3, false, $one3, 2) => weight_tile::<1, 3, $one3, 2>,
                            (3, false, $one3, _) => weight_tile::<1, 3, $one3, 0>,
                        )*
                        $(
                            (1, true, $two1, 1) => weight_tile::<2, 1, $two1, 1>,
                            (1, true, $two1, _) => weight_tile::<2, 1, $two1, 0>,
                        )*
                        $(
                            (1, false, $one1, 1) => weight_tile::<1, 1, $one1, 1>,
                            (1, false, $one1, _) => weight_tile::<1, 1, $one1, 0>,
                        )*
                        _ => unreachable!("a tile has a size that there is"),
                    };
                    // SAFETY: the caller promises the CPU and the check.
                    unsafe { run(job, first, block, sums) };
                });
            }
        }

        /// One instance of `weight_tile`.
        type Weights = unsafe fn(&WeightJob<'_>, usize, usize, &mut [f32]);

        $(#[$feature])*
        unsafe fn weight_tile<
            const B: usize,
            const K: usize,
            const R: usize,
            const STEP: usize,
        >(
            job: &WeightJob<'_>,
            first: usize,
            block: usize,
            sums: &mut [f32],
        ) {
            // SAFETY: `weights` is given checked jobs, and stays within their runs and blocks.
            unsafe { gradient::tile::<$kind, B, K, R, STEP>($proof, job, first, block, sums) };
        }
    };
}
pub(super) use entries;
