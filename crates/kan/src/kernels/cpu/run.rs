//! The gradients of one input over a run: samples in one interval, which see the same weights.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use super::PITCH;
use super::vector::Simd;

/// Rows of weights whose sums registers hold at once.
const MOST_TAPS: usize = 5;

/// One input, for the samples of a run.
pub(super) struct Group<'a> {
    pub(super) order: &'a [u32],
    /// `[rows][N vectors]`.
    pub(super) dy: &'a [f32],
    pub(super) window: usize,
    pub(super) spline_taps: usize,
    /// `[taps][PITCH]`.
    pub(super) values: &'a [f32],
    /// The same; empty where no slopes are wanted.
    pub(super) slopes: &'a [f32],
    /// `[rows of weights][N vectors]`; empty where no slopes are wanted.
    pub(super) packed: &'a [f32],
    /// Numbers of the input's weights.
    pub(super) width: usize,
}

impl Group<'_> {
    /// All taps, as many at a time as registers hold sums of.
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

    /// `T` taps: with `SUMS`, adds `Σ value·dy` over the samples to their rows of `sums`; with
    /// `INNER`, writes a vector a sample whose lanes sum up to `Σ_tap slope·(weights·dy)`, to
    /// which taps after the first ones add.
    #[inline(always)]
    fn taps<S: Simd, const T: usize, const N: usize, const SUMS: bool, const INNER: bool>(
        &self,
        simd: S,
        first: usize,
        to: &mut [f32],
        partial: &mut [f32],
    ) {
        let tile = N * S::LANES;
        let mut places = [0; T];
        for (tap, place) in places.iter_mut().enumerate() {
            let tap = first + tap;
            let is_spline = tap < self.spline_taps;
            *place = if is_spline { (self.window + tap) * tile } else { self.width - tile };
            assert!(*place + tile <= self.width);
        }
        let values = self.values[first * PITCH..][..T * PITCH].as_ptr();
        let (mut slopes, mut weights) = (values, [values; T]);
        if INNER {
            slopes = self.slopes[first * PITCH..][..T * PITCH].as_ptr();
            let packed = self.packed[..self.width].as_ptr();
            weights = places.map(|place| simd.one_address(packed.wrapping_add(place)));
            assert!(partial.len() >= PITCH * S::LANES);
        }
        if SUMS {
            assert!(to.len() >= self.width);
            for place in places {
                for vector in 0..N {
                    simd.prefetch(to.as_ptr().wrapping_add(place + vector * S::LANES));
                }
            }
        }
        let partial = partial.as_mut_ptr();
        let mut sums = [[simd.zero(); N]; T];
        for &row in self.order {
            let row = row as usize;
            let place = self.dy.as_ptr().wrapping_add(row * tile);
            let mut dy = [simd.zero(); N];
            for (vector, dy) in dy.iter_mut().enumerate() {
                // SAFETY: the order holds numbers of samples, and each has `N` vectors.
                *dy = unsafe { simd.load(place.wrapping_add(vector * S::LANES)) };
            }
            if SUMS {
                for (tap, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: each tap has a value for every sample.
                    let value = unsafe { values.wrapping_add(tap * PITCH + row).read() };
                    let value = simd.splat(value);
                    for vector in 0..N {
                        sums[vector] = simd.multiply_add(sums[vector], value, dy[vector]);
                    }
                }
            }
            if INNER {
                // The slope of every output in this sample.
                let mut along = [simd.zero(); N];
                for (tap, weights) in weights.iter().enumerate() {
                    // SAFETY: each tap has a slope for every sample.
                    let slope = unsafe { slopes.wrapping_add(tap * PITCH + row).read() };
                    let slope = simd.splat(slope);
                    for (vector, along) in along.iter_mut().enumerate() {
                        // SAFETY: each row of weights has `N` vectors.
                        let weight = unsafe { simd.load(weights.wrapping_add(vector * S::LANES)) };
                        *along = match tap {
                            0 => simd.multiply(slope, weight),
                            _ => simd.multiply_add(*along, slope, weight),
                        };
                    }
                }
                let place = partial.wrapping_add(row * S::LANES);
                let mut sum = simd.multiply(along[0], dy[0]);
                for vector in 1..N {
                    sum = simd.multiply_add(sum, along[vector], dy[vector]);
                }
                if first > 0 {
                    // SAFETY: each sample has a vector.
                    sum = simd.add(sum, unsafe { simd.load(place) });
                }
                // SAFETY: as above.
                unsafe { simd.store(place, sum) };
            }
        }
        if SUMS {
            for (place, sums) in places.into_iter().zip(&sums) {
                let to = &mut to[place..place + tile];
                for (to, &sum) in to.chunks_exact_mut(S::LANES).zip(sums) {
                    simd.write(to, simd.add(simd.read(to), sum));
                }
            }
        }
    }
}
