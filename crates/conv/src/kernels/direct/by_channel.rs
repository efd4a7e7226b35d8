//! Sums over windows: lanes are output channels, a register tile is a row of pixels.
//!
//! Forward convolution and input gradient are both such sums. Each tap of the window is one
//! number of the padded image, broadcast to all lanes, times one vector of packed weights; the
//! sums of a tile of pixels stay in registers until all taps are added.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use std::ops::Range;

use updraft_simd::{Isa, Kernel, Simd, Vectors};

/// A sum over windows of one padded image, for a grid of pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TileJob<'a> {
    /// The padded image; `origin` is where the first pixel's window starts.
    pub(crate) image: &'a [f32],
    pub(crate) origin: usize,
    /// The offset of each tap from the window's start.
    pub(crate) taps: &'a [u32],
    /// `[blocks][taps][lanes]`.
    pub(crate) weights: &'a [f32],
    /// The initial value of each sum: `[blocks][lanes]`.
    pub(crate) start: &'a [f32],
    /// Vectors of output channels.
    pub(crate) blocks: usize,
    /// Pixels of the grid, and the distance between their windows in the image.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_step: usize,
    pub(crate) column_step: usize,
    /// The distance between pixels in the output; a pixel has all blocks.
    pub(crate) output_row: usize,
    pub(crate) output_column: usize,
}

/// Computes a job that was checked, by tiles of so many pixels of one vector and of two: picks the
/// instances for its width and stride.
macro_rules! run {
    ($simd:ident, $job:ident, $output:ident, one [$($one:literal)*], two [$($two:literal)*]) => {
        let pairs = $job.blocks / 2 * 2;
        if pairs > 0 {
            let (blocks, output) = (0..pairs, &mut *$output);
            match (pixels(&[$($two),*], 2, $job), $job.column_step) {
                $(
                    ($two, 1) => $simd.vectorize(Rows::<2, $two, 1> { job: $job, blocks, output }),
                    ($two, 2) => $simd.vectorize(Rows::<2, $two, 2> { job: $job, blocks, output }),
                    ($two, _) => $simd.vectorize(Rows::<2, $two, 0> { job: $job, blocks, output }),
                )*
                _ => unreachable!("a tile has a size that there is"),
            }
        }
        if pairs < $job.blocks {
            let (blocks, output) = (pairs..$job.blocks, &mut *$output);
            match (pixels(&[$($one),*], 1, $job), $job.column_step) {
                $(
                    ($one, 1) => $simd.vectorize(Rows::<1, $one, 1> { job: $job, blocks, output }),
                    ($one, 2) => $simd.vectorize(Rows::<1, $one, 2> { job: $job, blocks, output }),
                    ($one, _) => $simd.vectorize(Rows::<1, $one, 0> { job: $job, blocks, output }),
                )*
                _ => unreachable!("a tile has a size that there is"),
            }
        }
    };
}

impl TileJob<'_> {
    /// Computes the grid into `output`, which starts at the first pixel.
    ///
    /// # Panics
    /// If a slice is shorter than the job requires, or the CPU does not have `isa`.
    pub(crate) fn run(&self, isa: Isa, output: &mut [f32]) {
        assert!(isa.is_available(), "this CPU has no {isa}");
        if self.rows == 0 || self.columns == 0 {
            return;
        }
        self.check(isa.lanes(), output);
        match isa.vectors() {
            Vectors::Portable(simd) => {
                run!(simd, self, output, one [8 7 6 5 4 3 2 1], two [4 3 2 1]);
            }
            #[cfg(target_arch = "aarch64")]
            Vectors::Neon(simd) => {
                run!(simd, self, output, one [12 10 8 7 6 5 4 3 2 1], two [6 5 4 3 2 1]);
            }
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2(simd) => {
                run!(simd, self, output, one [12 10 8 7 6 5 4 3 2 1], two [6 5 4 3 2 1]);
            }
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512(simd) => {
                run!(
                    simd,
                    self,
                    output,
                    one [28 24 20 16 14 12 10 8 7 6 5 4 3 2 1],
                    two [14 12 10 8 7 6 5 4 3 2 1]
                );
            }
        }
    }

    /// Checks what the inner loop assumes.
    fn check(&self, lanes: usize, output: &[f32]) {
        let furthest = self.taps.iter().fold(0, |most, &tap| most.max(tap)) as usize;
        let window =
            self.origin + (self.rows - 1) * self.row_step + (self.columns - 1) * self.column_step;
        assert!(window + furthest < self.image.len(), "windows reach over the image");
        assert_eq!(self.weights.len(), self.blocks * self.taps.len() * lanes, "packed weights");
        assert_eq!(self.start.len(), self.blocks * lanes, "starts of the sums");
        let pixel = (self.rows - 1) * self.output_row + (self.columns - 1) * self.output_column;
        assert!(pixel + self.blocks * lanes <= output.len(), "the output is too short");
    }
}

