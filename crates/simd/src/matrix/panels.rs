//! Right factors of products, reordered so that a tile reads them from front to back.
#![expect(unsafe_code, reason = "squares are transposed through pointers that were checked")]

use crate::Simd;

/// Columns of a panel: two vectors.
#[must_use]
pub const fn width<S: Simd>() -> usize {
    2 * S::LANES
}

/// Columns with those that fill the last panel.
#[must_use]
pub const fn padded<S: Simd>(columns: usize) -> usize {
    columns.next_multiple_of(width::<S>())
}

/// Rows of numbers in memory.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// From the first number of the first row.
    pub numbers: &'a [f32],
    /// Numbers from row to row.
    pub pitch: usize,
    /// How many rows there are.
    pub count: usize,
    /// Numbers of a row.
    pub len: usize,
}

impl<'a> Rows<'a> {
    /// One of them.
    ///
    /// # Panics
    /// If there are not as many.
    #[inline(always)]
    #[must_use]
    pub fn row(&self, row: usize) -> &'a [f32] {
        &self.numbers[row * self.pitch..][..self.len]
    }

    /// The same without gaps: rows at a multiple of the cache's pages would share few of its lines.
    ///
    /// # Panics
    /// If a row is missing.
    #[must_use]
    pub fn gathered<'b>(&self, to: &'b mut [f32]) -> Rows<'b> {
        for (row, to) in to.chunks_mut(self.len).enumerate() {
            to.copy_from_slice(self.row(row));
        }
        Rows { numbers: to, pitch: self.len, count: self.count, len: self.len }
    }

    /// Some of them.
    ///
    /// # Panics
    /// If the first of them is missing.
    #[must_use]
    pub fn range(&self, first: usize, count: usize) -> Self {
        Self { numbers: &self.numbers[first * self.pitch..], count, ..*self }
    }
}

/// Packs rows: `panel[p][row][lane] = rows[row][p·width + lane]`, 0 behind the last column.
///
/// # Panics
/// If a row is missing or the panels are too short.
#[inline(always)]
pub fn pack(width: usize, rows: Rows<'_>, panels: &mut [f32]) {
    let depth = rows.count;
    for row in 0..depth {
        let mut whole = rows.row(row).chunks_exact(width);
        for (panel, columns) in whole.by_ref().enumerate() {
            panels[(panel * depth + row) * width..][..width].copy_from_slice(columns);
        }
        let rest = whole.remainder();
        if !rest.is_empty() {
            let to = &mut panels[(rows.len / width * depth + row) * width..][..width];
            to[..rest.len()].copy_from_slice(rest);
            to[rest.len()..].fill(0.0);
        }
    }
}

/// Packs the transpose of rows: `panel[p][k][lane] = rows[p·width + lane][k]`, 0 behind the last row.
///
/// # Panics
/// If a row is missing or the panels are too short.
#[inline(always)]
pub fn pack_transposed<S: Simd>(simd: S, width: usize, rows: Rows<'_>, panels: &mut [f32]) {
    let depth = rows.len;
    for panel in 0..rows.count.div_ceil(width) {
        let panel_rows = rows.range(panel * width, width.min(rows.count - panel * width));
        let to = &mut panels[panel * depth * width..];
        if panel_rows.count < width {
            to[..depth * width].fill(0.0);
        }
        for first in (0..depth).step_by(S::LANES) {
            let columns = S::LANES.min(depth - first);
            for lane in (0..panel_rows.count).step_by(S::LANES) {
                let square = Square { rows: panel_rows, row: lane, column: first, width };
                if columns < S::LANES || !square.transpose(simd, to) {
                    square.copy(columns, S::LANES, to);
                }
            }
        }
    }
}

/// Some lanes and columns of a panel, from a first row and column on.
struct Square<'a> {
    rows: Rows<'a>,
    row: usize,
    column: usize,
    width: usize,
}

impl Square<'_> {
    /// Transposes as many rows and columns as a vector has lanes, and returns whether there are as many.
    ///
    /// A panel whose width is no multiple of that has rows of the next one behind the last of its lanes,
    /// which what is packed later replaces.
    #[inline(always)]
    fn transpose<S: Simd>(&self, simd: S, to: &mut [f32]) -> bool {
        let Self { rows, row, column, width } = *self;
        let (from, place) = (row * rows.pitch + column, column * width + row);
        let last = S::LANES - 1;
        let is_whole = rows.count == width
            && from + last * rows.pitch + S::LANES <= rows.numbers.len()
            && place + last * width + S::LANES <= to.len();
        if is_whole {
            let from = rows.numbers[from..].as_ptr();
            let to = to[place..].as_mut_ptr();
            // SAFETY: both squares end within their slices, as was just compared.
            unsafe { simd.transpose(from, rows.pitch, to, width) };
        }
        is_whole
    }

    /// Copies number by number, up to `lanes` rows.
    #[inline(always)]
    fn copy(&self, columns: usize, lanes: usize, to: &mut [f32]) {
        let Self { rows, row, column, width } = *self;
        for row in row..rows.count.min(row + lanes) {
            let from = &rows.row(row)[column..][..columns];
            for (k, &number) in from.iter().enumerate() {
                to[(column + k) * width + row] = number;
            }
        }
    }
}
