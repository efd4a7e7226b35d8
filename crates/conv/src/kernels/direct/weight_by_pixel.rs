//! The weight gradient of few channels: lanes are pixels of a row.
//!
//! `dw[channel][tap] += Σ_pixels image[window(pixel) + tap] · g[channel][pixel]`: where a group
//! has few output channels, a vector of them would be mostly empty. Here both factors are
//! vectors of neighboring pixels; the caller adds the lanes of each sum at the end.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::{Isa, Simd, dispatch};

use super::by_pixel::LineJob;

/// The taps of a window over one padded image, summed over a grid of pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineWeightJob<'a> {
    /// The padded image; the first pixel's window starts at its start.
    pub(crate) image: &'a [f32],
    /// The offset of each tap from the window's start.
    pub(crate) taps: &'a [u32],
    /// The output's gradient, `[channels][rows][columns]`.
    pub(crate) gradient: &'a [f32],
    /// Output channels.
    pub(crate) channels: usize,
    /// Pixels of the grid: windows of a row are neighbours in the image.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// The distance between the windows of two rows in the image.
    pub(crate) row_step: usize,
}

impl LineWeightJob<'_> {
    /// Adds to `sums`, `[channels][taps][lanes]`, each lane of which is a part of the sum.
    ///
    /// # Panics
    /// If a slice is shorter than the job requires, rows do not
    /// [fit](LineJob::fits), or the CPU does not have `isa`.
    pub(crate) fn run(&self, isa: Isa, sums: &mut [f32]) {
        assert!(isa.is_available(), "this CPU has no {isa}");
        if self.rows == 0 {
            return;
        }
        assert!(LineJob::fits(isa, self.columns), "rows of {} fill no vector", self.columns);
        let furthest = self.taps.iter().fold(0, |most, &tap| most.max(tap)) as usize;
        let window = (self.rows - 1) * self.row_step + self.columns - 1;
        assert!(window + furthest < self.image.len(), "windows reach over the image");
        assert_eq!(self.gradient.len(), self.channels * self.rows * self.columns, "planes");
        assert_eq!(sums.len(), self.channels * self.taps.len() * isa.lanes(), "sums");
        all_sums(isa.vectors(), self, sums)
    }
}

/// Taps at a time: a window of three by three.
const TAPS: usize = 9;

/// All sums of a job.
///
/// # Safety
/// [`LineWeightJob::run`] has checked the job and the sums.
#[inline(always)]
unsafe fn sums<S: Simd>(simd: S, job: &LineWeightJob<'_>, sums: &mut [f32]) {
    let whole = job.taps.len() / TAPS * TAPS;
    for channel in 0..job.channels {
        for tap in (0..whole).step_by(TAPS) {
            // SAFETY: the job, which was checked, has the channel and these taps.
            unsafe { some::<S, TAPS>(simd, job, channel, tap, sums) };
        }
        for tap in whole..job.taps.len() {
            // SAFETY: the job, which was checked, has the channel and the tap.
            unsafe { some::<S, 1>(simd, job, channel, tap, sums) };
        }
    }
}

/// The sums of a channel for `T` taps from `first` on.
///
/// # Safety
/// [`LineWeightJob::run`] has checked the job and the sums; the job has the channel and the taps.
#[inline(always)]
unsafe fn some<S: Simd, const T: usize>(
    simd: S,
    job: &LineWeightJob<'_>,
    channel: usize,
    first: usize,
    sums: &mut [f32],
) {
    let kept = sums.as_mut_ptr().wrapping_add((channel * job.taps.len() + first) * S::LANES);
    let mut sums = [simd.zero(); T];
    let mut taps = [0; T];
    for index in 0..T {
        // SAFETY: every tap of the channel has a vector of sums.
        sums[index] = unsafe { simd.load(kept.wrapping_add(index * S::LANES)) };
        taps[index] = job.taps[first + index] as usize;
    }
    for row in 0..job.rows {
        let window = job.image.as_ptr().wrapping_add(row * job.row_step);
        let line = (channel * job.rows + row) * job.columns;
        let line = job.gradient.as_ptr().wrapping_add(line);
        for column in (0..job.columns).step_by(S::LANES) {
            // The last vector overlaps the one before it, whose pixels are left out.
            let own = S::LANES.min(job.columns - column);
            let column = column + own - S::LANES;
            let from = line.wrapping_add(column);
            let gradient = if own == S::LANES {
                // SAFETY: the vector lies in a row of an existing plane.
                unsafe { simd.load(from) }
            } else {
                // SAFETY: the vector lies in a row of an existing plane.
                unsafe { simd.load_last(from, own) }
            };
            for (sum, tap) in sums.iter_mut().zip(taps) {
                // SAFETY: the windows of all pixels lie in the image.
                let pixels = unsafe { simd.load(window.wrapping_add(column + tap)) };
                *sum = simd.multiply_add(*sum, gradient, pixels);
            }
        }
    }
    for (index, sum) in sums.into_iter().enumerate() {
        // SAFETY: every tap of the channel has a vector of sums.
        unsafe { simd.store(kept.wrapping_add(index * S::LANES), sum) };
    }
}

dispatch! {
    /// All sums of a job that was checked.
    fn all_sums(simd, job: &LineWeightJob<'_>, kept: &mut [f32]) {
        // SAFETY: `LineWeightJob::run` has checked the job and the sums.
        unsafe { sums(simd, job, kept) };
    }
}
