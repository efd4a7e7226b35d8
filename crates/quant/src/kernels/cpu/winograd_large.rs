//! 3×3 convolutions at stride 1 by Winograd's F(4×4, 3×3) in integers: 36 products in place of 144.
//!
//! The matrices for the points 0, ±1, ±2 and ∞ have denominators; the rows of `G`, times 24, −6, −6,
//! 24, 24 and 6, are whole, and so are those of `Aᵀ` that undo this, times 24, 12, 6 and 6.
//! Entries of `V = Bᵀ·d·B` of a tile `d` of 6×6 codes are at most 17,340 and those of
//! `U = G·g·Gᵀ` at most 49·128 = 6,272, so that both fit 16 bits.
//!
//! Sums wrap around at 32 bits, which changes no result: what is divided is a multiple of
//! `9·2^shift`, with a shift of 6 at most. Times the inverse of 9 modulo 2³² it is `y·2^shift`, which
//! is exact if `y` fits 25 bits and its sign; [`are_bounded`] checks that for all inputs.
//!
//! # Source
//! Lavin and Gray 2015, arXiv:1509.09308, section 4.1.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::{INT8_LANES as LANES, Int8, Int8Kernel, Isa};

use super::sink::Sink;
use super::winograd::{Pairs, WinogradJob, WinogradSpace};

/// Rows and columns of outputs of a tile.
pub(crate) const TILE: usize = 4;
/// Rows and columns that a tile reads.
const SIDE: usize = TILE + 2;
/// Positions of a transformed tile.
const POSITIONS: usize = SIDE * SIDE;
/// Tiles that are transformed before they are multiplied: the largest register tile.
const TOGETHER: usize = 12;
/// Vectors of output channels whose weights are neighbors.
const VECTORS: usize = 2;
/// Pairs of channels of a transformed tile that are neighbors.
const PAIRS: usize = LANES / 2;
/// 9·954,437,177 is 1 modulo 2³².
const INVERSE_OF_9: i32 = 954_437_177;
/// Powers of two in the denominators of a tile's rows and columns: 24, 12, 6 and 6.
const SHIFTS: [u32; TILE] = [3, 2, 1, 1];
/// The most that weights of one sign of a channel may add up to.
const MOST_WEIGHTS: i64 = (1 << 25) / 255 - 1;

/// Whether the sums of every output channel fit 25 bits and a sign for all inputs.
pub(crate) fn are_bounded(weights: &[i8], each: usize) -> bool {
    weights.chunks_exact(each).all(|channel| {
        let sum = |sign: i64| -> i64 {
            channel.iter().map(|&weight| (sign * i64::from(weight)).max(0)).sum()
        };
        sum(1).max(sum(-1)) <= MOST_WEIGHTS
    })
}

/// The transformed weights of `[outputs][inputs][3][3]`:
/// `[pairs of vectors of outputs][36][pairs of inputs][2]`, the inputs padded to whole vectors.
pub(crate) fn large_transformed_weights(
    weights: &[i8],
    outputs: usize,
    inputs: usize,
) -> Vec<Pairs> {
    let pairs = inputs.next_multiple_of(LANES) / 2;
    let groups = outputs.div_ceil(LANES * VECTORS);
    let mut transformed = vec![Pairs::ZEROS; groups * POSITIONS * pairs * VECTORS];
    for (index, kernel) in weights.as_chunks::<9>().0.iter().enumerate() {
        let (output, input) = (index / inputs, index % inputs);
        let (vector, lane) = (output / LANES, output % LANES);
        let first = vector / VECTORS * POSITIONS;
        for (position, value) in transformed_kernel(kernel).into_iter().enumerate() {
            let at = ((first + position) * pairs + input / 2) * VECTORS + vector % VECTORS;
            transformed[at].set(lane, input % 2, value);
        }
    }
    transformed
}

