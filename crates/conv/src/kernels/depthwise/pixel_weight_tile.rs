//! The weights' gradient of windows of three by three over a plane of their own: lanes are pixels of
//! a row.
//!
//! Some rows of the results' gradient are multiplied together: a vector of the image is read once
//! for all of them, and the sums of all taps stay in registers.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::{MAX_LANES, Simd, Vectors, dispatch};

use super::frame::{AROUND, Frame, ROWS, Rows, WINDOW};

/// Taps of a window.
pub(crate) const TAPS: usize = WINDOW * WINDOW;

/// Room for the sums of each lane, in whole squares of lanes.
pub(crate) const PARTS: usize = TAPS.next_multiple_of(MAX_LANES) * MAX_LANES;

/// The taps of windows, summed over the windows of a plane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaneWeightJob<'a> {
    pub(crate) frame: &'a Frame,
    /// The plane with what is around it.
    pub(crate) plane: &'a [f32],
    /// The results' gradient, `[rows][columns]`, with what is around it.
    pub(crate) gradient: &'a [f32],
}

impl PlaneWeightJob<'_> {
    /// Adds the gradient to `dw`; `parts`, of any value before, takes the sums of each lane.
    ///
    /// # Panics
    /// If a slice does not fit the frame.
    pub(crate) fn run(&self, vectors: Vectors, dw: &mut [f32; TAPS], parts: &mut [f32; PARTS]) {
        let [rows, columns] = self.frame.windows();
        assert!(self.frame.fits(self.plane), "a plane with what is around it");
        let gradient = rows * columns + 2 * AROUND;
        assert_eq!(self.gradient.len(), gradient, "a gradient with what is around it");
        all_sums(vectors, self, dw, parts);
    }
}

/// All sums.
///
/// # Safety
/// [`PlaneWeightJob::run`] has checked the job.
#[inline(always)]
unsafe fn sums<S: Simd>(
    simd: S,
    job: &PlaneWeightJob<'_>,
    dw: &mut [f32; TAPS],
    parts: &mut [f32; PARTS],
) {
    let columns = job.frame.windows()[1];
    // Lanes of the last vector of a row that have no window, or one of the vector before.
    let last = columns.saturating_sub(S::LANES);
    let own = (columns - 1) / S::LANES * S::LANES..columns;
    let mut left_out = [0.0; MAX_LANES];
    for (lane, left_out) in left_out.iter_mut().enumerate() {
        *left_out = if own.contains(&(last + lane)) { 0.0 } else { 1.0 };
    }
    let mut sums = [simd.zero(); TAPS];
    let PlaneWeightJob { frame, plane, .. } = *job;
    let all = frame.windows()[0];
    let mut row = 0;
    while row < all {
        if let Some(from) = frame.inside_rows(plane, row, ROWS) {
            // SAFETY: the caller promises the check; there are so many rows.
            unsafe { rows::<S, _, ROWS>(simd, job, &left_out, from, row, &mut sums) };
            row += ROWS;
            continue;
        }
        let from = frame.rows(plane, row);
        row += match all - row {
            ROWS.. => {
                // SAFETY: as above.
                unsafe { rows::<S, _, ROWS>(simd, job, &left_out, from, row, &mut sums) };
                ROWS
            }
            2.. => {
                // SAFETY: as above.
                unsafe { rows::<S, _, 2>(simd, job, &left_out, from, row, &mut sums) };
                2
            }
            _ => {
                // SAFETY: as above.
                unsafe { rows::<S, _, 1>(simd, job, &left_out, from, row, &mut sums) };
                1
            }
        };
    }
    for (index, sum) in sums.into_iter().enumerate() {
        // SAFETY: there is a vector for each tap.
        unsafe { simd.store(parts.as_mut_ptr().wrapping_add(index * S::LANES), sum) };
    }
    for (first, dw) in dw.chunks_mut(S::LANES).enumerate() {
        let mut own = [0.0; MAX_LANES];
        // SAFETY: there are vectors for whole chunks of taps; those behind the last tap are left out.
        let sums = unsafe { simd.sums(parts.as_ptr().wrapping_add(first * S::LANES * S::LANES)) };
        simd.write(&mut own, sums);
        dw.iter_mut().zip(own).for_each(|(dw, own)| *dw += own);
    }
}

