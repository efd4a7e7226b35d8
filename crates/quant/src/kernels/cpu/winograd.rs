//! 3×3 convolutions at stride 1 by Winograd's F(2×2, 3×3) in integers: 16 products in place of 36.
//!
//! With `V = Bᵀ·d·B` of a tile `d` of 4×4 codes and `U = (2G)·g·(2G)ᵀ` of the weights `g`, the four
//! outputs are `Aᵀ·(Σ U∘V)·A / 4`, summed over input channels. Entries of `V` are at most
//! 4·255 = 1020 and those of `U` at most 9·128 = 1152, so that both fit 16 bits; the division is
//! exact, so that the sums are those of the definition to the bit.
//!
//! # Source
//! Lavin and Gray 2015, arXiv:1509.09308, section 4.1; doubling `G` keeps the weights whole.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::{INT8_LANES as LANES, Int8, Int8Kernel, Isa};

use super::sink::Sink;

/// The most input channels whose sums, times four, fit into 32 bits: 2³¹ / (1020·1152) is 1827.
pub(crate) const MOST_INPUTS: usize = 1800;

/// Positions of a transformed tile.
const POSITIONS: usize = 16;

/// Tiles that are transformed before they are multiplied: a multiple of the largest register tile.
const TOGETHER: usize = 24;

/// Two weights, of neighboring input channels, of sixteen output channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Pairs([[i16; 2]; LANES]);

impl Pairs {
    pub(super) const ZEROS: Self = Self([[0; 2]; LANES]);

    /// Sets a weight of an output channel.
    pub(super) fn set(&mut self, lane: usize, which: usize, weight: i16) {
        self.0[lane][which] = weight;
    }
}

/// The transformed weights of `[outputs][inputs][3][3]`: `[vectors of outputs][16][pairs of inputs]`.
pub(crate) fn transformed_weights(weights: &[i8], outputs: usize, inputs: usize) -> Vec<Pairs> {
    let pairs = inputs.div_ceil(2);
    let mut transformed = vec![Pairs::ZEROS; outputs.div_ceil(LANES) * POSITIONS * pairs];
    for (index, kernel) in weights.as_chunks::<9>().0.iter().enumerate() {
        let (output, input) = (index / inputs, index % inputs);
        let first = output / LANES * POSITIONS * pairs + input / 2;
        for (position, value) in transformed_kernel(kernel).into_iter().enumerate() {
            transformed[first + position * pairs].set(output % LANES, input % 2, value);
        }
    }
    transformed
}

/// `(2G)·g·(2G)ᵀ`.
fn transformed_kernel(kernel: &[i8; 9]) -> [i16; POSITIONS] {
    let line = |[a, b, c]: [i16; 3]| [2 * a, a + b + c, a - b + c, 2 * c];
    let rows = std::array::from_fn::<_, 3, _>(|row| {
        line(std::array::from_fn(|column| kernel[3 * row + column].into()))
    });
    let mut all = [0; POSITIONS];
    for column in 0..4 {
        for (row, value) in line(rows.map(|row| row[column])).into_iter().enumerate() {
            all[4 * row + column] = value;
        }
    }
    all
}

/// Sums for a grid of output pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WinogradJob<'a> {
    /// The padded rows of the input that the grid reads: two more rows and columns than it has.
    pub(crate) image: &'a [u8],
    /// [`transformed_weights`].
    pub(crate) weights: &'a [Pairs],
    /// The initial value of each sum, padded to whole vectors.
    pub(crate) start: &'a [i32],
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Pixels of the grid, at least two of each.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// The distance between rows of the image.
    pub(crate) row_step: usize,
}

/// The work space of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct WinogradSpace {
    /// The transformed tiles.
    pub(super) tiles: Vec<i16>,
    /// The sums of some output channels.
    pub(super) sums: Vec<i32>,
}

impl WinogradSpace {
    /// Grows to so many numbers.
    pub(super) fn grow(&mut self, tiles: usize, sums: usize) {
        self.tiles.resize(self.tiles.len().max(tiles), 0);
        self.sums.resize(self.sums.len().max(sums), 0);
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<i16>() * self.tiles.capacity() + size_of::<i32>() * self.sums.capacity()
    }
}