/// `G·g·Gᵀ` with whole entries.
fn transformed_kernel(kernel: &[i8; 9]) -> [i16; POSITIONS] {
    let line = |[a, b, c]: [i16; 3]| {
        [6 * a, a + b + c, a - b + c, a + 2 * b + 4 * c, a - 2 * b + 4 * c, 6 * c]
    };
    let rows = std::array::from_fn::<_, 3, _>(|row| {
        line(std::array::from_fn(|column| kernel[3 * row + column].into()))
    });
    let mut all = [0; POSITIONS];
    for column in 0..SIDE {
        for (row, value) in line(rows.map(|row| row[column])).into_iter().enumerate() {
            all[SIDE * row + column] = value;
        }
    }
    all
}

impl WinogradJob<'_> {
    /// Computes the grid, of at least four rows and columns, into `output`:
    /// `[rows][columns][outputs]`. The weights are [`large_transformed_weights`] that
    /// [`are_bounded`].
    ///
    /// # Panics
    /// If a slice is too short for what the job says of it, or the CPU does not have `isa`.
    pub(crate) fn run_large<K: Sink>(
        &self,
        isa: Isa,
        sink: K,
        space: &mut WinogradSpace,
        output: &mut [K::Number],
    ) {
        let vectors = self.outputs.div_ceil(LANES);
        let image = (self.rows + 1) * self.row_step + (self.columns + 2) * self.inputs + LANES;
        assert!(self.rows >= TILE && self.columns >= TILE, "a grid of whole tiles");
        assert!(image <= self.image.len(), "tiles reach over the image");
        let channels = self.inputs.next_multiple_of(LANES);
        let weights = vectors.div_ceil(VECTORS) * VECTORS * POSITIONS * channels / 2;
        assert_eq!(self.weights.len(), weights, "transformed weights");
        assert!(self.start.len() >= vectors * LANES, "starts of the sums");
        assert!(sink.columns() >= vectors * LANES, "scales of the columns");
        let numbers = self.rows * self.columns * self.outputs;
        assert!(numbers <= output.len() && sink.reaches(numbers), "the output is too short");
        space.grow(POSITIONS * TOGETHER * channels, POSITIONS * TOGETHER * VECTORS * LANES);
        isa.int8_vectors().run(Tiles { job: self, sink, space, output });
    }

    /// The first pixel of a tile: the last tiles overlap those before them.
    #[inline(always)]
    fn large_place(&self, tile: usize) -> [usize; 2] {
        let in_row = self.columns.div_ceil(TILE);
        let (row, column) = (TILE * (tile / in_row), TILE * (tile % in_row));
        [row.min(self.rows - TILE), column.min(self.columns - TILE)]
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
        let blocks = job.inputs.div_ceil(LANES);
        let vectors = job.outputs.div_ceil(LANES);
        let all = job.rows.div_ceil(TILE) * job.columns.div_ceil(TILE);
        let of_position = blocks * TOGETHER * LANES;
        let of_weights = blocks * PAIRS * VECTORS;
        for first in (0..all).step_by(TOGETHER) {
            let count = (all - first).min(TOGETHER);
            for tile in 0..count {
                transform(job, job.large_place(first + tile), tile, &mut space.tiles);
            }
            for group in 0..vectors.div_ceil(VECTORS) {
                let present = (vectors - VECTORS * group).min(VECTORS);
                for position in 0..POSITIONS {
                    let tiles = &space.tiles[position * of_position..][..of_position];
                    let weights = (group * POSITIONS + position) * of_weights;
                    let weights = &job.weights[weights..][..of_weights];
                    let sums = position * TOGETHER * VECTORS * LANES;
                    let sums = &mut space.sums[sums..][..TOGETHER * VECTORS * LANES];
                    multiply(simd, tiles, weights, sums, count, present);
                }
                for vector in VECTORS * group..VECTORS * group + present {
                    let column = vector * LANES;
                    let start = job.start[column..].first_chunk().expect("whole vectors");
                    let lanes = (job.outputs - column).min(LANES);
                    for tile in 0..count {
                        let [row, first_column] = job.large_place(first + tile);
                        let place = tile * VECTORS + vector % VECTORS;
                        let pixels = outputs(&space.sums[place * LANES..], start);
                        let mut at = (row * job.columns + first_column) * job.outputs + column;
                        for row in pixels.as_chunks::<TILE>().0 {
                            for (pixel, sums) in row.iter().enumerate() {
                                let at = at + pixel * job.outputs;
                                // SAFETY: an array of sixteen numbers.
                                let sums = unsafe { simd.load(sums.as_ptr()) };
                                let output = output.as_mut_ptr();
                                // SAFETY: the job was checked for the sink and the output.
                                unsafe { sink.put(simd, sums, column, output, at, lanes) };
                            }
                            at += job.columns * job.outputs;
                        }
                    }
                }
            }
        }
    }
}

