//! The gradients of one input for a run: samples in one interval, which use the same weights.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::Simd;

use super::Blocking;

/// The most rows of weights whose sums are in registers at once.
const MOST_TAPS: usize = 5;

/// One input, for the samples of a run.
pub(super) struct Group<'a> {
    pub(super) order: &'a [u32],
    /// `[rows][N vectors]`.
    pub(super) dy: &'a [f32],
    pub(super) window: usize,
    pub(super) spline_taps: usize,
    /// `[taps][pitch]`.
    pub(super) values: &'a [f32],
    /// The same; empty if no slopes are required.
    pub(super) slopes: &'a [f32],
    /// `[rows of weights][N vectors]`; empty if no slopes are required.
    pub(super) packed: &'a [f32],
    /// Numbers of the input's weights.
    pub(super) width: usize,
}

impl Group<'_> {
    /// With `SUMS`, adds `Σ value·dy` over the samples to the rows of their taps in `sums`; with
    /// `INNER`, writes for each sample a vector whose lanes sum to `Σ_tap slope·(weights·dy)`.
    #[inline(always)]
    pub(super) fn all<S: Simd, const N: usize, const SUMS: bool, const INNER: bool>(
        &self,
        simd: S,
        taps: usize,
        sums: &mut [f32],
        partial: &mut [f32],
    ) {
        for first in (0..taps).step_by(MOST_TAPS) {
            match (taps - first).min(MOST_TAPS) {
                1 => self.taps::<S, 1, N, SUMS, INNER>(simd, first, sums, partial),
                2 => self.taps::<S, 2, N, SUMS, INNER>(simd, first, sums, partial),
                3 => self.taps::<S, 3, N, SUMS, INNER>(simd, first, sums, partial),
                4 => self.taps::<S, 4, N, SUMS, INNER>(simd, first, sums, partial),
                _ => self.taps::<S, 5, N, SUMS, INNER>(simd, first, sums, partial),
            }
        }
    }

    /// Processes `T` taps; contributions of slopes after the first taps are added.
    #[inline(always)]
    fn taps<S: Simd, const T: usize, const N: usize, const SUMS: bool, const INNER: bool>(
        &self,
        simd: S,
        first: usize,
        sums: &mut [f32],
        partial: &mut [f32],
    ) {
        let tile = N * S::LANES;
        let places: [usize; T] = std::array::from_fn(|tap| {
            let tap = first + tap;
            if tap < self.spline_taps { (self.window + tap) * tile } else { self.width - tile }
        });
        assert!(places.iter().all(|place| place + tile <= self.width));
        if SUMS {
            let mut vector = 0;
            while vector < N {
                // Blocks of the size of the instruction set, then the rest.
                let left = N - vector;
                if const { S::SUMS == 1 } || left == 1 {
                    self.sums::<S, T, N, 1>(simd, first, places, vector, sums);
                    vector += 1;
                } else if const { S::SUMS == 2 } || left == 2 {
                    self.sums::<S, T, N, 2>(simd, first, places, vector, sums);
                    vector += 2;
                } else if left == 3 {
                    self.sums::<S, T, N, 3>(simd, first, places, vector, sums);
                    vector += 3;
                } else {
                    self.sums::<S, T, N, 4>(simd, first, places, vector, sums);
                    vector += 4;
                }
            }
        }
        if INNER {
            // Blocks of as many samples as fit into registers, then the rest.
            let mut order = self.order;
            if const { S::LANES > 8 } {
                order = self.samples::<S, T, N, 4>(simd, first, places, order, partial);
            }
            order = self.samples::<S, T, N, 2>(simd, first, places, order, partial);
            self.samples::<S, T, N, 1>(simd, first, places, order, partial);
        }
    }

    /// The vectors of `R` samples at a time; returns those that are left.
    #[inline(always)]
    fn samples<'b, S: Simd, const T: usize, const N: usize, const R: usize>(
        &self,
        simd: S,
        first: usize,
        places: [usize; T],
        order: &'b [u32],
        partial: &mut [f32],
    ) -> &'b [u32] {
        let (groups, rest) = order.as_chunks::<R>();
        for &rows in groups {
            self.inner::<S, T, N, R>(simd, first, places, rows, partial);
        }
        rest
    }

    /// `M` vectors of the sums over the samples, from a vector of the tile on.
    #[inline(always)]
    fn sums<S: Simd, const T: usize, const N: usize, const M: usize>(
        &self,
        simd: S,
        first: usize,
        places: [usize; T],
        vector: usize,
        to: &mut [f32],
    ) {
        let column = vector * S::LANES;
        assert!(vector + M <= N && to.len() >= self.width);
        for place in places {
            for vector in 0..M {
                simd.prefetch(to.as_ptr().wrapping_add(place + column + vector * S::LANES));
            }
        }
        let values = self.values[first * S::PITCH..][..T * S::PITCH].as_ptr();
        let dy = self.dy.as_ptr().wrapping_add(column);
        let mut sums = [[simd.zero(); M]; T];
        for &row in self.order {
            let row = row as usize;
            let place = dy.wrapping_add(row * N * S::LANES);
            let mut dy = [simd.zero(); M];
            for (vector, dy) in dy.iter_mut().enumerate() {
                // SAFETY: the order holds numbers of samples, and each has `N` vectors.
                *dy = unsafe { simd.load(place.wrapping_add(vector * S::LANES)) };
            }
            for (tap, sums) in sums.iter_mut().enumerate() {
                // SAFETY: each tap has a value for every sample.
                let value = unsafe { values.wrapping_add(tap * S::PITCH + row).read() };
                let value = simd.splat(value);
                for (sum, &dy) in sums.iter_mut().zip(&dy) {
                    *sum = simd.multiply_add(*sum, value, dy);
                }
                simd.in_order();
            }
        }
        for (place, sums) in places.into_iter().zip(&sums) {
            let to = &mut to[place + column..][..M * S::LANES];
            for (to, &sum) in to.chunks_exact_mut(S::LANES).zip(sums) {
                simd.write(to, simd.add(simd.read(to), sum));
            }
        }
    }

    /// The vectors of `R` samples.
    #[inline(always)]
    fn inner<S: Simd, const T: usize, const N: usize, const R: usize>(
        &self,
        simd: S,
        first: usize,
        places: [usize; T],
        rows: [u32; R],
        partial: &mut [f32],
    ) {
        let rows = rows.map(|row| row as usize);
        let slopes = self.slopes[first * S::PITCH..][..T * S::PITCH].as_ptr();
        let weights = self.packed[..self.width].as_ptr();
        let dy = rows.map(|row| self.dy.as_ptr().wrapping_add(row * N * S::LANES));
        assert!(partial.len() >= S::PITCH * S::LANES);
        let places_of_totals = rows.map(|row| partial.as_mut_ptr().wrapping_add(row * S::LANES));
        let mut totals = [simd.zero(); R];
        if first > 0 {
            for (total, place) in totals.iter_mut().zip(places_of_totals) {
                // SAFETY: each sample has a vector.
                *total = unsafe { simd.load(place) };
            }
        }
        // For each tap, the sum of its weights times `dy`.
        let mut sums = [[simd.zero(); T]; R];
        for vector in 0..N {
            let mut of_samples = [simd.zero(); R];
            for (of_sample, dy) in of_samples.iter_mut().zip(dy) {
                // SAFETY: the order holds numbers of samples, and each has `N` vectors.
                *of_sample = unsafe { simd.load(dy.wrapping_add(vector * S::LANES)) };
            }
            for (tap, place) in places.into_iter().enumerate() {
                let place = weights.wrapping_add(place + vector * S::LANES);
                // SAFETY: each row of weights has `N` vectors.
                let weight = unsafe { simd.load(place) };
                for (sums, &dy) in sums.iter_mut().zip(&of_samples) {
                    sums[tap] = match vector {
                        0 => simd.multiply(weight, dy),
                        _ => simd.multiply_add(sums[tap], weight, dy),
                    };
                }
                simd.in_order();
            }
        }
        // Two chains of sums, because in one chain each product would wait for the previous one.
        let mut others = [simd.zero(); R];
        for tap in 0..T {
            for sample in 0..R {
                // SAFETY: each tap has a slope for every sample.
                let slope = unsafe { slopes.wrapping_add(tap * S::PITCH + rows[sample]).read() };
                let (slope, sum) = (simd.splat(slope), sums[sample][tap]);
                if tap % 2 == 0 {
                    totals[sample] = simd.multiply_add(totals[sample], slope, sum);
                } else {
                    others[sample] = simd.multiply_add(others[sample], slope, sum);
                }
            }
        }
        for (sample, place) in places_of_totals.into_iter().enumerate() {
            let total = simd.add(totals[sample], others[sample]);
            // SAFETY: each sample has a vector.
            unsafe { simd.store(place, total) };
        }
    }
}
