//! Planes with zeros around them that are not stored: a depthwise convolution reads the plane itself.

use std::ops::Range;

use updraft_simd::MAX_LANES;

/// Rows and columns of a window. More weights than these leave no register for sums.
pub(crate) const WINDOW: usize = 3;

/// Most rows of windows that are computed together where rows of zeros are among those read.
pub(super) const ROWS: usize = 4;

/// The rows that they read.
const READ: usize = ROWS + WINDOW - 1;

/// Taps of a row of windows at which some meet columns outside of the plane, a bit for each: none, the
/// first or the last alone, or any.
pub(super) const NOWHERE: u8 = 0;
pub(super) const AT_FIRST: u8 = 1;
pub(super) const AT_LAST: u8 = 1 << (WINDOW - 1);
pub(super) const ANYWHERE: u8 = (1 << WINDOW) - 1;

/// Numbers before and after a plane that are read with it, and left out.
pub(crate) const AROUND: usize = MAX_LANES + WINDOW - 1;

/// Windows that are moved by one pixel over planes of one size with zeros around them.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Height and width of a plane.
    plane: [usize; 2],
    /// Rows and columns of zeros before it.
    before: [usize; 2],
    /// Rows and columns of windows.
    windows: [usize; 2],
    /// A row of zeros with what is around it.
    zeros: Vec<f32>,
    /// Of a row with what is around it: 0 in the plane, 1 elsewhere.
    outside: Vec<f32>,
}

impl Frame {
    /// `windows` rows and columns of windows over planes with at most two rows and columns of zeros
    /// before and after them.
    pub(crate) fn new(plane: [usize; 2], before: [usize; 2], windows: [usize; 2]) -> Self {
        for axis in 0..2 {
            let read = windows[axis] + WINDOW - 1;
            let most = before[axis] + plane[axis] + WINDOW - 1;
            assert!(before[axis] < WINDOW && read <= most, "windows meet the plane");
        }
        let zeros = vec![0.0; plane[1] + 2 * AROUND];
        let mut outside = vec![1.0; zeros.len()];
        outside[AROUND..][..plane[1]].fill(0.0);
        Self { plane, before, windows, zeros, outside }
    }

    /// Rows and columns of windows.
    pub(crate) const fn windows(&self) -> [usize; 2] {
        self.windows
    }

    /// Numbers of a plane.
    pub(crate) const fn plane_len(&self) -> usize {
        self.plane[0] * self.plane[1]
    }

    /// Whether a plane has this many numbers, with those around it.
    pub(crate) const fn fits(&self, numbers: &[f32]) -> bool {
        numbers.len() == self.plane_len() + 2 * AROUND
    }

    /// Where the rows below the first window of `row` are read in a plane that [fits](Self::fits).
    #[inline(always)]
    pub(super) fn rows(&self, plane: &[f32], row: usize) -> [*const f32; READ] {
        let ([height, width], [above, before]) = (self.plane, self.before);
        let mut rows = [self.zeros.as_ptr(); READ];
        for (index, from) in rows.iter_mut().enumerate() {
            let row = (row + index).wrapping_sub(above);
            if row < height {
                *from = plane.as_ptr().wrapping_add(row * width);
            }
        }
        rows.map(|from| from.wrapping_add(AROUND - before))
    }

    /// The same where `count` rows of windows exist that meet rows of the plane alone.
    #[inline(always)]
    pub(super) fn inside_rows(&self, plane: &[f32], row: usize, count: usize) -> Option<Neighbors> {
        let ([height, width], [above, before]) = (self.plane, self.before);
        let end = row + count;
        if row < above || end + WINDOW - 1 > above + height || end > self.windows[0] {
            return None;
        }
        let start = AROUND - before + (row - above) * width;
        Some(Neighbors { start: plane.as_ptr().wrapping_add(start), pitch: width })
    }

    /// The columns that whole vectors of windows begin at which meet columns of the plane alone: the
    /// ends are multiples of `lanes`.
    #[inline(always)]
    pub(super) fn inside_columns(&self, lanes: usize) -> Range<usize> {
        let end = (self.before[1] + self.plane[1] + 1).saturating_sub(WINDOW);
        self.before[1].next_multiple_of(lanes)..end.min(self.windows[1]) / lanes * lanes
    }

    /// Where it is read whether numbers of a row lie outside of the plane.
    #[inline(always)]
    pub(super) fn outside(&self) -> *const f32 {
        self.outside.as_ptr().wrapping_add(AROUND - self.before[1])
    }

