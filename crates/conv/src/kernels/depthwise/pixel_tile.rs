//! Windows of three by three over a plane of their own: lanes are pixels of a row.
//!
//! Some rows of results are summed together: a vector of the image is read once for all of them.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::{MAX_LANES, Simd, Vectors, dispatch};

use super::frame::{ANYWHERE, AT_FIRST, AT_LAST, Frame, NOWHERE, ROWS, Rows, WINDOW};

/// Rows of results that long vectors sum together: 32 registers hold the sums and the weights.
const LONG_ROWS: usize = 8;

/// A window that is moved by one pixel over a plane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaneJob<'a> {
    pub(crate) frame: &'a Frame,
    /// The plane with what is around it.
    pub(crate) plane: &'a [f32],
    /// `[rows][columns]` of the window.
    pub(crate) weights: &'a [f32; WINDOW * WINDOW],
    /// The initial value of each sum.
    pub(crate) start: f32,
}

impl PlaneJob<'_> {
    /// Numbers that are written; if rows are shorter than a vector, a part of one behind the plane.
    pub(crate) fn written(lanes: usize, [rows, columns]: [usize; 2]) -> usize {
        (rows - 1) * columns + columns.max(lanes)
    }

    /// Computes the plane `[rows][columns]` of results, at the start of `output`.
    ///
    /// # Panics
    /// If a slice does not fit the frame.
    pub(crate) fn run(&self, vectors: Vectors, output: &mut [f32]) {
        assert!(self.frame.fits(self.plane), "a plane with what is around it");
        let written = Self::written(vectors.isa().lanes(), self.frame.windows());
        assert!(written <= output.len(), "the output is too short");
        plane(vectors, self, output);
    }
}

/// The whole plane.
///
/// # Safety
/// [`PlaneJob::run`] has checked the job and the output.
#[inline(always)]
unsafe fn windows<S: Simd>(simd: S, job: &PlaneJob<'_>, output: &mut [f32]) {
    let weights = job.weights.map(|weight| simd.splat(weight));
    let PlaneJob { frame, plane, .. } = *job;
    let all = frame.windows()[0];
    let mut row = 0;
    while row < all {
        if S::LANES == MAX_LANES
            && let Some(from) = frame.inside_rows(plane, row, LONG_ROWS)
        {
            // SAFETY: the caller promises the check; there are so many rows.
            unsafe { rows::<S, _, LONG_ROWS>(simd, job, &weights, from, row, output) };
            row += LONG_ROWS;
            continue;
        }
        if let Some(from) = frame.inside_rows(plane, row, ROWS) {
            // SAFETY: as above.
            unsafe { rows::<S, _, ROWS>(simd, job, &weights, from, row, output) };
            row += ROWS;
            continue;
        }
        let from = frame.rows(plane, row);
        row += match all - row {
            ROWS.. => {
                // SAFETY: as above.
                unsafe { rows::<S, _, ROWS>(simd, job, &weights, from, row, output) };
                ROWS
            }
            2.. => {
                // SAFETY: as above.
                unsafe { rows::<S, _, 2>(simd, job, &weights, from, row, output) };
                2
            }
            _ => {
                // SAFETY: as above.
                unsafe { rows::<S, _, 1>(simd, job, &weights, from, row, output) };
                1
            }
        };
    }
}

/// `R` rows of results, from one on; `from` is where each row that is read begins.
///
/// # Safety
/// As [`windows`], and the rows exist.
#[inline(always)]
unsafe fn rows<S: Simd, F: Rows, const R: usize>(
    simd: S,
    job: &PlaneJob<'_>,
    weights: &[S::Vector; WINDOW * WINDOW],
    from: F,
    first: usize,
    output: &mut [f32],
) {
    let columns = job.frame.windows()[1];
    let inside = job.frame.inside_columns(S::LANES);
    let output = output.as_mut_ptr().wrapping_add(first * columns);
    for start in (0..columns).step_by(S::LANES) {
        if inside.contains(&start) {
            continue;
        }
        // The last vector overlaps the one before it; that of a row which is shorter reaches into
        // the next row, whose results are written later.
        let column = start.min(columns.saturating_sub(S::LANES));
        let sums = match job.frame.over(column, S::LANES) {
            // SAFETY: the plane has numbers around it for what reaches over.
            NOWHERE => unsafe { sums::<S, F, R, NOWHERE>(simd, job, weights, from, column) },
            // SAFETY: see above.
            AT_FIRST => unsafe { sums::<S, F, R, AT_FIRST>(simd, job, weights, from, column) },
            // SAFETY: see above.
            AT_LAST => unsafe { sums::<S, F, R, AT_LAST>(simd, job, weights, from, column) },
            // SAFETY: see above.
            _ => unsafe { sums::<S, F, R, ANYWHERE>(simd, job, weights, from, column) },
        };
        // SAFETY: the vectors lie in the output.
        unsafe { store(simd, sums, output.wrapping_add(column), columns) };
    }
    for column in inside.step_by(S::LANES) {
        // SAFETY: the windows lie in the plane.
        let sums = unsafe { sums::<S, F, R, NOWHERE>(simd, job, weights, from, column) };
        // SAFETY: the vectors lie in the output.
        unsafe { store(simd, sums, output.wrapping_add(column), columns) };
    }
}

/// Writes vectors of neighboring rows.
///
/// # Safety
/// They may be written at `to + row · pitch`.
#[inline(always)]
unsafe fn store<S: Simd, const R: usize>(
    simd: S,
    vectors: [S::Vector; R],
    to: *mut f32,
    pitch: usize,
) {
    for (row, vector) in vectors.into_iter().enumerate() {
        // SAFETY: the caller promises the place.
        unsafe { simd.store(to.wrapping_add(row * pitch), vector) };
    }
}

/// The sums of a vector of windows in each of `R` rows; `OVER` has a bit for each tap of a row at
/// which windows may lie outside of the plane.
///
/// # Safety
/// As [`rows`]; the vector begins in a row of windows.
#[inline(always)]
unsafe fn sums<S: Simd, F: Rows, const R: usize, const OVER: u8>(
    simd: S,
    job: &PlaneJob<'_>,
    weights: &[S::Vector; WINDOW * WINDOW],
    from: F,
    column: usize,
) -> [S::Vector; R] {
    let is_over = |tap: usize| OVER >> tap & 1 == 1;
    let mut outside = [simd.zero(); WINDOW];
    for (tap, outside) in outside.iter_mut().enumerate() {
        if is_over(tap) {
            // SAFETY: as long as rows of the plane with what is around them.
            *outside = unsafe { simd.load(job.frame.outside().wrapping_add(column + tap)) };
        }
    }
    let mut sums = [simd.splat(job.start); R];
    for row in 0..R + WINDOW - 1 {
        for tap in 0..WINDOW {
            // SAFETY: the caller promises the row with what is around it.
            let mut pixels = unsafe { simd.load(from.at(row).wrapping_add(column + tap)) };
            if is_over(tap) {
                pixels = simd.unless_differs([outside[tap], simd.zero()], pixels);
            }
            for (result, sum) in sums.iter_mut().enumerate() {
                if (result..result + WINDOW).contains(&row) {
                    *sum = simd.multiply_add(*sum, weights[(row - result) * WINDOW + tap], pixels);
                }
            }
        }
    }
    sums
}

dispatch! {
    /// The plane of a job that was checked.
    fn plane(simd, job: &PlaneJob<'_>, output: &mut [f32]) {
        // SAFETY: `PlaneJob::run` has checked the job and the output.
        unsafe { windows(simd, job, output) };
    }
}
