//! Products of small matrices: tiles of registers over packed panels.
#![expect(unsafe_code, reason = "operands are read through pointers, checked once for a product")]

use super::panels::width;
use crate::Simd;

/// Rows of the tallest tile.
#[must_use]
pub const fn tile_rows<S: Simd>() -> usize {
    if S::LANES == 16 { 12 } else { 6 }
}

/// The left factor.
#[derive(Debug, Clone, Copy)]
pub struct Left<'a> {
    numbers: &'a [f32],
    /// Numbers from row to row of a tile, and from one `k` to the next.
    pitch: [usize; 2],
    /// Rows of a tile, and numbers from tile to tile.
    tile: [usize; 2],
}

impl<'a> Left<'a> {
    /// `a[row·pitch[0] + k·pitch[1]]`.
    #[must_use]
    pub const fn new(numbers: &'a [f32], pitch: [usize; 2]) -> Self {
        Self { numbers, pitch, tile: [usize::MAX, 0] }
    }

    /// Tiles of [`tile_rows`] rows, packed as panels of that width: a tile is read from front to back.
    #[must_use]
    pub const fn tiles<S: Simd>(numbers: &'a [f32], depth: usize) -> Self {
        let rows = tile_rows::<S>();
        Self { numbers, pitch: [1, rows], tile: [rows, depth * rows] }
    }

    /// Where a row begins.
    #[inline(always)]
    const fn row(&self, row: usize) -> usize {
        let [rows, pitch] = self.tile;
        row / rows * pitch + row % rows * self.pitch[0]
    }
}

/// The right factor, packed.
#[derive(Debug, Clone, Copy)]
pub struct Right<'a> {
    /// From the first `k` of the first panel.
    pub panels: &'a [f32],
    /// Numbers from panel to panel, and from one `k` to the next.
    pub pitch: [usize; 2],
}

/// What a product does to the numbers of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// They are replaced.
    Replaced,
    /// The product is added to them.
    Sum,
}

/// Steps of `k` between two accesses to the result: a panel of as many stays in the nearest cache.
const DEPTH: usize = 512;

/// `c = a·b` or `c += a·b`, of `[rows, depth, columns]`; the rows of `c` lie `c_pitch` apart and have
/// room for whole vectors.
///
/// # Panics
/// If a factor or the result is too short.
#[inline(always)]
pub fn multiply<S: Simd>(
    simd: S,
    [rows, depth, columns]: [usize; 3],
    left: Left<'_>,
    right: Right<'_>,
    c: &mut [f32],
    c_pitch: usize,
    into: Target,
) {
    let width = width::<S>();
    let panels = columns.div_ceil(width);
    if rows == 0 || panels == 0 {
        return;
    }
    assert!(depth > 0, "a product has terms");
    let last = left.row(rows - 1) + (depth - 1) * left.pitch[1];
    assert!(last < left.numbers.len(), "the left factor is too short");
    let filled = columns.next_multiple_of(S::LANES);
    let of_last = filled - (panels - 1) * width;
    let last = (panels - 1) * right.pitch[0] + (depth - 1) * right.pitch[1] + of_last;
    assert!(last <= right.panels.len(), "panels are missing");
    let before = panels.saturating_sub(2) * right.pitch[0] + (depth - 1) * right.pitch[1] + width;
    assert!(panels == 1 || before <= right.panels.len(), "panels are missing");
    assert!((rows - 1) * c_pitch + filled <= c.len(), "the result is too short");
    for first in (0..depth).step_by(DEPTH) {
        let steps = DEPTH.min(depth - first);
        let adds = first > 0 || into == Target::Sum;
        for panel in 0..panels {
            // The last columns may need one vector of the panel alone.
            let is_half = panel + 1 == panels && of_last == S::LANES;
            // SAFETY: the panel lies in the factor, as asserted.
            let b = unsafe {
                right.panels.as_ptr().add(panel * right.pitch[0] + first * right.pitch[1])
            };
            let mut row = 0;
            while row < rows {
                // SAFETY: the row lies in the factor, as asserted.
                let a = unsafe { left.numbers.as_ptr().add(left.row(row) + first * left.pitch[1]) };
                // SAFETY: the row lies in the result, as asserted.
                let to = unsafe { c.as_mut_ptr().add(row * c_pitch + panel * width) };
                let pitch = [left.pitch[0], left.pitch[1], right.pitch[1]];
                let tile = Tile { steps, a, b, pitch, to, to_pitch: c_pitch, adds };
                let tallest = (rows - row).min(left.tile[0] - row % left.tile[0]);
                row += if is_half {
                    tile.tallest::<S, 1>(simd, tallest)
                } else {
                    tile.tallest::<S, 2>(simd, tallest)
                };
            }
        }
    }
}

