//! Weights, packed for products.

use updraft_simd::matrix::Rows;

/// Packs rows into panels of `depth` lines, from line `first` on:
/// `panel[p][first + row][lane] = rows[row][p·width + lane]`, 0 behind the last column.
#[inline(always)]
pub(super) fn pack_rows(
    width: usize,
    rows: Rows<'_>,
    panels: &mut [f32],
    depth: usize,
    first: usize,
) {
    for row in 0..rows.count {
        let columns = &rows.numbers[row * rows.pitch..][..rows.len];
        for (panel, columns) in columns.chunks(width).enumerate() {
            let to = &mut panels[(panel * depth + first + row) * width..][..width];
            if columns.len() == width {
                to.copy_from_slice(columns);
            } else {
                to[..columns.len()].copy_from_slice(columns);
                to[columns.len()..].fill(0.0);
            }
        }
    }
}
