//! Products of few rows with large right factors: a thread packs some columns of the right factor and
//! multiplies them while they are in its cache, so that the factor is read from memory once.

use updraft_simd::matrix::{Left, Right, Rows, Target, multiply, pack, pack_transposed, width};
use updraft_simd::{Aligned, Cut, Isa, Pieces, Simd, dispatch, over};

use super::linear::{Factor, MatrixProduct, TERMS};

/// The most rows of such a product: with more, packing the right factor once for all threads takes
/// little of the time.
const MOST_ROWS: usize = 256;

/// Panels of the right factor that are packed together: their parts of a row are neighbors in memory.
const PANELS: usize = 4;

/// Rows that a packed left factor has a multiple of, whole tiles of every instruction set.
const TILE_ROWS: usize = 12;

/// Work space of a product.
#[derive(Debug, Default)]
pub(crate) struct ColumnScratch {
    left: Aligned,
    /// The result, columns by columns.
    results: Aligned,
    /// A part of the right factor for each thread.
    panels: Vec<Aligned>,
}

/// The whole left factor, packed.
#[derive(Debug, Clone, Copy)]
struct Packed<'a> {
    numbers: &'a [f32],
    /// Its rows with those that fill the last tile.
    rows: usize,
}

impl MatrixProduct<'_> {
    pub(super) const fn has_few_rows(&self) -> bool {
        self.rows <= MOST_ROWS
    }

    /// Computes the result in pieces of [`piece`](Self::piece) numbers.
    pub(super) fn compute_by_columns<'c>(
        &self,
        isa: Isa,
        to: impl Pieces<Piece = &'c mut [f32]>,
        scratch: &mut ColumnScratch,
        rows_of_piece: usize,
        threads: usize,
    ) {
        let Self { rows, terms, columns, .. } = *self;
        let (vectors, width) = (isa.vectors(), 2 * isa.base().lanes());
        let packed_rows = rows.next_multiple_of(TILE_ROWS);
        let left = scratch.left.grown(packed_rows * terms);
        let pieces = Cut::new(&mut *left, packed_rows * TERMS);
        over(pieces, &mut vec![(); threads], |block, to, ()| {
            pack_terms(vectors, *self, block * TERMS, to);
        });
        let left = Packed { numbers: left, rows: packed_rows };
        let parts = columns.div_ceil(PANELS * width).next_multiple_of(threads);
        let each = columns.div_ceil(width).div_ceil(parts) * width;
        let results = scratch.results.grown(columns.div_ceil(each) * rows * each);
        if scratch.panels.len() < threads {
            scratch.panels.resize_with(threads, Aligned::default);
        }
        let pieces = Cut::new(&mut *results, rows * each);
        over(pieces, &mut scratch.panels[..threads], |part, to, panels| {
            some_columns(vectors, *self, left, [part * each, each], to, panels);
        });
        let results = &*results;
        over(to, &mut vec![(); threads], |piece, to, ()| {
            for (row, to) in to.chunks_mut(columns).enumerate() {
                let row = piece * rows_of_piece + row;
                for (part, to) in to.chunks_mut(each).enumerate() {
                    to.copy_from_slice(&results[(part * rows + row) * each..][..to.len()]);
                }
            }
        });
    }
}

dispatch! {
    /// Packs the columns of the left factor from a term on.
    fn pack_terms(simd, product: MatrixProduct<'_>, term: usize, to: &mut [f32]) {
        let count = TERMS.min(product.terms - term);
        product.pack_left(simd, [0, product.rows], [term, count], to);
    }

    /// Computes columns of the result, from a first one on at most so many.
    fn some_columns(simd,
        product: MatrixProduct<'_>,
        left: Packed<'_>,
        place: [usize; 2],
        to: &mut [f32],
        panels: &mut Aligned,
    ) {
        columns_of(simd, product, left, place, to, panels);
    }
}

#[inline(always)]
fn columns_of<S: Simd>(
    simd: S,
    product: MatrixProduct<'_>,
    left: Packed<'_>,
    [first, each]: [usize; 2],
    to: &mut [f32],
    panels: &mut Aligned,
) {
    let MatrixProduct { rows, terms, columns, b, bias, .. } = product;
    let (width, count) = (width::<S>(), each.min(columns - first));
    if let Some(bias) = bias {
        for row in to.chunks_exact_mut(each) {
            row[..count].copy_from_slice(&bias[first..][..count]);
            row[count..].fill(0.0);
        }
    }
    let panels = panels.grown(each * TERMS);
    for term in (0..terms).step_by(TERMS) {
        let steps = TERMS.min(terms - term);
        match b {
            Factor::Rows(numbers) => {
                let numbers = &numbers[term * columns + first..];
                pack(width, Rows { numbers, pitch: columns, count: steps, len: count }, panels);
            }
            Factor::Columns(numbers) => {
                let numbers = &numbers[first * terms + term..];
                let rows = Rows { numbers, pitch: terms, count, len: steps };
                pack_transposed(simd, width, rows, panels);
            }
        }
        let left = Left::tiles::<S>(&left.numbers[left.rows * term..], steps);
        let into = if term > 0 || bias.is_some() { Target::Sum } else { Target::Replaced };
        let right = Right { panels, pitch: [steps * width, width] };
        multiply(simd, [rows, steps, count], left, right, to, each, into);
    }
}
