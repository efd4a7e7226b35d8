//! Sums of products over runs of bytes: lanes are output columns, a register tile is a row of pixels.
//!
//! A matrix product is the case of one run, a convolution of one run for each row of its kernel.
//! Four activations are spread over all lanes at a time and meet four weights in each.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::Isa;

use super::sink::{Raw, Requantized, Scaled, Sink, Summed};
use super::vector::{LANES, Simd};
use crate::kernels::packed::{Line, PANEL, Run};

/// Sums of products for a grid of pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DotJob<'a> {
    /// The activations; `origin` is where the first pixel's window starts.
    pub(crate) image: &'a [u8],
    pub(crate) origin: usize,
    /// The bytes of a window, in runs.
    pub(crate) runs: &'a [Run],
    /// `[panels][quads][vectors of the panel]`, one line a vector.
    pub(crate) weights: &'a [Line],
    /// What each sum starts from, one for each column, padded to whole vectors.
    pub(crate) start: &'a [i32],
    /// Output columns, and the first panel of them that this job computes, and the one after the last.
    pub(crate) outputs: usize,
    pub(crate) panels: [usize; 2],
    /// Pixels of the grid, and how far apart their windows are in the image.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_step: usize,
    pub(crate) column_step: usize,
    /// How far apart pixels are in the output.
    pub(crate) output_row: usize,
    pub(crate) output_column: usize,
}

impl DotJob<'_> {
    /// Computes the grid into `output`, which starts at the first pixel's first column.
    ///
    /// # Panics
    /// If a slice is too short for what the job says of it, or the CPU does not have `isa`.
    pub(crate) fn run<K: Output>(&self, isa: Isa, sink: K, output: &mut [K::Number]) {
        assert!(isa.is_available(), "this CPU has no {isa}");
        if self.rows == 0 || self.columns == 0 || self.panels[0] >= self.panels[1] {
            return;
        }
        self.check(&sink, output.len());
        // SAFETY: the CPU has the set, and the job is checked.
        unsafe { sink.tiles(isa, self, output) };
    }

    /// What the inner loop relies on.
    fn check<K: Sink>(&self, sink: &K, output: usize) {
        let run_end = |run: &Run| run.at as usize + 4 * run.quads as usize;
        let window = self.runs.iter().map(run_end).max().unwrap_or(0);
        let last =
            self.origin + (self.rows - 1) * self.row_step + (self.columns - 1) * self.column_step;
        assert!(last + window <= self.image.len(), "windows reach over the image");
        let vectors = self.outputs.div_ceil(LANES);
        assert_eq!(self.weights.len(), self.quads() * vectors, "packed weights");
        assert!(self.start.len() >= vectors * LANES, "starts of the sums");
        assert!(sink.columns() >= vectors * LANES, "scales of the columns");
        let panels = self.outputs.div_ceil(PANEL);
        assert!(self.panels[1] <= panels, "panels reach over the weights");
        let columns = (self.panels[1] * PANEL).min(self.outputs) - self.panels[0] * PANEL;
        let pixel = (self.rows - 1) * self.output_row + (self.columns - 1) * self.output_column;
        assert!(pixel + columns <= output, "the output is too short");
        assert!(sink.reaches(pixel + columns), "codes to add");
    }

    /// Quads of a window.
    fn quads(&self) -> usize {
        self.runs.iter().map(|run| run.quads as usize).sum()
    }
}