impl WinogradJob<'_> {
    /// Computes the grid into `output`: `[rows][columns][outputs]`.
    ///
    /// # Panics
    /// If a slice is too short for what the job says of it, or the CPU does not have `isa`.
    pub(crate) fn run<K: Sink>(
        &self,
        isa: Isa,
        sink: K,
        space: &mut WinogradSpace,
        output: &mut [K::Number],
    ) {
        let vectors = self.outputs.div_ceil(LANES);
        let image = (self.rows + 1) * self.row_step + (self.columns + 2) * self.inputs;
        assert!(self.rows > 1 && self.columns > 1, "a grid of whole tiles");
        assert!(self.inputs <= MOST_INPUTS, "sums of 32 bits");
        assert!(image <= self.image.len(), "tiles reach over the image");
        let weights = vectors * POSITIONS * self.inputs.div_ceil(2);
        assert_eq!(self.weights.len(), weights, "transformed weights");
        assert!(self.start.len() >= vectors * LANES, "starts of the sums");
        assert!(sink.columns() >= vectors * LANES, "scales of the columns");
        let numbers = self.rows * self.columns * self.outputs;
        assert!(numbers <= output.len() && sink.reaches(numbers), "the output is too short");
        let channels = self.inputs.next_multiple_of(LANES);
        space.grow(POSITIONS * TOGETHER * channels, POSITIONS * TOGETHER * LANES);
        isa.int8_vectors().run(Tiles { job: self, sink, space, output });
    }

    /// The first pixel of a tile: the last tiles overlap those before them.
    #[inline(always)]
    fn place(&self, tile: usize) -> [usize; 2] {
        let in_row = self.columns.div_ceil(2);
        let (row, column) = (2 * (tile / in_row), 2 * (tile % in_row));
        [row.min(self.rows - 2), column.min(self.columns - 2)]
    }
}

/// All tiles of a job that was checked for this sink, space and output.
struct Tiles<'a, K: Sink> {
    job: &'a WinogradJob<'a>,
    sink: K,
    space: &'a mut WinogradSpace,
    output: &'a mut [K::Number],
}

impl<K: Sink> Int8Kernel for Tiles<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Int8>(self, simd: S) {
        let Self { job, sink, space, output } = self;
        let pairs = job.inputs.div_ceil(2);
        let channels = job.inputs.next_multiple_of(LANES);
        let all = job.rows.div_ceil(2) * job.columns.div_ceil(2);
        for first in (0..all).step_by(TOGETHER) {
            let count = (all - first).min(TOGETHER);
            for tile in 0..count {
                transform(job, first + tile, &mut space.tiles[tile * channels..], channels);
            }
            for vector in 0..job.outputs.div_ceil(LANES) {
                for position in 0..POSITIONS {
                    let weights = (vector * POSITIONS + position) * pairs;
                    let weights = &job.weights[weights..weights + pairs];
                    let tiles = &space.tiles[position * TOGETHER * channels..][..count * channels];
                    let sums = &mut space.sums[position * TOGETHER * LANES..][..count * LANES];
                    multiply(simd, tiles, channels, weights, sums);
                }
                let start = &job.start[vector * LANES..][..LANES];
                let lanes = (job.outputs - vector * LANES).min(LANES);
                for tile in 0..count {
                    let [row, column] = job.place(first + tile);
                    let four = outputs(&space.sums[tile * LANES..], start);
                    for (pixel, sums) in four.iter().enumerate() {
                        let pixel = (row + pixel / 2) * job.columns + column + pixel % 2;
                        let at = pixel * job.outputs + vector * LANES;
                        // SAFETY: an array of sixteen numbers.
                        let sums = unsafe { simd.load(sums.as_ptr()) };
                        // SAFETY: the job was checked for the sink and the output.
                        unsafe {
                            sink.put(simd, sums, vector * LANES, output.as_mut_ptr(), at, lanes);
                        }
                    }
                }
            }
        }
    }
}

/// Writes `Bᵀ·d·B` of a tile, for sixteen channels at a time.
#[inline(always)]
fn transform(job: &WinogradJob<'_>, tile: usize, to: &mut [i16], channels: usize) {
    let [row, column] = job.place(tile);
    for first in (0..job.inputs).step_by(LANES) {
        let count = (job.inputs - first).min(LANES);
        let mut codes = [[0_i16; LANES]; POSITIONS];
        for (pixel, codes) in codes.iter_mut().enumerate() {
            let at = (row + pixel / 4) * job.row_step + (column + pixel % 4) * job.inputs + first;
            let from = &job.image[at..at + count];
            // A loop of known length becomes one instruction.
            if let Some(from) = from.first_chunk::<LANES>() {
                for (to, &code) in codes.iter_mut().zip(from) {
                    *to = i16::from(code);
                }
            } else {
                for (to, &code) in codes.iter_mut().zip(from) {
                    *to = i16::from(code);
                }
            }
        }
        for line in 0..4 {
            along(&mut codes, [line, line + 4, line + 8, line + 12]);
        }
        for line in 0..4 {
            along(&mut codes, [4 * line, 4 * line + 1, 4 * line + 2, 4 * line + 3]);
        }
        for (position, codes) in codes.iter().enumerate() {
            let at = position * TOGETHER * channels + first;
            to[at..at + LANES].copy_from_slice(codes);
        }
    }
}

/// `Bᵀ` applied to four entries of a tile.
#[inline(always)]
fn along(codes: &mut [[i16; LANES]; POSITIONS], [a, b, c, d]: [usize; 4]) {
    for lane in 0..LANES {
        let old = [codes[a][lane], codes[b][lane], codes[c][lane], codes[d][lane]];
        codes[a][lane] = old[0] - old[2];
        codes[b][lane] = old[1] + old[2];
        codes[c][lane] = old[2] - old[1];
        codes[d][lane] = old[1] - old[3];
    }
}