/// Sixteen channels of a line of a tile.
type Line = [[i16; LANES]; SIDE];

/// Writes `Bᵀ·d·B` of a tile, for sixteen channels at a time:
/// `[36][blocks of channels][tiles][channels]`.
///
/// Channels beyond the last one are those of another pixel, whose weights are zero.
#[inline(always)]
fn transform(job: &WinogradJob<'_>, [row, column]: [usize; 2], tile: usize, to: &mut [i16]) {
    let blocks = job.inputs.div_ceil(LANES);
    let of_position = blocks * TOGETHER * LANES;
    let to = &mut to[..POSITIONS * of_position];
    for block in 0..blocks {
        let first = row * job.row_step + column * job.inputs + block * LANES;
        let from = job.image.as_ptr().wrapping_add(first);
        let mut columns = [[[0_i16; LANES]; SIDE]; SIDE];
        for (column, values) in columns.iter_mut().enumerate() {
            let from = from.wrapping_add(column * job.inputs);
            let mut line = [[0_i16; LANES]; SIDE];
            for (row, line) in line.iter_mut().enumerate() {
                let from = from.wrapping_add(row * job.row_step).cast::<[u8; LANES]>();
                // SAFETY: the job was checked: tiles lie in the image, with a vector after them.
                let codes = unsafe { from.read_unaligned() };
                *line = codes.map(i16::from);
            }
            along(&line, values);
        }
        let mut at = (block * TOGETHER + tile) * LANES;
        for row in 0..SIDE {
            let line: Line = std::array::from_fn(|column| columns[column][row]);
            let mut values = [[0_i16; LANES]; SIDE];
            along(&line, &mut values);
            for value in &values {
                to[at..at + LANES].copy_from_slice(value);
                at += of_position;
            }
        }
    }
}

/// `Bᵀ` applied to six entries of a tile; every intermediate value fits 16 bits.
#[inline(always)]
fn along(line: &Line, to: &mut Line) {
    for lane in 0..LANES {
        let [a, b, c, d, e, f] = line.each_ref().map(|of| of[lane]);
        let four = |x: i16| x.wrapping_shl(2);
        let even = e.wrapping_sub(four(c));
        let odd = d.wrapping_sub(four(b));
        let near = e.wrapping_sub(c);
        let far = d.wrapping_sub(b).wrapping_shl(1);
        to[0][lane] = four(a).wrapping_add(even).wrapping_sub(c);
        to[1][lane] = even.wrapping_add(odd);
        to[2][lane] = even.wrapping_sub(odd);
        to[3][lane] = near.wrapping_add(far);
        to[4][lane] = near.wrapping_sub(far);
        to[5][lane] = f.wrapping_sub(d).wrapping_sub(far.wrapping_shl(1));
    }
}

/// The sums of products of one position for the first tiles, `[tiles][2][lanes]`, of one or both
/// vectors of output channels.
#[inline(always)]
fn multiply<S: Int8>(
    simd: S,
    tiles: &[i16],
    weights: &[Pairs],
    sums: &mut [i32],
    count: usize,
    present: usize,
) {
    // With 32 registers two vectors of weights share each pair of inputs.
    if S::ISA == Isa::Avx512Vnni && present == VECTORS {
        let first = multiply_in::<S, 12, 2>(simd, tiles, weights, sums, [0, count]);
        let first = multiply_in::<S, 8, 2>(simd, tiles, weights, sums, [first, count]);
        let first = multiply_in::<S, 4, 2>(simd, tiles, weights, sums, [first, count]);
        let first = multiply_in::<S, 2, 2>(simd, tiles, weights, sums, [first, count]);
        multiply_in::<S, 1, 2>(simd, tiles, weights, sums, [first, count]);
        return;
    }
    for vector in 0..present {
        let (weights, sums) = (&weights[vector..], &mut sums[vector * LANES..]);
        let first = multiply_in::<S, 6, 1>(simd, tiles, weights, sums, [0, count]);
        let first = multiply_in::<S, 4, 1>(simd, tiles, weights, sums, [first, count]);
        let first = multiply_in::<S, 2, 1>(simd, tiles, weights, sums, [first, count]);
        multiply_in::<S, 1, 1>(simd, tiles, weights, sums, [first, count]);
    }
}

