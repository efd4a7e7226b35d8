//! Windows of three by three over a plane of their own: lanes are pixels of a row.
//!
//! Some rows of results are summed together: a vector of the image is read once for all of them.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::{Isa, Simd, dispatch};

/// Rows and columns of a window. More weights than these leave no register for sums.
pub(crate) const WINDOW: usize = 3;

/// A window that is moved by one pixel over a padded plane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaneJob<'a> {
    /// The padded plane; the first window starts at its start.
    pub(crate) image: &'a [f32],
    /// Numbers from one of its rows to the next.
    pub(crate) pitch: usize,
    /// `[rows][columns]` of the window.
    pub(crate) weights: &'a [f32; WINDOW * WINDOW],
    /// The initial value of each sum.
    pub(crate) start: f32,
    /// Rows and columns of results.
    pub(crate) size: [usize; 2],
}

impl PlaneJob<'_> {
    /// Whether rows of results fill a vector.
    pub(crate) const fn fits(isa: Isa, columns: usize) -> bool {
        columns >= isa.lanes()
    }

    /// Computes the plane `[rows][columns]`.
    ///
    /// # Panics
    /// If a slice is shorter than the job requires, rows do not [fit](Self::fits), or the
    /// CPU does not have `isa`.
    pub(crate) fn run(&self, isa: Isa, output: &mut [f32]) {
        assert!(isa.is_available(), "this CPU has no {isa}");
        let [rows, columns] = self.size;
        assert!(Self::fits(isa, columns), "rows of {columns} fill no vector");
        assert_eq!(output.len(), rows * columns, "a plane of results");
        if rows == 0 {
            return;
        }
        let read = (rows + WINDOW - 2) * self.pitch + columns + WINDOW - 1;
        assert!(read <= self.image.len(), "windows reach over the image");
        plane(isa.vectors(), self, output)
    }
}

/// The whole plane.
///
/// # Safety
/// [`PlaneJob::run`] has checked the job and the output.
#[inline(always)]
unsafe fn windows<S: Simd>(simd: S, job: &PlaneJob<'_>, output: &mut [f32]) {
    let weights = job.weights.map(|weight| simd.splat(weight));
    let mut row = 0;
    while row < job.size[0] {
        row += match job.size[0] - row {
            4.. => {
                // SAFETY: the caller promises the check; there are so many rows.
                unsafe { rows::<S, 4>(simd, job, &weights, row, output) };
                4
            }
            2.. => {
                // SAFETY: as above.
                unsafe { rows::<S, 2>(simd, job, &weights, row, output) };
                2
            }
            _ => {
                // SAFETY: as above.
                unsafe { rows::<S, 1>(simd, job, &weights, row, output) };
                1
            }
        };
    }
}

/// `R` rows of results, from one on.
///
/// # Safety
/// As [`windows`], and the rows exist.
#[inline(always)]
unsafe fn rows<S: Simd, const R: usize>(
    simd: S,
    job: &PlaneJob<'_>,
    weights: &[S::Vector; WINDOW * WINDOW],
    first: usize,
    output: &mut [f32],
) {
    let columns = job.size[1];
    let image = job.image.as_ptr().wrapping_add(first * job.pitch);
    let output = output.as_mut_ptr().wrapping_add(first * columns);
    // The last vector overlaps the one before it, so that no vector is partial.
    for column in (0..columns).step_by(S::LANES) {
        let column = column.min(columns - S::LANES);
        let mut sums = [simd.splat(job.start); R];
        for row in 0..R + WINDOW - 1 {
            let window = image.wrapping_add(row * job.pitch + column);
            for tap in 0..WINDOW {
                // SAFETY: the windows of all pixels lie in the image.
                let pixels = unsafe { simd.load(window.wrapping_add(tap)) };
                for (result, sum) in sums.iter_mut().enumerate() {
                    if (result..result + WINDOW).contains(&row) {
                        *sum =
                            simd.multiply_add(*sum, weights[(row - result) * WINDOW + tap], pixels);
                    }
                }
            }
        }
        for (row, &sum) in sums.iter().enumerate() {
            // SAFETY: the vector lies in a row of results.
            unsafe { simd.store(output.wrapping_add(row * columns + column), sum) };
        }
    }
}

dispatch! {
    /// The plane of a job that was checked.
    fn plane(simd, job: &PlaneJob<'_>, output: &mut [f32]) {
        // SAFETY: `PlaneJob::run` has checked the job and the output.
        unsafe { windows(simd, job, output) };
    }
}