/// A sink with its entries into each set.
pub(crate) trait Output: Sink {
    /// Computes a job.
    ///
    /// # Safety
    /// The CPU has the set, and the job was checked for this sink and output.
    unsafe fn tiles(self, isa: Isa, job: &DotJob<'_>, output: &mut [Self::Number]);
}

macro_rules! outputs {
    ($($sink:ty),*) => {$(
        impl Output for $sink {
            unsafe fn tiles(self, isa: Isa, job: &DotJob<'_>, output: &mut [Self::Number]) {
                match isa.dot() {
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: the caller promises the CPU and the check.
                    Isa::Avx512Vnni => unsafe { super::avx512::tiles(job, self, output) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: the same.
                    Isa::AvxVnni => unsafe { super::avx_vnni::tiles(job, self, output) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: the same.
                    Isa::Avx2 => unsafe { super::avx2::tiles(job, self, output) },
                    #[cfg(target_arch = "aarch64")]
                    // SAFETY: the same.
                    Isa::NeonDot => unsafe { super::neon_dot::tiles(job, self, output) },
                    #[cfg(target_arch = "aarch64")]
                    // SAFETY: the same.
                    Isa::Neon => unsafe { super::neon::tiles(job, self, output) },
                    // SAFETY: the caller promises the check.
                    _ => unsafe { super::portable::tiles(job, self, output) },
                }
            }
        }
    )*};
}

outputs!(Raw, Scaled<'_>, Requantized<'_>, Summed<'_>);

/// How many pixels a tile has: of the sizes there are, the one that takes the least time.
///
/// The last tile of a row overlaps the one before it, so that none is cut.
pub(super) fn pixels(sizes: &[usize], vectors: usize, columns: usize) -> usize {
    // Half cycles a quad, as two ports multiply and two load; a little for the loop around.
    let cost = |size: usize| {
        let quad = (size * vectors).max(size + vectors).max(10) + 1;
        columns.div_ceil(size) * quad
    };
    let fitting = sizes.iter().copied().filter(|&size| size <= columns);
    // Of equals the larger: it loads its weights for more pixels.
    fitting.min_by_key(|&size| (cost(size), usize::MAX - size)).unwrap_or(1)
}

/// Vectors of output columns: `count` of them from `first` on, in a panel of `width`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    pub(super) first: usize,
    pub(super) width: usize,
}

/// All rows of a grid for `V` vectors of columns, `Q` pixels at a time, `U` sums for each.
///
/// # Safety
/// [`DotJob::check`] has passed for this job, sink and output, the columns are the job's, and `Q`
/// is at most the number of pixels in a row.
#[inline(always)]
pub(super) unsafe fn rows<S, K, const V: usize, const Q: usize, const U: usize>(
    simd: S,
    job: &DotJob<'_>,
    sink: K,
    columns: Columns,
    output: &mut [K::Number],
) where
    S: Simd,
    K: Sink,
{
    let quads = job.quads();
    let panel = columns.first * LANES / PANEL;
    let in_panel = columns.first - panel * (PANEL / LANES);
    let line = panel * (PANEL / LANES) * quads + in_panel;
    let weights = job.weights.as_ptr().wrapping_add(line);
    let start = job.start.as_ptr().wrapping_add(columns.first * LANES);
    let first_output = columns.first * LANES - job.panels[0] * PANEL;
    for row in 0..job.rows {
        for tile_index in 0..job.columns.div_ceil(Q) {
            let column = (tile_index * Q).min(job.columns - Q);
            let window = job.origin + row * job.row_step + column * job.column_step;
            let window = job.image.as_ptr().wrapping_add(window);
            let to = first_output + row * job.output_row + column * job.output_column;
            if size_of::<K::Number>() == size_of::<i32>() {
                // A row of sums fills whole lines, which are here when the sums are: 5 to 11 % of
                // the time at 256 to 1024 rows and columns. Codes are too few to be waited for.
                for pixel in 0..Q {
                    for vector in 0..V {
                        let at = to + pixel * job.output_column + vector * LANES;
                        simd.prefetch(output.as_ptr().wrapping_add(at).cast());
                    }
                }
            }
            // SAFETY: the job was checked, and the tile lies in its grid.
            let sums = unsafe {
                tile::<S, V, Q, U>(
                    simd,
                    job.runs,
                    window,
                    job.column_step,
                    weights,
                    columns.width,
                    start,
                )
            };
            for (pixel, sums) in sums.into_iter().enumerate() {
                for (vector, sums) in sums.into_iter().enumerate() {
                    let at = to + pixel * job.output_column + vector * LANES;
                    let first = (columns.first + vector) * LANES;
                    let count = (job.outputs - first).min(LANES);
                    // SAFETY: all columns of all pixels lie in the output, and in the sink.
                    unsafe { sink.put(simd, sums, first, output.as_mut_ptr(), at, count) };
                }
            }
        }
    }
}

/// One register tile.
///
/// # Safety
/// `window` has every run of `Q` pixels, `step` apart; `weights` has `V` lines for every quad,
/// the lines of two quads `width` apart; `start` has `V` vectors.
#[inline(always)]
unsafe fn tile<S: Simd, const V: usize, const Q: usize, const U: usize>(
    simd: S,
    runs: &[Run],
    window: *const u8,
    step: usize,
    weights: *const Line,
    width: usize,
    start: *const i32,
) -> [[S::Sums; V]; Q] {
    let mut sums = [[[simd.zero(); V]; Q]; U];
    for vector in 0..V {
        // SAFETY: every vector has its starts.
        let first = unsafe { simd.load(start.wrapping_add(vector * LANES)) };
        for sums in &mut sums[0] {
            sums[vector] = first;
        }
    }
    let mut weights = weights;
    for run in runs {
        let at = window.wrapping_add(run.at as usize);
        let mut heads: [*const u8; Q] =
            std::array::from_fn(|head| at.wrapping_add((head * PER_HEAD * step).min(Q * step)));
        let quads = run.quads as usize;
        for _ in 0..quads / UNROLL {
            // Written out: a loop this large is not unrolled, and its sums would lie in memory.
            // SAFETY: the caller promises four quads.
            unsafe { quad(simd, &mut sums[0], &heads, 0, step, weights) };
            // SAFETY: the caller promises four quads.
            unsafe { quad(simd, &mut sums[1 % U], &heads, 4, step, weights.wrapping_add(width)) };
            // SAFETY: the caller promises four quads.
            unsafe {
                quad(simd, &mut sums[2 % U], &heads, 8, step, weights.wrapping_add(2 * width))
            };
            // SAFETY: the caller promises four quads.
            unsafe {
                quad(simd, &mut sums[3 % U], &heads, 12, step, weights.wrapping_add(3 * width))
            };
            weights = weights.wrapping_add(UNROLL * width);
            advance(simd, &mut heads, 4 * UNROLL);
        }
        for _ in 0..quads % UNROLL {
            // SAFETY: the caller promises this quad.
            unsafe { quad(simd, &mut sums[0], &heads, 0, step, weights) };
            weights = weights.wrapping_add(width);
            advance(simd, &mut heads, 4);
        }
    }
    let [first, rest @ ..] = &mut sums[..] else { unreachable!("there is one set of sums") };
    for others in rest {
        for (sums, others) in first.iter_mut().zip(others) {
            for (sum, other) in sums.iter_mut().zip(others) {
                *sum = simd.add(*sum, *other);
            }
        }
    }
    *first
}

/// Moves the pointers to each third pixel.
#[inline(always)]
fn advance<S: Simd, const Q: usize>(simd: S, heads: &mut [*const u8; Q], bytes: usize) {
    for head in &mut heads[..Q.div_ceil(PER_HEAD)] {
        *head = simd.hide(head.wrapping_add(bytes));
    }
}

/// Four activations of each pixel meet their weights.
///
/// # Safety
/// `heads` point to every third of `Q` pixels, `step` apart, which have a quad `offset` bytes on;
/// `weights` has `V` lines.
#[inline(always)]
unsafe fn quad<S: Simd, const V: usize, const Q: usize>(
    simd: S,
    sums: &mut [[S::Sums; V]; Q],
    heads: &[*const u8; Q],
    offset: usize,
    step: usize,
    weights: *const Line,
) {
    for vector in 0..V {
        simd.prefetch(weights.wrapping_add(PREFETCH + vector).cast());
    }
    // SAFETY: the caller promises the lines.
    let factors: [S::Weights; V] =
        std::array::from_fn(|vector| unsafe { simd.weights(weights.wrapping_add(vector).cast()) });
    for group in 0..Q.div_ceil(PER_HEAD) {
        for inside in 0..PER_HEAD {
            let pixel = group * PER_HEAD + inside;
            if pixel < Q {
                let at = heads[group].wrapping_add(inside * step + offset);
                // SAFETY: the caller promises the quads of all pixels.
                let value = unsafe { simd.spread(at) };
                for vector in 0..V {
                    sums[pixel][vector] = simd.dot(sums[pixel][vector], value, factors[vector]);
                }
            }
        }
    }
}

/// Quads from one test of the loop to the next.
const UNROLL: usize = 4;

/// Pixels that one pointer reaches: an address may add a step once or twice, and a constant.
const PER_HEAD: usize = 3;

/// Lines between the weights that are used and those that are asked for.
const PREFETCH: usize = 24;

/// A set's `tiles`: picks the instance for a job's width.
///
/// Each size is a number of pixels, with the number of sums that hide the latency of a product.
macro_rules! entries {
    (
        $(#[$feature:meta])* $kind:ty = $proof:expr,
        one [$(($one:literal, $one_sums:literal))*],
        two [$(($two:literal, $two_sums:literal))*]
    ) => {
        /// Computes a job.
        ///
        /// # Safety
        /// The CPU has what this set needs, and the job was checked for this sink and output.
        pub(super) unsafe fn tiles<K: Sink>(job: &DotJob<'_>, sink: K, output: &mut [K::Number]) {
            use crate::kernels::packed::PANEL;
            use super::vector::LANES;

            let vectors = job.outputs.div_ceil(LANES);
            let of_panel = PANEL / LANES;
            for panel in job.panels[0]..job.panels[1] {
                let first = panel * of_panel;
                let width = (vectors - first).min(of_panel);
                let pair: Option<Rows<K>> = match tile::pixels(&[$($two),*], 2, job.columns) {
                    $($two => Some(rows::<K, 2, $two, $two_sums>),)*
                    _ => None,
                };
                if let Some(run) = pair
                    && width == of_panel
                {
                    // SAFETY: the caller promises the CPU and the check.
                    unsafe { run(job, sink, tile::Columns { first, width }, output) };
                    continue;
                }
                let run: Rows<K> = match tile::pixels(&[$($one),*], 1, job.columns) {
                    $($one => rows::<K, 1, $one, $one_sums>,)*
                    _ => unreachable!("a tile has a size that there is"),
                };
                for first in first..first + width {
                    // SAFETY: the caller promises the CPU and the check.
                    unsafe { run(job, sink, tile::Columns { first, width }, output) };
                }
            }
        }

        /// One instance of `rows`.
        type Rows<K> =
            unsafe fn(&DotJob<'_>, K, tile::Columns, &mut [<K as Sink>::Number]);

        $(#[$feature])*
        unsafe fn rows<K: Sink, const V: usize, const Q: usize, const U: usize>(
            job: &DotJob<'_>,
            sink: K,
            columns: tile::Columns,
            output: &mut [K::Number],
        ) {
            // SAFETY: `tiles` is given checked jobs, and picks `V` and `Q` for them.
            unsafe { tile::rows::<$kind, K, V, Q, U>($proof, job, sink, columns, output) };
        }
    };
}
pub(super) use entries;