    /// A bit for each tap of a row at which a vector of windows from `column` on meets columns
    /// outside of the plane.
    #[inline(always)]
    pub(super) const fn over(&self, column: usize, lanes: usize) -> u8 {
        let (before, width) = (self.before[1], self.plane[1]);
        let (mut over, mut tap) = (NOWHERE, 0);
        while tap < WINDOW {
            let first = column + tap;
            if first < before || first + lanes > before + width {
                over |= 1 << tap;
            }
            tap += 1;
        }
        over
    }
}

/// Where rows of a plane are read, that of the first window's first column.
pub(super) trait Rows: Copy {
    /// In the row with this index.
    fn at(self, row: usize) -> *const f32;
}

impl Rows for [*const f32; READ] {
    #[inline(always)]
    fn at(self, row: usize) -> *const f32 {
        self[row]
    }
}

/// Neighboring rows of a plane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Neighbors {
    start: *const f32,
    pitch: usize,
}

impl Rows for Neighbors {
    #[inline(always)]
    fn at(self, row: usize) -> *const f32 {
        self.start.wrapping_add(row * self.pitch)
    }
}

/// A plane with what is around it, where both exist, or a copy with zeros around it in `own`.
pub(crate) fn surrounded<'a>(
    planes: &'a [f32],
    [first, count]: [usize; 2],
    own: &'a mut [f32],
) -> &'a [f32] {
    let read = count + 2 * AROUND;
    if let Some(around) = first.checked_sub(AROUND)
        && let Some(plane) = planes.get(around..around + read)
    {
        return plane;
    }
    let own = &mut own[..read];
    own[..AROUND].fill(0.0);
    own[AROUND..][..count].copy_from_slice(&planes[first..][..count]);
    own[AROUND + count..].fill(0.0);
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plane of 3 × 20 with its numbers from 1 on, and 9 around it.
    fn plane() -> Vec<f32> {
        let mut plane = vec![9.0; 60 + 2 * AROUND];
        (0..60).for_each(|at| plane[AROUND + at] = (at + 1) as f32);
        plane
    }

    /// The index in the plane with what is around it; `None` in another allocation.
    fn place(plane: &[f32], from: *const f32) -> Option<usize> {
        (0..plane.len()).find(|&at| std::ptr::eq(&raw const plane[at], from))
    }

    #[test]
    fn rows_above_and_below_a_plane_are_zeros() {
        let frame = Frame::new([3, 20], [1, 2], [3, 20]);
        let plane = plane();
        assert!(frame.fits(&plane));
        let at = |row: usize| Some(AROUND - 2 + row * 20);
        let rows = frame.rows(&plane, 0).map(|from| place(&plane, from));
        assert_eq!(rows, [None, at(0), at(1), at(2), None, None]);
        let inside = frame.inside_rows(&plane, 1, 1).expect("the middle row meets no zeros");
        assert_eq!([0, 1, 2].map(|row| place(&plane, inside.at(row))), [at(0), at(1), at(2)]);
        for (row, count) in [(0, 1), (1, 2), (2, 1)] {
            assert!(frame.inside_rows(&plane, row, count).is_none(), "{row}, {count}");
        }
    }

    #[test]
    fn vectors_of_windows_meet_the_sides_at_some_taps() {
        // Windows 0 to 21 meet the columns from two before theirs on.
        let frame = Frame::new([3, 20], [2, 2], [5, 22]);
        assert_eq!(frame.inside_columns(8), 8..16);
        assert_eq!(frame.over(0, 8), 0b011);
        assert_eq!(frame.over(1, 8), AT_FIRST);
        assert_eq!(frame.over(8, 8), NOWHERE);
        assert_eq!(frame.over(13, 8), AT_LAST);
        assert_eq!(frame.over(14, 8), 0b110);
        assert_eq!(frame.over(0, 32), ANYWHERE);
        assert_eq!(Frame::new([3, 20], [0, 0], [1, 18]).inside_columns(8), 0..16);
    }

    #[test]
    fn a_plane_is_read_where_it_is_if_there_are_numbers_around_it() {
        let planes: Vec<f32> = (0..100).map(|at| at as f32).collect();
        let mut own = vec![f32::NAN; 40 + 2 * AROUND];
        let middle = surrounded(&planes, [30, 40], &mut own);
        assert!(std::ptr::eq(middle, &planes[30 - AROUND..70 + AROUND]));
        for first in [0, 60] {
            let copied = surrounded(&planes, [first, 40], &mut own);
            assert_eq!(copied[AROUND..][..40], planes[first..][..40]);
            let around = copied[..AROUND].iter().chain(&copied[AROUND + 40..]);
            assert!(around.into_iter().all(|&number| number == 0.0), "{first}");
        }
    }
}