/// The number of pixels of a tile: the available size that wastes the least.
///
/// The last tile of a row overlaps the one before it, so that no vector is partial.
fn pixels(sizes: &[usize], vectors: usize, job: &TileJob<'_>) -> usize {
    // Eight sums hide the latency of a fused multiply-add.
    let cost = |size: usize| job.columns.div_ceil(size) * (size * vectors).max(8);
    // For pairs with a step that is not a constant, compilers spill sums beyond 20 to memory.
    let most = if vectors == 2 && job.column_step > 2 { 10 } else { usize::MAX };
    let fitting = sizes.iter().copied().filter(|&size| size <= job.columns.min(most));
    // Of two equal ones the larger, because it loads its weights for more pixels.
    fitting.min_by_key(|&size| (cost(size), usize::MAX - size)).unwrap_or(1)
}

/// All rows of a grid for some blocks, `B` vectors by `Q` pixels at a time.
///
/// `STEP` is the column step, or 0 for the job's own.
///
/// # Safety
/// [`TileJob::check`] has passed for this job and output, `B` divides the number of blocks, and
/// `Q` is at most the number of columns.
#[inline(always)]
unsafe fn rows<S: Simd, const B: usize, const Q: usize, const STEP: usize>(
    simd: S,
    job: &TileJob<'_>,
    blocks: Range<usize>,
    output: &mut [f32],
) {
    let step = if STEP == 0 { job.column_step } else { STEP };
    let block_len = job.taps.len() * S::LANES;
    for row in 0..job.rows {
        for tile_index in 0..job.columns.div_ceil(Q) {
            let column = (tile_index * Q).min(job.columns - Q);
            let window = job.origin + row * job.row_step + column * step;
            let pixel = row * job.output_row + column * job.output_column;
            for block in blocks.clone().step_by(B) {
                let image = job.image.as_ptr().wrapping_add(window);
                let weights = job.weights.as_ptr().wrapping_add(block * block_len);
                let start = job.start.as_ptr().wrapping_add(block * S::LANES);
                let to = output.as_mut_ptr().wrapping_add(pixel + block * S::LANES);
                // SAFETY: the job was checked, and the tile lies in its grid.
                unsafe {
                    tile::<S, B, Q>(
                        simd,
                        job.taps,
                        image,
                        step,
                        weights,
                        start,
                        to,
                        job.output_column,
                    );
                }
            }
        }
    }
}

/// One register tile.
///
/// # Safety
/// `window` has every tap of `Q` pixels, `step` apart; `weights` and `start` have `B` blocks;
/// `output` has room for `B` vectors at each of `Q` pixels, `output_step` apart.
#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "the innermost call; a struct would be unpacked here"
)]
unsafe fn tile<S: Simd, const B: usize, const Q: usize>(
    simd: S,
    taps: &[u32],
    window: *const f32,
    step: usize,
    weights: *const f32,
    start: *const f32,
    output: *mut f32,
    output_step: usize,
) {
    let block_len = taps.len() * S::LANES;
    let mut sums = [[simd.zero(); B]; Q];
    for vector in 0..B {
        // SAFETY: every block has its starts.
        let first = unsafe { simd.load(start.wrapping_add(vector * S::LANES)) };
        for sums in &mut sums {
            sums[vector] = first;
        }
    }
    for (index, &tap) in taps.iter().enumerate() {
        let window = window.wrapping_add(tap as usize);
        let mut factors = [simd.zero(); B];
        for (vector, factor) in factors.iter_mut().enumerate() {
            let at = vector * block_len + index * S::LANES;
            // SAFETY: every block has a vector of weights for every tap.
            *factor = unsafe { simd.load(weights.wrapping_add(at)) };
        }
        for pixel in 0..Q {
            // SAFETY: the windows of all pixels lie in the image.
            let value = simd.splat(unsafe { window.wrapping_add(pixel * step).read() });
            for vector in 0..B {
                sums[pixel][vector] =
                    simd.multiply_add(sums[pixel][vector], value, factors[vector]);
            }
        }
    }
    for (pixel, sums) in sums.iter().enumerate() {
        for (vector, &sum) in sums.iter().enumerate() {
            let to = output.wrapping_add(pixel * output_step + vector * S::LANES);
            // SAFETY: all blocks of all pixels lie in the output.
            unsafe { simd.store(to, sum) };
        }
    }
}

/// Some blocks of a job that was checked: `B` divides their number, and rows have `Q` pixels.
struct Rows<'a, const B: usize, const Q: usize, const STEP: usize> {
    job: &'a TileJob<'a>,
    blocks: Range<usize>,
    output: &'a mut [f32],
}

impl<const B: usize, const Q: usize, const STEP: usize> Kernel for Rows<'_, B, Q, STEP> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // SAFETY: `TileJob::run` has checked the job, and picks `B` and `Q` for it.
        unsafe { rows::<S, B, Q, STEP>(simd, self.job, self.blocks, self.output) };
    }
}