/// The same from a tile on, `Q` tiles and `R` vectors at a time; returns the first tile that is
/// left.
#[inline(always)]
fn multiply_in<S: Int8, const Q: usize, const R: usize>(
    simd: S,
    tiles: &[i16],
    weights: &[Pairs],
    sums: &mut [i32],
    [mut first, count]: [usize; 2],
) -> usize {
    while count - first >= Q {
        let (tiles, sums) = (&tiles[first * LANES..], &mut sums[first * VECTORS * LANES..]);
        multiply_some::<S, Q, R>(simd, tiles, weights, sums);
        first += Q;
    }
    first
}

/// The same for `Q` tiles.
#[inline(always)]
fn multiply_some<S: Int8, const Q: usize, const R: usize>(
    simd: S,
    tiles: &[i16],
    weights: &[Pairs],
    sums: &mut [i32],
) {
    let steps = weights.len().div_ceil(VECTORS);
    let blocks = steps / PAIRS;
    assert!((steps - 1) * VECTORS + R <= weights.len(), "the weights of every pair");
    assert!(((blocks - 1) * TOGETHER + Q) * LANES <= tiles.len(), "the channels of the tiles");
    assert!(((Q - 1) * VECTORS + R) * LANES <= sums.len(), "the sums");
    let mut of_tiles = [[simd.zero(); R]; Q];
    let mut weights = weights.as_ptr();
    for block in 0..blocks {
        let block = tiles.as_ptr().wrapping_add(block * TOGETHER * LANES);
        for pair in 0..PAIRS {
            let mut of_pair = [simd.zero(); R];
            for (vector, of_pair) in of_pair.iter_mut().enumerate() {
                // SAFETY: two numbers of sixteen output channels are sixteen numbers of 32 bits,
                // and every pair has its weights.
                *of_pair = unsafe { simd.load(weights.wrapping_add(vector).cast()) };
            }
            for (tile, sums) in of_tiles.iter_mut().enumerate() {
                let both = block.wrapping_add(tile * LANES + 2 * pair).cast::<i32>();
                // SAFETY: the tile has these two channels.
                let both = simd.splat(unsafe { both.read_unaligned() });
                for (sums, weights) in sums.iter_mut().zip(of_pair) {
                    *sums = simd.dot_pairs(*sums, both, weights);
                }
            }
            weights = weights.wrapping_add(VECTORS);
        }
    }
    for (tile, of_tile) in of_tiles.into_iter().enumerate() {
        for (vector, of_vector) in of_tile.into_iter().enumerate() {
            let to = sums.as_mut_ptr().wrapping_add((tile * VECTORS + vector) * LANES);
            // SAFETY: there is room for the sums of each tile.
            unsafe { simd.store(to, of_vector, LANES) };
        }
    }
}

