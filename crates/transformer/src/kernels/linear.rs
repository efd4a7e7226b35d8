//! Products of large matrices, as linear layers and their gradients need them.
//!
//! # Source
//! Goto, van de Geijn 2008, "Anatomy of high-performance matrix multiplication", ACM Transactions on
//! Mathematical Software 34, 12: the right factor in panels, blocks of the left one for each thread.

use updraft_simd::matrix::{
    Left, Right, Rows, Target, multiply, pack, pack_transposed, tile_rows, width,
};
use updraft_simd::{Aligned, Cut, Isa, MAX_LANES, Pieces, Simd, dispatch, over, threads};

use super::PIECE_ROWS;
use super::linear_columns::ColumnScratch;

/// The most rows of the result that a thread computes at a time: whole tiles of every instruction set.
const ROWS: usize = 96;

/// What rows that a thread computes at a time are a multiple of, for tiles that use most registers.
const ROWS_OF_TILES: usize = 4;

/// Terms that are added before a result is written: a block of the left factor fits the second-level
/// cache.
pub(super) const TERMS: usize = 256;

/// Numbers of the right factor that stay in the second-level cache: then rows of the result are
/// written from front to back, else panels are multiplied while they are in the first-level cache.
const CACHED: usize = 384 << 10;

/// A factor in memory, `numbers` in rows of `pitch`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Factor<'a> {
    /// As it is.
    Rows(&'a [f32]),
    /// Its transpose.
    Columns(&'a [f32]),
}

/// A product `c = a·b` of `[rows, terms]` and `[terms, columns]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatrixProduct<'a> {
    pub(crate) rows: usize,
    pub(crate) terms: usize,
    pub(crate) columns: usize,
    pub(crate) a: Factor<'a>,
    pub(crate) b: Factor<'a>,
    /// What is added to each row.
    pub(crate) bias: Option<&'a [f32]>,
}

/// Work space of a product.
#[derive(Debug, Default)]
pub(crate) struct LinearScratch {
    panels: Aligned,
    threads: Vec<OfThread>,
    columns: ColumnScratch,
}

/// Work space of a thread.
#[derive(Debug, Default)]
struct OfThread {
    /// A block of the left factor.
    block: Aligned,
    /// The last panel of a result, if it is not a whole one.
    last: Aligned,
}

impl<'a> MatrixProduct<'a> {
    /// Rows of a piece of the result: as many for each thread, but for what tiles need.
    fn rows_of_piece(&self, asked_threads: usize) -> usize {
        let pieces = self.rows.div_ceil(ROWS).next_multiple_of(threads(asked_threads));
        self.rows.div_ceil(pieces).next_multiple_of(ROWS_OF_TILES).min(ROWS)
    }

    /// Numbers of a piece of the result.
    pub(crate) fn piece(&self, asked_threads: usize) -> usize {
        self.rows_of_piece(asked_threads) * self.columns
    }

    /// Computes the result in pieces of [`piece`](Self::piece) numbers.
    ///
    /// Every number is the sum of its terms in order, whatever the number of threads.
    pub(crate) fn compute<'c>(
        &self,
        isa: Isa,
        to: impl Pieces<Piece = &'c mut [f32]>,
        scratch: &mut LinearScratch,
        asked_threads: usize,
    ) {
        let (vectors, threads) = (isa.vectors(), threads(asked_threads));
        let each = self.rows_of_piece(asked_threads);
        if self.has_few_rows() {
            return self.compute_by_columns(isa, to, &mut scratch.columns, each, threads);
        }
        let width = 2 * isa.base().lanes();
        let len = self.columns.next_multiple_of(width) * self.terms;
        let panels = scratch.panels.grown(len);
        let pieces = Cut::new(&mut *panels, width * self.terms);
        over(pieces, &mut vec![(); threads], |panel, to, ()| {
            pack_panel(vectors, *self, panel, to);
        });
        if scratch.threads.len() < threads {
            scratch.threads.resize_with(threads, OfThread::default);
        }
        let panels = &*panels;
        over(to, &mut scratch.threads[..threads], |index, to, scratch| {
            rows(vectors, *self, index * each, panels, to, scratch);
        });
    }

    /// Packs tiles of some of the left factor's rows and columns.
    #[inline(always)]
    pub(super) fn pack_left<S: Simd>(
        &self,
        simd: S,
        [row, rows]: [usize; 2],
        [term, terms]: [usize; 2],
        to: &mut [f32],
    ) {
        match self.a {
            Factor::Rows(numbers) => {
                let from = &numbers[row * self.terms + term..];
                let rows = Rows { numbers: from, pitch: self.terms, count: rows, len: terms };
                pack_transposed(simd, tile_rows::<S>(), rows, to);
            }
            Factor::Columns(numbers) => {
                let from = &numbers[term * self.rows + row..];
                let rows = Rows { numbers: from, pitch: self.rows, count: terms, len: rows };
                pack(tile_rows::<S>(), rows, to);
            }
        }
    }
}