/// `R` rows of results, from one on; `from` is where each row that is read begins.
///
/// # Safety
/// As [`sums`], and the rows exist.
#[inline(always)]
unsafe fn rows<S: Simd, F: Rows, const R: usize>(
    simd: S,
    job: &PlaneWeightJob<'_>,
    left_out: &[f32; MAX_LANES],
    from: F,
    first: usize,
    sums: &mut [S::Vector; TAPS],
) {
    let columns = job.frame.windows()[1];
    let inside = job.frame.inside_columns(S::LANES);
    let gradient = job.gradient.as_ptr().wrapping_add(AROUND + first * columns);
    for start in (0..columns).step_by(S::LANES) {
        if inside.contains(&start) {
            continue;
        }
        let column = start.min(columns.saturating_sub(S::LANES));
        let is_whole = start + S::LANES <= columns;
        let left_out = if is_whole { simd.zero() } else { simd.read(left_out) };
        let at = gradient.wrapping_add(column);
        // SAFETY: plane and gradient have numbers around them for what reaches over.
        unsafe { add::<S, F, R, true>(simd, job, from, at, column, left_out, sums) };
    }
    for column in inside.step_by(S::LANES) {
        let at = gradient.wrapping_add(column);
        // SAFETY: the windows lie in the plane.
        unsafe { add::<S, F, R, false>(simd, job, from, at, column, simd.zero(), sums) };
    }
}

/// Adds the products of a vector of windows in each of `R` rows; `IS_OVER` leaves out what is around
/// the plane, and lanes.
///
/// # Safety
/// As [`rows`]; the vector begins in a row of windows, `gradient` is that of the first.
#[inline(always)]
unsafe fn add<S: Simd, F: Rows, const R: usize, const IS_OVER: bool>(
    simd: S,
    job: &PlaneWeightJob<'_>,
    from: F,
    gradient: *const f32,
    column: usize,
    left_out: S::Vector,
    sums: &mut [S::Vector; TAPS],
) {
    let columns = job.frame.windows()[1];
    let mut gradients = [simd.zero(); R];
    for (row, of_row) in gradients.iter_mut().enumerate() {
        // SAFETY: the caller promises the row with what is around it.
        *of_row = unsafe { simd.load(gradient.wrapping_add(row * columns)) };
        if IS_OVER {
            *of_row = simd.unless_differs([left_out, simd.zero()], *of_row);
        }
    }
    let mut outside = [left_out; WINDOW];
    if IS_OVER {
        for (tap, outside) in outside.iter_mut().enumerate() {
            // SAFETY: as long as rows of the plane with what is around them.
            let around = unsafe { simd.load(job.frame.outside().wrapping_add(column + tap)) };
            *outside = simd.add(left_out, around);
        }
    }
    for row in 0..R + WINDOW - 1 {
        for tap in 0..WINDOW {
            // SAFETY: the caller promises the row with what is around it.
            let mut pixels = unsafe { simd.load(from.at(row).wrapping_add(column + tap)) };
            if IS_OVER {
                pixels = simd.unless_differs([outside[tap], simd.zero()], pixels);
            }
            for (result, &gradient) in gradients.iter().enumerate() {
                if (result..result + WINDOW).contains(&row) {
                    let sum = &mut sums[(row - result) * WINDOW + tap];
                    *sum = simd.multiply_add(*sum, gradient, pixels);
                }
            }
        }
    }
}

dispatch! {
    /// All sums of a job that was checked.
    fn all_sums(simd, job: &PlaneWeightJob<'_>, dw: &mut [f32; TAPS], parts: &mut [f32; PARTS]) {
        // SAFETY: `PlaneWeightJob::run` has checked the job.
        unsafe { sums(simd, job, dw, parts) };
    }
}
