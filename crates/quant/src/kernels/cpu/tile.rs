//! Sums of products over runs of bytes: lanes are output columns, a register tile is a row of pixels.
//!
//! A matrix product is the case of one run, a convolution of one run for each row of its kernel.
//! Four activations are broadcast to all lanes at a time and multiplied by four weights in each.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::{INT8_LANES as LANES, Int8, Int8Kernel, Int8Vectors, Isa};

use super::sink::Sink;
#[cfg(target_arch = "x86_64")]
use super::tiles;
use crate::kernels::packed::{Line, PANEL, Window};

/// Computes the panels of a checked job with a set's register tiles, of one vector of columns and
/// of two: a number of pixels each, with the number of sums that hide the latency of a product.
macro_rules! panels {
    (
        $simd:ident, ($job:ident, $sink:ident, $output:ident),
        one [$($one:literal: $one_sums:literal)*],
        two [$($two:literal: $two_sums:literal)*]
    ) => {{
        let vectors = $job.outputs.div_ceil(LANES);
        let of_panel = PANEL / LANES;
        for panel in $job.panels[0]..$job.panels[1] {
            let first = panel * of_panel;
            let width = (vectors - first).min(of_panel);
            if width == of_panel {
                match pixels(&[$($two),*], 2, $job.columns) {
                    $($two => {
                        $simd.vectorize(Rows::<K, 2, $two, $two_sums> {
                            job: $job,
                            sink: $sink,
                            columns: Columns { first, width },
                            output: &mut *$output,
                        });
                        continue;
                    })*
                    _ => {}
                }
            }
            for first in first..first + width {
                match pixels(&[$($one),*], 1, $job.columns) {
                    $($one => $simd.vectorize(Rows::<K, 1, $one, $one_sums> {
                        job: $job,
                        sink: $sink,
                        columns: Columns { first, width },
                        output: &mut *$output,
                    }),)*
                    _ => unreachable!("a tile has a size that there is"),
                }
            }
        }
    }};
}

/// Sums of products for a grid of pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DotJob<'a> {
    /// The activations; `origin` is where the first pixel's window starts.
    pub(crate) image: &'a [u8],
    pub(crate) origin: usize,
    /// The bytes of a window.
    pub(crate) window: &'a Window,
    /// `[panels][quads][vectors of the panel]`, one cache line per vector.
    pub(crate) weights: &'a [Line],
    /// The initial value of each sum, one for each column, padded to whole vectors.
    pub(crate) start: &'a [i32],
    /// Output columns, and the first panel of them that this job computes, and the one after the last.
    pub(crate) outputs: usize,
    pub(crate) panels: [usize; 2],
    /// Pixels of the grid, and the distance between their windows in the image.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_step: usize,
    pub(crate) column_step: usize,
    /// The distance between pixels in the output.
    pub(crate) output_row: usize,
    pub(crate) output_column: usize,
}

impl DotJob<'_> {
    /// Computes the grid into `output`, which starts at the first pixel's first column.
    ///
    /// # Panics
    /// If a slice is too short for what the job says of it, or the CPU does not have `isa`.
    pub(crate) fn run<K: Sink>(&self, isa: Isa, sink: K, output: &mut [K::Number]) {
        let vectors = isa.int8_vectors();
        if self.rows == 0 || self.columns == 0 || self.panels[0] >= self.panels[1] {
            return;
        }
        self.check(&sink, output.len());
        let job = self;
        match vectors {
            Int8Vectors::Portable(simd) => {
                panels!(simd, (job, sink, output), one [4:1 2:1 1:1], two []);
            }
            #[cfg(target_arch = "aarch64")]
            Int8Vectors::Neon(simd) => {
                panels!(simd, (job, sink, output), one [4:1 3:1 2:1 1:2], two []);
            }
            #[cfg(target_arch = "aarch64")]
            Int8Vectors::NeonDot(simd) => {
                panels!(simd, (job, sink, output), one [4:1 3:1 2:1 1:2], two []);
            }
            #[cfg(target_arch = "x86_64")]
            Int8Vectors::Avx2(simd) => {
                panels!(simd, (job, sink, output), one [4:1 3:1 2:1 1:2], two []);
            }
            #[cfg(target_arch = "x86_64")]
            Int8Vectors::AvxVnni(simd) => {
                panels!(simd, (job, sink, output), one [6:1 5:1 4:1 3:2 2:2 1:4], two []);
            }
            #[cfg(target_arch = "x86_64")]
            Int8Vectors::Avx512Vnni(simd) => {
                if isa.dot() == Isa::AmxInt8 && tiles::run(simd, job, sink, output) {
                    return;
                }
                panels!(
                    simd, (job, sink, output),
                    one [28:1 20:1 16:1 14:1 12:1 10:1 8:1 7:2 6:2 5:2 4:2 3:4 2:4 1:4],
                    two [14:1 12:1 11:1 10:1 8:1 7:1 6:1 5:1 4:2 3:2 2:4 1:4]
                );
            }
        }
    }

    /// Checks what the inner loop assumes.
    fn check<K: Sink>(&self, sink: &K, output: usize) {
        let [window, _] = self.window.ends();
        assert!(self.last() + window <= self.image.len(), "windows reach over the image");
        let vectors = self.outputs.div_ceil(LANES);
        assert_eq!(self.weights.len(), self.window.quads() * vectors, "packed weights");
        assert!(self.start.len() >= vectors * LANES, "starts of the sums");
        assert!(sink.columns() >= vectors * LANES, "scales of the columns");
        let panels = self.outputs.div_ceil(PANEL);
        assert!(self.panels[1] <= panels, "panels reach over the weights");
        let columns = (self.panels[1] * PANEL).min(self.outputs) - self.panels[0] * PANEL;
        let pixel = (self.rows - 1) * self.output_row + (self.columns - 1) * self.output_column;
        assert!(pixel + columns <= output, "the output is too short");
        assert!(sink.reaches(pixel + columns), "codes to add");
    }

    /// Where the last pixel's window starts.
    pub(super) fn last(&self) -> usize {
        self.origin + (self.rows - 1) * self.row_step + (self.columns - 1) * self.column_step
    }
}

