//! Products of large matrices of factors rounded to bf16, with sums in f32.

use updraft_simd::{
    BF16_SQUARE, Bf16Factor, Bf16Unit, Cut, Isa, Pieces, Square, TILE_LANES, TILE_TERMS, Tile,
    grown, over, pack_left, pack_right, threads,
};

use super::linear::{Factor, MatrixProduct};

/// The most rows of the result that a thread computes at a time: their tiles fit the second-level
/// cache.
const ROWS: usize = 128;

/// Work space of a product.
#[derive(Debug, Default)]
pub(crate) struct Bf16Scratch {
    right: Vec<Tile>,
    threads: Vec<OfThread>,
}

/// Work space of a thread.
#[derive(Debug, Default)]
struct OfThread {
    left: Vec<Tile>,
    square: Square,
}

impl MatrixProduct<'_> {
    /// Rows of a piece of the result: whole squares, as many for each thread if possible.
    fn rows_of_bf16_piece(&self, asked_threads: usize) -> usize {
        let pieces = self.rows.div_ceil(ROWS).next_multiple_of(threads(asked_threads));
        self.rows.div_ceil(pieces).next_multiple_of(BF16_SQUARE)
    }

    /// Numbers of a piece of the result of [`compute_in_bf16`](Self::compute_in_bf16).
    pub(crate) fn bf16_piece(&self, asked_threads: usize) -> usize {
        self.rows_of_bf16_piece(asked_threads) * self.columns
    }

    /// Computes the result from factors rounded to bf16, in pieces of
    /// [`bf16_piece`](Self::bf16_piece) numbers.
    ///
    /// Every number is the sum of its terms in the order of the unit, whatever the number of threads
    /// and whatever computes it.
    pub(crate) fn compute_in_bf16<'c>(
        &self,
        unit: Bf16Unit,
        isa: Isa,
        to: impl Pieces<Piece = &'c mut [f32]>,
        scratch: &mut Bf16Scratch,
        asked_threads: usize,
    ) {
        let Self { rows, terms, columns, .. } = *self;
        let (vectors, threads) = (isa.vectors(), threads(asked_threads));
        let steps = terms.div_ceil(TILE_TERMS);
        let a = bf16_factor(self.a, [terms, rows], true);
        let b = bf16_factor(self.b, [columns, terms], false);
        let tiles = columns.div_ceil(BF16_SQUARE) * 2;
        let right = grown(&mut scratch.right, tiles * steps);
        over(Cut::new(&mut *right, steps), &mut vec![(); threads], |tile, to, ()| {
            let first = tile * TILE_LANES;
            match TILE_LANES.min(columns.saturating_sub(first)) {
                0 => to.fill(Tile::default()),
                count => pack_right(vectors, b, [first, 0], [count, terms], to),
            }
        });
        if scratch.threads.len() < threads {
            scratch.threads.resize_with(threads, OfThread::default);
        }
        let (right, each) = (&*right, self.rows_of_bf16_piece(asked_threads));
        over(to, &mut scratch.threads[..threads], |index, to, OfThread { left, square }| {
            let count = to.len() / columns;
            let left = grown(left, count.next_multiple_of(BF16_SQUARE) / TILE_LANES * steps);
            for (tile, left) in left.chunks_mut(steps).enumerate() {
                match TILE_LANES.min(count.saturating_sub(tile * TILE_LANES)) {
                    0 => left.fill(Tile::default()),
                    lanes => {
                        let first = [index * each + tile * TILE_LANES, 0];
                        pack_left(vectors, a, first, [lanes, terms], left);
                    }
                }
            }
            unit.run(|multiply| {
                for (panel, b) in right.chunks(2 * steps).enumerate() {
                    let b = b.split_at(steps);
                    let strips = to.chunks_mut(BF16_SQUARE * columns);
                    for (to, a) in strips.zip(left.chunks(2 * steps)) {
                        let a = a.split_at(steps);
                        multiply(square, [a.0, a.1], [b.0, b.1]);
                        self.write(panel * BF16_SQUARE, square, to);
                    }
                }
            });
        });
    }

    /// Writes a square with its bias to rows of the result, from a column on.
    fn write(&self, column: usize, square: &Square, to: &mut [f32]) {
        let count = BF16_SQUARE.min(self.columns - column);
        let bias = self.bias.map(|bias| &bias[column..][..count]);
        for (to, from) in to.chunks_mut(self.columns).zip(&square.0) {
            let to = &mut to[column..][..count];
            match bias {
                None => to.copy_from_slice(&from[..count]),
                Some(bias) => {
                    for ((to, from), bias) in to.iter_mut().zip(from).zip(bias) {
                        *to = from + bias;
                    }
                }
            }
        }
    }
}

/// A factor whose lanes are rows of the result if `is_left`, else columns; `pitch` is that of its rows
/// and of its transpose's.
fn bf16_factor(factor: Factor<'_>, pitch: [usize; 2], is_left: bool) -> Bf16Factor<'_> {
    match factor {
        Factor::Rows(numbers) => Bf16Factor { numbers, pitch: pitch[0], rows_are_lanes: is_left },
        Factor::Columns(numbers) => {
            Bf16Factor { numbers, pitch: pitch[1], rows_are_lanes: !is_left }
        }
    }
}
