//! The products of one input for a run: samples in one interval, which use the same weights.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::Simd;

/// The most rows of weights that are in registers at once.
const MOST_TAPS: usize = 5;

/// The weights of an input for a tile of outputs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<'a> {
    /// Rows of coefficients, from the tile's first output on.
    pub(super) spline: &'a [f32],
    /// The distance from one row to the next.
    pub(super) pitch: usize,
    /// The row of base weights; empty without a base branch.
    pub(super) base: &'a [f32],
    /// The factors of the coefficients; empty if the coefficients already contain them.
    pub(super) scaler: &'a [f32],
}

/// One input, for the samples of a run.
pub(super) struct ForwardRun<'a> {
    /// Indices of the samples, in ascending order.
    pub(super) order: &'a [u32],
    pub(super) window: usize,
    pub(super) spline_taps: usize,
    /// `[taps][pitch]`.
    pub(super) values: &'a [f32],
    pub(super) pitch: usize,
    pub(super) weights: Rows<'a>,
}

impl Rows<'_> {
    /// Prefetches the weights that a run in a window reads.
    #[inline(always)]
    pub(super) fn prefetch<S: Simd, const N: usize>(&self, simd: S, window: usize, taps: usize) {
        let rows =
            (window..window + taps).map(|row| self.spline.as_ptr().wrapping_add(row * self.pitch));
        for row in rows.chain([self.base.as_ptr(), self.scaler.as_ptr()]) {
            for vector in 0..N {
                simd.prefetch(row.wrapping_add(vector * S::LANES));
            }
        }
    }
}

impl ForwardRun<'_> {
    /// Adds `Σ_tap value·weights` to each sample's sums, `[rows][N vectors]`.
    #[inline(always)]
    pub(super) fn add<S: Simd, const N: usize>(&self, simd: S, taps: usize, sums: &mut [f32]) {
        for first in (0..taps).step_by(MOST_TAPS) {
            match (taps - first).min(MOST_TAPS) {
                1 => self.taps::<S, 1, N>(simd, first, sums),
                2 => self.taps::<S, 2, N>(simd, first, sums),
                3 => self.taps::<S, 3, N>(simd, first, sums),
                4 => self.taps::<S, 4, N>(simd, first, sums),
                _ => self.taps::<S, 5, N>(simd, first, sums),
            }
        }
    }

    /// Adds the products of `T` taps.
    #[inline(always)]
    fn taps<S: Simd, const T: usize, const N: usize>(
        &self,
        simd: S,
        first: usize,
        sums: &mut [f32],
    ) {
        let width = N * S::LANES;
        let Rows { spline, pitch: of_row, base, scaler } = self.weights;
        let mut weights = [[simd.zero(); N]; T];
        for (tap, weights) in weights.iter_mut().enumerate() {
            let tap = first + tap;
            let row = match tap < self.spline_taps {
                true => &spline[(self.window + tap) * of_row..][..width],
                false => &base[..width],
            };
            for (weight, row) in weights.iter_mut().zip(row.chunks_exact(S::LANES)) {
                *weight = simd.read(row);
            }
            if tap < self.spline_taps && !scaler.is_empty() {
                for (weight, factor) in weights.iter_mut().zip(scaler.chunks_exact(S::LANES)) {
                    *weight = simd.multiply(*weight, simd.read(factor));
                }
            }
        }
        let pitch = self.pitch;
        let rows = sums.len() / width;
        let last = self.order.last().map_or(0, |&row| row as usize);
        assert!(last < rows, "samples of a line");
        let values = self.values[first * pitch..][..(T - 1) * pitch + last + 1].as_ptr();
        let sums = sums.as_mut_ptr();
        for &row in self.order {
            let row = row as usize;
            let place = sums.wrapping_add(row * width);
            let mut all = [simd.zero(); N];
            for (vector, sum) in all.iter_mut().enumerate() {
                // SAFETY: no index exceeds the last one, and each sample has `N` vectors.
                *sum = unsafe { simd.load(place.wrapping_add(vector * S::LANES)) };
            }
            for (tap, weights) in weights.iter().enumerate() {
                // SAFETY: each tap has a value for every sample.
                let value = unsafe { values.wrapping_add(tap * pitch + row).read() };
                let value = simd.splat(value);
                for (sum, &weight) in all.iter_mut().zip(weights) {
                    *sum = simd.multiply_add(*sum, value, weight);
                }
                simd.in_order();
            }
            for (vector, &sum) in all.iter().enumerate() {
                // SAFETY: the same place.
                unsafe { simd.store(place.wrapping_add(vector * S::LANES), sum) };
            }
        }
    }
}
