//! Integer dot products for a tile of a quantized layer's outputs.
#![expect(unsafe_code, reason = "reads and writes through checked pointers")]

use std::ops::Range;

use updraft_simd::{INT8_LANES, Int8, Int8Kernel, Int8Vectors, Isa};

use super::GROUP;
use super::quantized_inputs::Seen;
use crate::kernels::quantized::{BLOCK, BaseWeights, Coefficients};

const _: () = assert!(BLOCK == INT8_LANES);

/// Bytes of coefficients that are processed for all samples before the next ones. With fewer, the
/// sums, which pass through the L1 cache beside them, are read and written more often.
const NEAR: usize = 32 << 10;

/// Rows whose splines are summed together on AVX-512: two rows hide the latency of a product.
/// Smaller registers hold the sums of one row.
const SPLINE_ROWS: usize = 2;

/// Rows whose base branch is summed together on AVX-512, so that weights are read once for all of
/// them.
const BASE_ROWS: usize = 4;

/// The contribution of some inputs to a tile of outputs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tile<'a> {
    /// Number of outputs: four blocks or one.
    pub(super) width: usize,
    pub(super) intervals: usize,
    /// `[inputs][intervals][blocks of the width]`.
    pub(super) splines: &'a [Coefficients],
    /// `[pairs of inputs][blocks of the width]`, or empty.
    pub(super) base: &'a [BaseWeights],
    /// The coefficients that are read after this tile.
    pub(super) next: &'a [Coefficients],
    pub(super) seen: Seen<'a>,
}

impl Tile<'_> {
    /// Adds to the sums, `[rows][width]`.
    pub(super) fn run(&self, vectors: Int8Vectors, integers: &mut [i32], floats: &mut [f32]) {
        let of_input = self.intervals * self.width / BLOCK * size_of::<Coefficients>();
        let near = (NEAR / of_input).max(4);
        for first in (0..self.seen.count).step_by(near) {
            let inputs = first..(first + near).min(self.seen.count);
            let of_input = self.intervals * self.width / BLOCK;
            let after = inputs.end * of_input;
            let ahead = match &self.splines[after..] {
                [] => &self.next[..self.next.len().min(near * of_input)],
                more => &more[..more.len().min(near * of_input)],
            };
            let of_row = ahead.len().div_ceil((integers.len() / self.width).max(1));
            let integers = &mut *integers;
            vectors.run(Splines { tile: *self, inputs, ahead, of_row, integers });
        }
        if !self.base.is_empty() {
            vectors.run(Base { tile: *self, floats });
        }
    }
}

/// A contribution to the sums of a tile: splines or base branch.
trait OfRows {
    /// Adds to `N` vectors of the outputs of `R` rows, starting at `row`.
    fn sum<S: Int8, const N: usize, const R: usize>(&mut self, simd: S, row: usize);
}

/// Processes all rows of a tile, `R` at a time on AVX-512.
///
/// # Panics
/// If the tile has neither four blocks nor one.
#[inline(always)]
fn all_rows<S: Int8, J: OfRows, const R: usize>(simd: S, width: usize, rows: usize, job: J) {
    match width / BLOCK {
        4 => all_rows_of::<S, J, 4, R>(simd, rows, job),
        1 => all_rows_of::<S, J, 1, R>(simd, rows, job),
        blocks => unreachable!("a tile of {blocks} blocks"),
    }
}

#[inline(always)]
fn all_rows_of<S: Int8, J: OfRows, const N: usize, const R: usize>(
    simd: S,
    rows: usize,
    mut job: J,
) {
    let together = if S::ISA == Isa::Avx512Vnni { rows - rows % R } else { 0 };
    for row in (0..together).step_by(R) {
        job.sum::<S, N, R>(simd, row);
    }
    for row in together..rows {
        job.sum::<S, N, 1>(simd, row);
    }
}

/// Adds the splines of some inputs to a tile's sums, `[rows][width]`.
struct Splines<'a> {
    tile: Tile<'a>,
    inputs: Range<usize>,
    /// The coefficients of the next inputs, which each row loads a share of into the cache.
    ahead: &'a [Coefficients],
    /// How many of them a row loads.
    of_row: usize,
    integers: &'a mut [i32],
}

impl Int8Kernel for Splines<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Int8>(self, simd: S) {
        let rows = self.integers.len() / self.tile.width;
        all_rows::<S, _, SPLINE_ROWS>(simd, self.tile.width, rows, self);
    }
}