/// Some rows of a panel's product.
#[derive(Clone, Copy)]
struct Tile {
    steps: usize,
    a: *const f32,
    b: *const f32,
    /// Of the left factor from row to row and from one `k` to the next, and of the right one.
    pitch: [usize; 3],
    to: *mut f32,
    to_pitch: usize,
    adds: bool,
}

impl Tile {
    /// Computes as many rows as there are registers for, at most `rows`, of `N` vectors of the panel,
    /// and returns how many.
    #[inline(always)]
    fn tallest<S: Simd, const N: usize>(self, simd: S, rows: usize) -> usize {
        // Sixteen rows are two tiles of eight: tiles of four would wait for their sums.
        if S::LANES == 16 && (rows == 12 || rows >= 20) {
            self.rows::<S, 12, N>(simd)
        } else if S::LANES == 16 && rows >= 8 {
            self.rows::<S, 8, N>(simd)
        } else if rows >= 6 {
            self.rows::<S, 6, N>(simd)
        } else if rows >= 4 {
            self.rows::<S, 4, N>(simd)
        } else {
            self.rows::<S, 1, N>(simd)
        }
    }

    #[inline(always)]
    fn rows<S: Simd, const R: usize, const N: usize>(self, simd: S) -> usize {
        let mut sums = [[simd.zero(); N]; R];
        if self.adds {
            for (row, sums) in sums.iter_mut().enumerate() {
                for (half, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: `multiply` asserts that the result has these rows and whole vectors.
                    *sum = unsafe { simd.load(self.at(row, half * S::LANES)) };
                }
            }
        }
        for k in 0..self.steps {
            let ahead = self.b.wrapping_add((k + 16) * self.pitch[2]);
            simd.prefetch(ahead);
            simd.prefetch(ahead.wrapping_add(16));
            let b = self.b.wrapping_add(k * self.pitch[2]);
            let mut right = [simd.zero(); N];
            for (half, right) in right.iter_mut().enumerate() {
                // SAFETY: `multiply` asserts that the panel has as many steps.
                *right = unsafe { simd.load(b.wrapping_add(half * S::LANES)) };
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                let a = self.a.wrapping_add(row * self.pitch[0] + k * self.pitch[1]);
                // SAFETY: `multiply` asserts that the factor has these rows and steps.
                let a = unsafe { *a };
                let a = simd.splat(a);
                for (sum, &right) in sums.iter_mut().zip(&right) {
                    *sum = simd.multiply_add(*sum, a, right);
                }
            }
        }
        // By reference: an iterator that owns so many sums moves them through memory one by one.
        for (row, sums) in sums.iter().enumerate() {
            for (half, &sum) in sums.iter().enumerate() {
                // SAFETY: `multiply` asserts that the result has these rows and whole vectors.
                unsafe { simd.store(self.at(row, half * S::LANES), sum) };
            }
        }
        R
    }

    /// A place in the result.
    #[inline(always)]
    fn at(self, row: usize, column: usize) -> *mut f32 {
        self.to.wrapping_add(row * self.to_pitch + column)
    }
}
