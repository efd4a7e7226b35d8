//! The weight gradient: lanes are output channels, a register tile is a set of taps.
//!
//! `dw[tap][channel] += Σ_pixels image[window(pixel) + tap] · g[pixel][channel]`: each pixel
//! gives one vector of the output's gradient, and each tap one number of the padded image,
//! spread over all lanes.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::{Isa, Kernel, Simd, Vectors};

/// The taps of a window over one padded image, summed over a grid of pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WeightJob<'a> {
    /// The padded image; `origin` is where the first pixel's window starts.
    pub(crate) image: &'a [f32],
    pub(crate) origin: usize,
    /// The offset of each run of neighboring taps from the window's start.
    pub(crate) runs: &'a [u32],
    /// Taps in a run: 3 neighbours, or 1.
    pub(crate) run_len: usize,
    /// The output's gradient, `[rows][columns][blocks][lanes]`.
    pub(crate) gradient: &'a [f32],
    /// Vectors of output channels.
    pub(crate) blocks: usize,
    /// Pixels of the grid, and the distance between their windows in the image.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_step: usize,
    pub(crate) column_step: usize,
}

/// Computes a job that was checked, by tiles of so many runs: picks the instances for its runs,
/// blocks and stride.
macro_rules! run {
    (
        $simd:ident, $job:ident, $sums:ident,
        triples one [$($one3:literal)*] two [$($two3:literal)*],
        singles one [$($one1:literal)*] two [$($two1:literal)*]
    ) => {{
        let pairs = $job.blocks / 2 * 2;
        for block in (0..pairs).step_by(2).chain(pairs..$job.blocks) {
            let is_pair = block < pairs;
            let sizes: &[usize] = match ($job.run_len, is_pair) {
                (3, true) => &[$($two3),*],
                (3, false) => &[$($one3),*],
                (_, true) => &[$($two1),*],
                (_, false) => &[$($one1),*],
            };
            tiles(sizes, $job.runs.len(), |size, first| {
                let (job, sums) = ($job, &mut *$sums);
                match (job.run_len, is_pair, size, job.column_step) {
                    $(
                        (3, true, $two3, 1) => $simd.vectorize(Tile::<2, 3, $two3, 1> { job, first, block, sums }),
                        (3, true, $two3, 2) => $simd.vectorize(Tile::<2, 3, $two3, 2> { job, first, block, sums }),
                        (3, true, $two3, _) => $simd.vectorize(Tile::<2, 3, $two3, 0> { job, first, block, sums }),
                    )*
                    $(
                        (3, false, $one3, 1) => $simd.vectorize(Tile::<1, 3, $one3, 1> { job, first, block, sums }),
                        (3, false, $one3, 2) => $simd.vectorize(Tile::<1, 3, $one3, 2> { job, first, block, sums }),
                        (3, false, $one3, _) => $simd.vectorize(Tile::<1, 3, $one3, 0> { job, first, block, sums }),
                    )*
                    $(
                        (1, true, $two1, 1) => $simd.vectorize(Tile::<2, 1, $two1, 1> { job, first, block, sums }),
                        (1, true, $two1, _) => $simd.vectorize(Tile::<2, 1, $two1, 0> { job, first, block, sums }),
                    )*
                    $(
                        (1, false, $one1, 1) => $simd.vectorize(Tile::<1, 1, $one1, 1> { job, first, block, sums }),
                        (1, false, $one1, _) => $simd.vectorize(Tile::<1, 1, $one1, 0> { job, first, block, sums }),
                    )*
                    _ => unreachable!("a tile has a size that there is"),
                }
            });
        }
    }};
}

impl WeightJob<'_> {
    /// Adds to `sums`, `[runs][run_len][blocks][lanes]`.
    ///
    /// # Panics
    /// If a slice is shorter than the job requires, or the CPU does not have `isa`.
    pub(crate) fn run(&self, isa: Isa, sums: &mut [f32]) {
        assert!(isa.is_available(), "this CPU has no {isa}");
        let lanes = isa.lanes();
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
        match isa.vectors() {
            Vectors::Portable(simd) => run!(
                simd, self, sums,
                triples one [2 1] two [1],
                singles one [4 2 1] two [4 2 1]
            ),
            #[cfg(target_arch = "aarch64")]
            Vectors::Neon(simd) => run!(
                simd, self, sums,
                triples one [4 2 1] two [2 1],
                singles one [12 8 4 2 1] two [6 4 2 1]
            ),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2(simd) => run!(
                simd, self, sums,
                triples one [4 2 1] two [2 1],
                singles one [12 8 4 2 1] two [6 4 2 1]
            ),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512(simd) => run!(
                simd, self, sums,
                triples one [8 4 2 1] two [4 2 1],
                singles one [12 8 4 2 1] two [12 8 4 2 1]
            ),
        }
    }
}

/// `R` runs of `K` taps from the run `first` on, for `B` vectors from `block` on.
///
/// # Safety
/// [`WeightJob::run`] has checked the job and the sums, and the job has these runs and vectors.
#[inline(always)]
unsafe fn tile<S: Simd, const B: usize, const K: usize, const R: usize, const STEP: usize>(
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

/// Divides `count` runs into tiles of the available sizes, largest first.
fn tiles(sizes: &[usize], count: usize, mut run: impl FnMut(usize, usize)) {
    let mut first = 0;
    for &size in sizes {
        while count - first >= size {
            run(size, first);
            first += size;
        }
    }
}

/// A tile of a job that was checked, which has these runs and blocks.
struct Tile<'a, const B: usize, const K: usize, const R: usize, const STEP: usize> {
    job: &'a WeightJob<'a>,
    first: usize,
    block: usize,
    sums: &'a mut [f32],
}

impl<const B: usize, const K: usize, const R: usize, const STEP: usize> Kernel
    for Tile<'_, B, K, R, STEP>
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { job, first, block, sums } = self;
        // SAFETY: `WeightJob::run` has checked the job, and stays within its runs and blocks.
        unsafe { tile::<S, B, K, R, STEP>(simd, job, first, block, sums) };
    }
}