/// The sums of products of one position for all tiles, `[tiles][lanes]`.
#[inline(always)]
fn multiply<S: Int8>(simd: S, tiles: &[i16], channels: usize, weights: &[Pairs], sums: &mut [i32]) {
    let first = multiply_in::<S, 6>(simd, tiles, channels, weights, sums, 0);
    let first = multiply_in::<S, 4>(simd, tiles, channels, weights, sums, first);
    let first = multiply_in::<S, 2>(simd, tiles, channels, weights, sums, first);
    multiply_in::<S, 1>(simd, tiles, channels, weights, sums, first);
}

/// The same from a tile on, `Q` tiles at a time; returns the first tile that is left.
#[inline(always)]
fn multiply_in<S: Int8, const Q: usize>(
    simd: S,
    tiles: &[i16],
    channels: usize,
    weights: &[Pairs],
    sums: &mut [i32],
    mut first: usize,
) -> usize {
    while sums.len() / LANES - first >= Q {
        let (tiles, sums) = (&tiles[first * channels..], &mut sums[first * LANES..]);
        multiply_some::<S, Q>(simd, tiles, channels, weights, sums);
        first += Q;
    }
    first
}

/// The same for `Q` tiles.
#[inline(always)]
fn multiply_some<S: Int8, const Q: usize>(
    simd: S,
    tiles: &[i16],
    channels: usize,
    weights: &[Pairs],
    sums: &mut [i32],
) {
    assert!(2 * weights.len() <= channels, "the channels of a tile");
    assert!((Q - 1) * channels + 2 * weights.len() <= tiles.len(), "the tiles");
    assert!(Q * LANES <= sums.len(), "the sums");
    let mut of_tiles = [simd.zero(); Q];
    for (pair, weights) in weights.iter().enumerate() {
        // SAFETY: two numbers of sixteen output channels are sixteen numbers of 32 bits.
        let weights = unsafe { simd.load(weights.0.as_ptr().cast()) };
        for (tile, sums) in of_tiles.iter_mut().enumerate() {
            let both = tiles.as_ptr().wrapping_add(tile * channels + 2 * pair).cast::<i32>();
            // SAFETY: the tile has these two channels.
            let both = unsafe { both.read_unaligned() };
            *sums = simd.dot_pairs(*sums, simd.splat(both), weights);
        }
    }
    for (tile, of_tile) in of_tiles.into_iter().enumerate() {
        let to = sums.as_mut_ptr().wrapping_add(tile * LANES);
        // SAFETY: there is room for the sums of each tile.
        unsafe { simd.store(to, of_tile, LANES) };
    }
}

/// `Aᵀ·m·A / 4` with the initial values: the sums of four pixels.
#[inline(always)]
fn outputs(sums: &[i32], start: &[i32]) -> [[i32; LANES]; 4] {
    let at = |position: usize| &sums[position * TOGETHER * LANES..][..LANES];
    let mut rows = [[[0; LANES]; 4]; 2];
    for column in 0..4 {
        let [a, b, c, d] = [at(column), at(column + 4), at(column + 8), at(column + 12)];
        for lane in 0..LANES {
            // Sums wrap around; what they add up to fits.
            rows[0][column][lane] = a[lane].wrapping_add(b[lane]).wrapping_add(c[lane]);
            rows[1][column][lane] = b[lane].wrapping_sub(c[lane]).wrapping_sub(d[lane]);
        }
    }
    let mut four = [[0; LANES]; 4];
    for (row, [a, b, c, d]) in rows.iter().enumerate() {
        for lane in 0..LANES {
            let [left, right] = [
                a[lane].wrapping_add(b[lane]).wrapping_add(c[lane]),
                b[lane].wrapping_sub(c[lane]).wrapping_sub(d[lane]),
            ];
            four[2 * row][lane] = (left >> 2).wrapping_add(start[lane]);
            four[2 * row + 1][lane] = (right >> 2).wrapping_add(start[lane]);
        }
    }
    four
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_entries_fit_their_bounds() {
        let greatest = |kernel: [i8; 9]| {
            transformed_kernel(&kernel).into_iter().map(i16::abs).max().expect("sixteen")
        };
        assert_eq!(greatest([-128; 9]), 1152);
        assert_eq!(greatest([127, -127, 127, -127, 127, -127, 127, -127, 127]), 9 * 127);
        assert!(1020_i64 * 1152 * MOST_INPUTS as i64 <= i64::from(i32::MAX));
    }

    #[test]
    fn weights_are_transformed_by_their_definition() {
        let kernel = [3, -5, 7, 11, -13, 17, 19, -23, 29];
        let g = [[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]];
        let of = |i: usize, j: usize| -> i32 {
            let sum = |k: usize, l: usize| g[i][k] * i32::from(kernel[3 * k + l]) * g[j][l];
            (0..3).map(|k| (0..3).map(|l| sum(k, l)).sum::<i32>()).sum()
        };
        let given = transformed_kernel(&kernel).map(i32::from);
        assert_eq!(given, std::array::from_fn(|position| of(position / 4, position % 4)));
    }
}