dispatch! {
    /// Packs a panel of the right factor.
    fn pack_panel(simd, product: MatrixProduct<'_>, panel: usize, to: &mut [f32]) {
        panel_of(simd, product, panel, to);
    }

    /// Computes up to `ROWS` rows of the result from `first` on.
    fn rows(simd,
        product: MatrixProduct<'_>,
        first: usize,
        panels: &[f32],
        to: &mut [f32],
        scratch: &mut OfThread,
    ) {
        rows_of(simd, product, first, panels, to, scratch);
    }
}

#[inline(always)]
fn panel_of<S: Simd>(simd: S, product: MatrixProduct<'_>, panel: usize, to: &mut [f32]) {
    let MatrixProduct { terms, columns, b, .. } = product;
    let width = width::<S>();
    let (first, count) = (panel * width, width.min(columns - panel * width));
    match b {
        Factor::Rows(numbers) => {
            let numbers = &numbers[first..];
            pack(width, Rows { numbers, pitch: columns, count: terms, len: count }, to);
        }
        Factor::Columns(numbers) => {
            let numbers = &numbers[first * terms..];
            pack_transposed(simd, width, Rows { numbers, pitch: terms, count, len: terms }, to);
        }
    }
}

#[inline(always)]
fn rows_of<S: Simd>(
    simd: S,
    product: MatrixProduct<'_>,
    first: usize,
    panels: &[f32],
    to: &mut [f32],
    scratch: &mut OfThread,
) {
    let MatrixProduct { terms, columns, bias, .. } = product;
    let width = width::<S>();
    let rows = to.len() / columns;
    let whole = columns / width * width;
    // The last tile may be a part of one, and its transpose a vector longer.
    let block = scratch.block.grown(TERMS * (ROWS + tile_rows::<S>()) + MAX_LANES);
    let last = scratch.last.grown(ROWS * width);
    if let Some(bias) = bias {
        for (row, last) in to.chunks_mut(columns).zip(last.chunks_mut(width)) {
            row.copy_from_slice(bias);
            last[..columns - whole].copy_from_slice(&bias[whole..]);
        }
    }
    for term in (0..terms).step_by(TERMS) {
        let count = TERMS.min(terms - term);
        product.pack_left(simd, [first, rows], [term, count], block);
        let left = Left::tiles::<S>(block, count);
        let into = if term > 0 || bias.is_some() { Target::Sum } else { Target::Replaced };
        let right = Right { panels: &panels[term * width..], pitch: [terms * width, width] };
        let strip = if count * whole <= CACHED { tile_rows::<S>() } else { rows };
        for (index, to) in to.chunks_mut(strip * columns).enumerate() {
            let left = Left::tiles::<S>(&block[index * strip * count..], count);
            multiply(simd, [to.len() / columns, count, whole], left, right, to, columns, into);
        }
        if whole < columns {
            let right = Right { panels: &panels[whole * terms + term * width..], ..right };
            multiply(simd, [rows, count, columns - whole], left, right, last, width, into);
        }
    }
    if whole < columns {
        for (row, last) in to.chunks_mut(columns).zip(last.chunks(width)) {
            row[whole..].copy_from_slice(&last[..columns - whole]);
        }
    }
}

/// Computes the sum of each column of rows as long as `sums`.
pub(crate) fn column_sums(isa: Isa, rows: &[f32], sums: &mut [f32], asked_threads: usize) {
    let (vectors, len) = (isa.vectors(), sums.len());
    let piece = PIECE_ROWS * len;
    let mut partial = vec![0.0; rows.len().div_ceil(piece) * len];
    let pieces = Cut::new(&mut partial, len);
    over(pieces, &mut vec![(); threads(asked_threads)], |index, sums, ()| {
        let rows = &rows[index * piece..];
        add_rows(vectors, &rows[..piece.min(rows.len())], sums);
    });
    sums.fill(0.0);
    add_rows(vectors, &partial, sums);
}

dispatch! {
    /// Adds rows to their sums.
    fn add_rows(_simd, rows: &[f32], sums: &mut [f32]) {
        for row in rows.chunks(sums.len()) {
            for (sum, number) in sums.iter_mut().zip(row) {
                *sum += number;
            }
        }
    }
}