impl OfRows for Splines<'_> {
    #[inline(always)]
    fn sum<S: Int8, const N: usize, const R: usize>(&mut self, simd: S, row: usize) {
        let (tile, inputs) = (&self.tile, self.inputs.clone());
        assert!(tile.width == N * BLOCK && inputs.end <= tile.seen.count);
        let share = |row: usize| (self.of_row * row).min(self.ahead.len());
        for coefficients in &self.ahead[share(row)..share(row + R)] {
            simd.prefetch(std::ptr::from_ref(coefficients).cast());
        }
        let of_input = tile.intervals * N;
        let mut coefficients =
            tile.splines[inputs.start * of_input..inputs.end * of_input].as_ptr();
        let mut sums = [[simd.zero(); N]; R];
        for (index, sums) in sums.iter_mut().enumerate() {
            let own = &self.integers[(row + index) * tile.width..][..N * BLOCK];
            for (sum, integers) in sums.iter_mut().zip(own.chunks_exact(BLOCK)) {
                // SAFETY: the slice is a vector's.
                *sum = unsafe { simd.load(integers.as_ptr()) };
            }
        }
        let seen: [_; R] = std::array::from_fn(|index| {
            let place = |input| Seen::place(row + index, input);
            place(inputs.start)..place(inputs.end - 1) + 1
        });
        let mut quads = seen.clone().map(|seen| tile.seen.quads[seen].as_ptr());
        let mut windows = seen.map(|seen| tile.seen.windows[seen].as_ptr());
        for _ in inputs {
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: every row has a window in every input.
                let window = unsafe { windows[row].read() } as usize;
                // SAFETY: every row has four basis values for every input.
                let quad = unsafe { quads[row].read() };
                let quad = simd.splat(quad.cast_signed());
                let lanes = coefficients.wrapping_add(window * N);
                for (vector, sum) in sums.iter_mut().enumerate() {
                    let place = lanes.wrapping_add(vector);
                    // SAFETY: a window is that of an interval, whose coefficients are `N` vectors.
                    let weights = unsafe { simd.load(place.cast()) };
                    // Two basis values that are summed are at most 2/3 together, which is 256 steps
                    // with rounding, and 256·127 is less than 2¹⁵.
                    *sum = simd.dot_within_16_bits(*sum, quad, weights);
                }
                quads[row] = quads[row].wrapping_add(GROUP);
                windows[row] = windows[row].wrapping_add(GROUP);
            }
            coefficients = coefficients.wrapping_add(of_input);
        }
        for (index, sums) in sums.iter().enumerate() {
            let place = (row + index) * tile.width;
            let own = &mut self.integers[place..][..N * BLOCK];
            for (sum, integers) in sums.iter().zip(own.chunks_exact_mut(BLOCK)) {
                // SAFETY: the slice is a vector's.
                unsafe { simd.store(integers.as_mut_ptr(), *sum, BLOCK) };
            }
        }
    }
}

/// Adds the base branch to a tile's sums, `[rows][width]`.
struct Base<'a> {
    tile: Tile<'a>,
    floats: &'a mut [f32],
}

impl Int8Kernel for Base<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Int8>(self, simd: S) {
        let rows = self.floats.len() / self.tile.width;
        all_rows::<S, _, BASE_ROWS>(simd, self.tile.width, rows, self);
    }
}

impl OfRows for Base<'_> {
    #[inline(always)]
    fn sum<S: Int8, const N: usize, const R: usize>(&mut self, simd: S, row: usize) {
        let tile = &self.tile;
        assert!(tile.width == N * BLOCK);
        let count = tile.base.len() / N;
        assert!(count > 0 && tile.base.len() == count * N);
        let pairs: [*const u32; R] = std::array::from_fn(|index| {
            let place = |pair| Seen::place_of_pair(row + index, pair);
            tile.seen.pairs[place(0)..=place(count - 1)].as_ptr()
        });
        let mut sums = [[simd.zero(); N]; R];
        for pair in 0..count {
            let place = tile.base.as_ptr().wrapping_add(pair * N);
            let mut weights = [simd.zero(); N];
            for (vector, weights) in weights.iter_mut().enumerate() {
                // SAFETY: a pair of inputs has `N` vectors of weights.
                *weights = unsafe { simd.load(place.wrapping_add(vector).cast()) };
            }
            for (sums, pairs) in sums.iter_mut().zip(pairs) {
                // SAFETY: a row has values of every pair of inputs.
                let both = unsafe { pairs.wrapping_add(pair * GROUP).read() };
                let values = simd.splat(both.cast_signed());
                for (sum, &weights) in sums.iter_mut().zip(&weights) {
                    *sum = simd.dot_pairs(*sum, values, weights);
                }
            }
        }
        for (index, sums) in sums.into_iter().enumerate() {
            let row = row + index;
            let own = &mut self.floats[row * tile.width..][..N * BLOCK];
            for (to, sum) in own.chunks_exact_mut(BLOCK).zip(sums) {
                // SAFETY: the slice is a vector's.
                unsafe { simd.add_scaled(to.as_mut_ptr(), sum, tile.seen.steps[row]) };
            }
        }
    }
}