/// `Aᵀ·m·A` without its denominators, with the initial values: the sums of sixteen pixels.
#[inline(always)]
fn outputs(sums: &[i32], start: &[i32; LANES]) -> [[i32; LANES]; TILE * TILE] {
    let at = |position: usize| -> &[i32; LANES] {
        sums[position * TOGETHER * VECTORS * LANES..].first_chunk().expect("a vector")
    };
    let mut rows = [[[0; LANES]; SIDE]; TILE];
    for column in 0..SIDE {
        let six: [&[i32; LANES]; SIDE] = std::array::from_fn(|row| at(SIDE * row + column));
        for lane in 0..LANES {
            let four = across(six.map(|of| of[lane]));
            for (row, value) in rows.iter_mut().zip(four) {
                row[column][lane] = value;
            }
        }
    }
    let mut pixels = [[0; LANES]; TILE * TILE];
    for (row, six) in rows.iter().enumerate() {
        for lane in 0..LANES {
            let four = across(six.each_ref().map(|of| of[lane]));
            for (column, value) in four.into_iter().enumerate() {
                let shift = SHIFTS[row] + SHIFTS[column];
                let sum = value.wrapping_mul(INVERSE_OF_9) >> shift;
                pixels[TILE * row + column][lane] = sum.wrapping_add(start[lane]);
            }
        }
    }
    pixels
}

/// `Aᵀ` applied to six sums, each result times its denominator. Sums wrap around.
#[inline(always)]
fn across([a, b, c, d, e, f]: [i32; SIDE]) -> [i32; TILE] {
    let (sum, difference) = (b.wrapping_add(c), b.wrapping_sub(c));
    let (far_sum, far_difference) = (d.wrapping_add(e), d.wrapping_sub(e));
    [
        a.wrapping_add(far_sum).wrapping_sub(sum.wrapping_shl(2)),
        far_difference.wrapping_sub(difference.wrapping_shl(1)),
        far_sum.wrapping_sub(sum),
        far_difference.wrapping_shl(1).wrapping_sub(difference).wrapping_add(f),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both matrices as rational numbers, times 24.
    const G: [[i32; 3]; SIDE] =
        [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]];
    const B: [[i32; SIDE]; SIDE] = [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ];
    /// What the rows of `G`, times 24, are divided by.
    const SCALES: [i32; SIDE] = [1, -4, -4, 1, 1, 4];

    #[test]
    fn the_greatest_entries_fit_their_bounds() {
        let greatest = |kernel: [i8; 9]| {
            transformed_kernel(&kernel).into_iter().map(i16::abs).max().expect("there are some")
        };
        assert_eq!(greatest([-128; 9]), 49 * 128);
        assert_eq!(9_i32.wrapping_mul(INVERSE_OF_9), 1);
        // The greatest and the least sums of one axis, then of both.
        let ends = |row: &[i32; SIDE], [low, high]: [i32; 2]| {
            let end = |x: i32, y: i32| row.iter().map(|&r| if r > 0 { r * x } else { r * y }).sum();
            [end(low, high), end(high, low)]
        };
        let both = B.iter().flat_map(|a| B.iter().map(move |b| ends(b, ends(a, [0, 255]))));
        let most = both.flatten().map(i32::abs).max();
        assert_eq!(most, Some(17_340));
    }

    #[test]
    fn weights_are_transformed_by_their_definition() {
        let kernel = [3, -5, 7, 11, -13, 17, 19, -23, 29];
        let of = |i: usize, j: usize| -> i32 {
            let sum = |k: usize, l: usize| G[i][k] * i32::from(kernel[3 * k + l]) * G[j][l];
            let all = (0..3).map(|k| (0..3).map(|l| sum(k, l)).sum::<i32>()).sum::<i32>();
            all / (SCALES[i] * SCALES[j])
        };
        let given = transformed_kernel(&kernel).map(i32::from);
        assert_eq!(given, std::array::from_fn(|position| of(position / SIDE, position % SIDE)));
    }

    #[test]
    fn channels_whose_sums_could_exceed_25_bits_are_not_bounded() {
        let most = usize::try_from(MOST_WEIGHTS).expect("it is positive");
        let weights = |sum: usize| {
            let mut weights = vec![127_i8; sum / 127];
            weights.push((sum % 127) as i8);
            weights
        };
        let fits = weights(most);
        assert!(are_bounded(&fits, fits.len()));
        let more = weights(most + 1);
        assert!(!are_bounded(&more, more.len()));
        let negative: Vec<i8> = more.iter().map(|weight| -weight).collect();
        assert!(!are_bounded(&negative, negative.len()));
        // Of several channels each counts alone.
        assert!(are_bounded(&[fits.clone(), fits.clone()].concat(), fits.len()));
    }
}