/// All rows of some vectors of columns of a job that [`DotJob::check`] has passed for this sink and
/// output.
struct Rows<'a, K: Sink, const V: usize, const Q: usize, const U: usize> {
    job: &'a DotJob<'a>,
    sink: K,
    columns: Columns,
    output: &'a mut [K::Number],
}

impl<K: Sink, const V: usize, const Q: usize, const U: usize> Int8Kernel for Rows<'_, K, V, Q, U> {
    type Output = ();

    #[inline(always)]
    fn run<S: Int8>(self, simd: S) {
        let Self { job, sink, columns, output } = self;
        // SAFETY: the job was checked, and `panels!` picks `V` and `Q` for it.
        unsafe { rows::<S, K, V, Q, U>(simd, job, sink, columns, output) };
    }
}

/// The number of pixels of a tile: the available size that takes the least time.
///
/// The last tile of a row overlaps the one before it, so that no vector is partial.
fn pixels(sizes: &[usize], vectors: usize, columns: usize) -> usize {
    // Half cycles per quad, because two ports multiply and two load, and the loop's overhead.
    let cost = |size: usize| {
        let quad = (size * vectors).max(size + vectors).max(10) + 1;
        columns.div_ceil(size) * quad
    };
    let fitting = sizes.iter().copied().filter(|&size| size <= columns);
    // Of two equal ones the larger, because it loads its weights for more pixels.
    fitting.min_by_key(|&size| (cost(size), usize::MAX - size)).unwrap_or(1)
}

/// Vectors of output columns: `count` of them from `first` on, in a panel of `width`.
#[derive(Debug, Clone, Copy)]
struct Columns {
    first: usize,
    width: usize,
}

/// All rows of a grid for `V` vectors of columns, `Q` pixels at a time, `U` sums for each.
///
/// # Safety
/// [`DotJob::check`] has passed for this job, sink and output, the columns are the job's, and `Q`
/// is at most the number of pixels in a row.
#[inline(always)]
unsafe fn rows<S, K, const V: usize, const Q: usize, const U: usize>(
    simd: S,
    job: &DotJob<'_>,
    sink: K,
    columns: Columns,
    output: &mut [K::Number],
) where
    S: Int8,
    K: Sink,
{
    let quads = job.window.quads();
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
                // A row of sums fills whole cache lines, which are prefetched: 5 to 11 % of
                // the time at 256 to 1024 rows and columns. Codes are too few to cause a stall.
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
                    job.window,
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
unsafe fn tile<S: Int8, const V: usize, const Q: usize, const U: usize>(
    simd: S,
    runs: &Window,
    window: *const u8,
    step: usize,
    weights: *const Line,
    width: usize,
    start: *const i32,
) -> [[S::Lanes; V]; Q] {
    let mut sums = [[[simd.zero(); V]; Q]; U];
    for vector in 0..V {
        // SAFETY: every vector has its starts.
        let first = unsafe { simd.load(start.wrapping_add(vector * LANES)) };
        for sums in &mut sums[0] {
            sums[vector] = first;
        }
    }
    let mut weights = weights;
    let filling = runs.filling() * width;
    for run in runs.runs() {
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
        weights = weights.wrapping_add(filling);
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

/// Advances the pointers to each third pixel.
#[inline(always)]
fn advance<S: Int8, const Q: usize>(simd: S, heads: &mut [*const u8; Q], bytes: usize) {
    for head in &mut heads[..Q.div_ceil(PER_HEAD)] {
        *head = simd.hide(head.wrapping_add(bytes));
    }
}

/// Multiplies four activations of each pixel by their weights.
///
/// # Safety
/// `heads` point to every third of `Q` pixels, `step` apart, which have a quad `offset` bytes on;
/// `weights` has `V` lines.
#[inline(always)]
unsafe fn quad<S: Int8, const V: usize, const Q: usize>(
    simd: S,
    sums: &mut [[S::Lanes; V]; Q],
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
                let value = unsafe { simd.quad(at) };
                for vector in 0..V {
                    sums[pixel][vector] = simd.dot(sums[pixel][vector], value, factors[vector]);
                }
            }
        }
    }
}

/// Quads per iteration of the loop.
const UNROLL: usize = 4;

/// Pixels that one pointer reaches: an address may add a step once or twice, and a constant.
const PER_HEAD: usize = 3;

/// Cache lines between the weights that are used and those that are prefetched.
const PREFETCH: usize = 24;
