//! Sums of products by tiles of bytes: 32 pixels and 32 columns at a time.
//!
//! A tile's rows are pixels, 64 bytes of their windows; its sums are completed by vectors.
#![expect(unsafe_code, reason = "tiles are read through pointers that were checked once")]

use updraft_simd::{
    Avx512Vnni, ByteTiles, INT8_LANES as LANES, Int8, Int8Kernel, TileRows, TileSums,
};

use super::sink::Sink;
use super::tile::DotJob;
use crate::kernels::packed::PANEL;

/// The fewest pixels for which tiles take less time than vectors.
const FEWEST: usize = 4;

/// The same of groups of four bytes in a window, for one vector of columns and for more.
const FEWEST_QUADS: [usize; 2] = [48, 12];

/// The rows of a tile below which the latency of its products is not hidden.
const HIDING: usize = 13;

/// Computes a job that [`DotJob::run`] has checked, if tiles can compute it and pay.
pub(super) fn run<K: Sink>(
    simd: Avx512Vnni,
    job: &DotJob<'_>,
    sink: K,
    output: &mut [K::Number],
) -> bool {
    let Some(tiles) = ByteTiles::detect() else { return false };
    let [_, end] = job.window.ends();
    let quads: u32 = job.window.runs().iter().map(|run| run.quads).sum();
    let pay = job.rows * job.columns >= FEWEST
        && quads as usize >= FEWEST_QUADS[usize::from(job.outputs > LANES)];
    if job.window.tiles().is_empty() || !pay || job.last() + end > job.image.len() {
        return false;
    }
    simd.vectorize(Tiled { tiles, job, sink, output });
    true
}

/// Pixels at equal distances, in tiles of equal rows; the last tiles overlap others.
#[derive(Debug, Clone, Copy)]
struct Line {
    pixels: usize,
    /// Pairs of tiles, and rows of a tile.
    pairs: usize,
    rows: usize,
}

impl Line {
    fn new(pixels: usize) -> Self {
        let pairs = pixels.div_ceil(2 * ByteTiles::MOST_ROWS);
        Self { pixels, pairs, rows: pixels.div_ceil(2 * pairs) }
    }

    /// Its time in any unit.
    fn cost(self) -> usize {
        self.pairs * self.rows.max(HIDING)
    }

    /// The first pixel of each tile of a pair.
    fn firsts(self, pair: usize) -> [usize; 2] {
        [2 * pair, 2 * pair + 1].map(|tile| (tile * self.rows).min(self.pixels - self.rows))
    }
}

/// A checked job whose windows and their tiles lie in the image.
struct Tiled<'a, K: Sink> {
    tiles: ByteTiles,
    job: &'a DotJob<'a>,
    sink: K,
    output: &'a mut [K::Number],
}

impl<K: Sink> Int8Kernel for Tiled<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Int8>(self, simd: S) {
        let Self { tiles, job, sink, output } = self;
        // Rows that lie at a whole number of pixels are one line, with the pixels between them.
        let of_row = Line::new(job.columns);
        let between = job.row_step.checked_div(job.column_step).unwrap_or(0);
        let all = Line::new((job.rows - 1) * between + job.columns);
        let is_one = job.row_step == between * job.column_step
            && between >= job.columns
            && all.cost() <= job.rows * of_row.cost();
        let (line, lines, per_row) =
            if is_one { (all, 1, between) } else { (of_row, job.rows, job.columns) };
        let mut registers = tiles.configure(line.rows);
        let vectors = job.outputs.div_ceil(LANES);
        // While tiles are multiplied, vectors write the sums of the block before.
        let mut sums = TileSums::default();
        let mut before: Option<Block> = None;
        for panel in job.panels[0]..job.panels[1] {
            let first = panel * (PANEL / LANES);
            let width = (vectors - first).min(PANEL / LANES);
            let weights = job.weights[first * job.window.quads()..].as_ptr().cast::<i8>();
            for (row, pair) in
                (0..lines).flat_map(|row| (0..line.pairs).map(move |pair| (row, pair)))
            {
                let pixels = line.firsts(pair);
                let image = job.image.as_ptr().wrapping_add(job.origin + row * job.row_step);
                let at = |pixel: usize| image.wrapping_add(pixel * job.column_step);
                let rows = TileRows { first: pixels.map(at), pitch: job.column_step };
                let steps = job.window.tiles();
                if width == 2 {
                    // SAFETY: the job was checked: all tiles lie in the image, and all weights are there.
                    unsafe { registers.multiply(rows, steps, weights) };
                } else {
                    // SAFETY: the job was checked: all tiles lie in the image, and all weights are there.
                    unsafe { registers.multiply_half(rows, steps, weights) };
                }
                let places = pixels.map(|pixel| [row + pixel / per_row, pixel % per_row]);
                let block = Block { vectors: [first, width], places, rows: line.rows, per_row };
                if let Some(before) = before.replace(block) {
                    // SAFETY: the job was checked, and the block is of it.
                    unsafe { before.put(simd, job, sink, &sums, output) };
                }
                registers.store(&mut sums);
            }
        }
        if let Some(before) = before {
            // SAFETY: the job was checked, and the block is of it.
            unsafe { before.put(simd, job, sink, &sums, output) };
        }
    }
}

