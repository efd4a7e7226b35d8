//! Right factors of products, reordered so that a tile reads them from front to back.

use updraft_simd::Simd;

/// Columns of a panel: two vectors.
pub(super) const fn width<S: Simd>() -> usize {
    2 * S::LANES
}

/// Columns with those that fill the last panel.
pub(super) const fn padded<S: Simd>(columns: usize) -> usize {
    columns.next_multiple_of(width::<S>())
}

/// Rows of numbers in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<'a> {
    /// From the first number of the first row.
    pub(super) numbers: &'a [f32],
    /// Numbers from row to row.
    pub(super) pitch: usize,
    pub(super) count: usize,
    /// Numbers of a row.
    pub(super) len: usize,
}

impl<'a> Rows<'a> {
    pub(super) fn row(&self, row: usize) -> &'a [f32] {
        &self.numbers[row * self.pitch..][..self.len]
    }

    /// The same without gaps: rows at a multiple of the cache's pages would share few of its lines.
    pub(super) fn gathered<'b>(&self, to: &'b mut [f32]) -> Rows<'b> {
        for (row, to) in to.chunks_mut(self.len).enumerate() {
            to.copy_from_slice(self.row(row));
        }
        Rows { numbers: to, pitch: self.len, count: self.count, len: self.len }
    }

    /// Some of them.
    pub(super) fn range(&self, first: usize, count: usize) -> Self {
        Self { numbers: &self.numbers[first * self.pitch..], count, ..*self }
    }
}

/// Packs rows: `panel[p][row][lane] = rows[row][p·width + lane]`, 0 behind the last column.
#[inline(always)]
pub(super) fn pack(width: usize, rows: Rows<'_>, panels: &mut [f32]) {
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
#[inline(always)]
pub(super) fn pack_transposed(width: usize, rows: Rows<'_>, panels: &mut [f32]) {
    /// Rows and columns of a square that stays in registers or the nearest cache.
    const SQUARE: usize = 16;
    let depth = rows.len;
    for panel in 0..rows.count.div_ceil(width) {
        let panel_rows = rows.range(panel * width, width.min(rows.count - panel * width));
        let to = &mut panels[panel * depth * width..][..depth * width];
        if panel_rows.count < width {
            to.fill(0.0);
        }
        for first in (0..depth).step_by(SQUARE) {
            let columns = SQUARE.min(depth - first);
            for lane in 0..panel_rows.count {
                let row = &panel_rows.row(lane)[first..][..columns];
                for (k, &number) in row.iter().enumerate() {
                    to[(first + k) * width + lane] = number;
                }
            }
        }
    }
}