/// Where the sums of two tiles of rows belong.
#[derive(Debug, Clone, Copy)]
struct Block {
    /// The first vector of columns, and the number of them.
    vectors: [usize; 2],
    /// Row and column of the first pixel of each tile.
    places: [[usize; 2]; 2],
    /// Rows of a tile, and pixels of the grid's rows with those between them.
    rows: usize,
    per_row: usize,
}

impl Block {
    /// Completes the sums and writes those of the grid.
    ///
    /// # Safety
    /// [`DotJob::run`] has checked the job, of which this is a block.
    #[inline(always)]
    unsafe fn put<S: Int8, K: Sink>(
        self,
        simd: S,
        job: &DotJob<'_>,
        sink: K,
        sums: &TileSums,
        output: &mut [K::Number],
    ) {
        let [first, width] = self.vectors;
        let filled = job.outputs - first * LANES;
        if filled >= 2 * LANES {
            // SAFETY: the caller has checked the job.
            unsafe { self.put_vectors(simd, job, sink, sums, output, [LANES; 2]) };
        } else if width == 2 {
            // SAFETY: the caller has checked the job.
            unsafe { self.put_vectors(simd, job, sink, sums, output, [LANES, filled - LANES]) };
        } else {
            // SAFETY: the caller has checked the job.
            unsafe { self.put_vectors(simd, job, sink, sums, output, [filled]) };
        }
    }

    /// The same for some vectors, each with a number of columns.
    ///
    /// # Safety
    /// As for [`put`](Self::put), and the columns are the job's.
    #[inline(always)]
    unsafe fn put_vectors<S: Int8, K: Sink, const V: usize>(
        self,
        simd: S,
        job: &DotJob<'_>,
        sink: K,
        sums: &TileSums,
        output: &mut [K::Number],
        counts: [usize; V],
    ) {
        let first = self.vectors[0] * LANES;
        let start = job.start.as_ptr().wrapping_add(first);
        // SAFETY: every vector has its starts.
        let start: [S::Lanes; V] =
            std::array::from_fn(|vector| unsafe { simd.load(start.wrapping_add(vector * LANES)) });
        let output = output.as_mut_ptr();
        for (tile, [mut row, mut column]) in self.places.into_iter().enumerate() {
            for sums in &sums.0[tile * ByteTiles::MOST_ROWS..][..self.rows] {
                if column < job.columns {
                    let to = row * job.output_row + column * job.output_column;
                    let to = first - job.panels[0] * PANEL + to;
                    for vector in 0..V {
                        // SAFETY: a row has two vectors of sums.
                        let sums = unsafe { simd.load(sums.as_ptr().wrapping_add(vector * LANES)) };
                        let sums = simd.add(sums, start[vector]);
                        let (channel, at) = (first + vector * LANES, to + vector * LANES);
                        // SAFETY: the pixel's columns lie in the output, and in the sink.
                        unsafe { sink.put(simd, sums, channel, output, at, counts[vector]) };
                    }
                }
                column += 1;
                if column == self.per_row {
                    (row, column) = (row + 1, 0);
                }
            }
        }
    }
}
