//! The gradients of a run of a channel's pixels: those in one interval use the same weights, for
//! all taps.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::Simd;

use super::Blocking;
use super::conv_gradient::LINE_PITCH;

/// The most rows of weights whose sums are in registers at once.
const MOST_TAPS: usize = 5;

/// Pixels of a channel that lie in one interval.
pub(super) struct ConvRun<'a> {
    /// Their indices among the phase's pixels.
    pub(super) order: &'a [u32],
    /// The offset of each in `dy`, in bytes of a vector.
    pub(super) places: &'a [u32],
    /// Pixels of the phase.
    pub(super) pixels: usize,
    /// The phase's taps, and the distance to their outputs.
    pub(super) taps: &'a [(usize, usize)],
    /// Taps of the kernel.
    pub(super) all_taps: usize,
    /// `[region][N vectors]`.
    pub(super) dy: &'a [f32],
    pub(super) window: usize,
    /// Bases of a window.
    pub(super) spline_taps: usize,
    pub(super) has_spline: bool,
    pub(super) has_base: bool,
    /// Of the phase's pixels, `[bases of a window][pitch]`.
    pub(super) values: &'a [f32],
    /// The same; empty if they are not required.
    pub(super) slopes: &'a [f32],
    /// `[taps][rows of weights][N vectors]`; empty if slopes are not required.
    pub(super) packed: &'a [f32],
    /// Numbers of a tap's weights.
    pub(super) of_tap: usize,
    /// Whether the pixels' gradients are written, not added.
    pub(super) is_first: bool,
}

impl ConvRun<'_> {
    /// The rows of bases, and of the base branch after them.
    fn rows(&self) -> std::ops::Range<usize> {
        let first = if self.has_spline { 0 } else { self.spline_taps };
        first..self.spline_taps + usize::from(self.has_base)
    }

    /// Adds `Σ value·dy` over the pixels to the rows of `sums`, `[taps][rows of weights][N vectors]`.
    #[inline(always)]
    pub(super) fn sums<S: Simd, const N: usize>(&self, simd: S, sums: &mut [f32]) {
        for first in self.rows().step_by(MOST_TAPS) {
            match (self.rows().end - first).min(MOST_TAPS) {
                1 => self.sums_of::<S, 1, N>(simd, first, sums),
                2 => self.sums_of::<S, 2, N>(simd, first, sums),
                3 => self.sums_of::<S, 3, N>(simd, first, sums),
                4 => self.sums_of::<S, 4, N>(simd, first, sums),
                _ => self.sums_of::<S, 5, N>(simd, first, sums),
            }
        }
    }

    /// Writes, or adds, a vector per pixel whose lanes sum to `Σ slope·(weights·dy)` over all taps.
    #[inline(always)]
    pub(super) fn inner<S: Simd, const N: usize>(&self, simd: S, partial: &mut [f32]) {
        for first in self.rows().step_by(MOST_TAPS) {
            match (self.rows().end - first).min(MOST_TAPS) {
                1 => self.inner_of::<S, 1, N>(simd, first, partial),
                2 => self.inner_of::<S, 2, N>(simd, first, partial),
                3 => self.inner_of::<S, 3, N>(simd, first, partial),
                4 => self.inner_of::<S, 4, N>(simd, first, partial),
                _ => self.inner_of::<S, 5, N>(simd, first, partial),
            }
        }
    }

    /// The offset of the rows of `T` bases in a tap's weights.
    #[inline(always)]
    fn places<const T: usize>(&self, first: usize, width: usize) -> [usize; T] {
        let places: [usize; T] = std::array::from_fn(|basis| {
            let basis = first + basis;
            if basis < self.spline_taps {
                (self.window + basis) * width
            } else {
                self.of_tap - width
            }
        });
        assert!(places.iter().all(|place| place + width <= self.of_tap));
        places
    }

    #[inline(always)]
    fn sums_of<S: Simd, const T: usize, const N: usize>(
        &self,
        simd: S,
        first: usize,
        sums: &mut [f32],
    ) {
        let places = self.places::<T>(first, N * S::LANES);
        for &(tap, offset) in self.taps {
            let sums = &mut sums[tap * self.of_tap..][..self.of_tap];
            let mut vector = 0;
            while vector < N {
                // Blocks of the size of the instruction set, then the rest.
                let left = N - vector;
                if const { S::SUMS == 1 } || left == 1 {
                    self.columns::<S, T, N, 1>(simd, first, places, offset, vector, sums);
                    vector += 1;
                } else if const { S::SUMS == 2 } || left == 2 {
                    self.columns::<S, T, N, 2>(simd, first, places, offset, vector, sums);
                    vector += 2;
                } else if left == 3 {
                    self.columns::<S, T, N, 3>(simd, first, places, offset, vector, sums);
                    vector += 3;
                } else {
                    self.columns::<S, T, N, 4>(simd, first, places, offset, vector, sums);
                    vector += 4;
                }
            }
        }
    }

    /// `M` vectors of the sums over the pixels, from a vector of the tile on.
    #[inline(always)]
    fn columns<S: Simd, const T: usize, const N: usize, const M: usize>(
        &self,
        simd: S,
        first: usize,
        places: [usize; T],
        offset: usize,
        vector: usize,
        to: &mut [f32],
    ) {
        let column = vector * S::LANES;
        let values =
            self.values[first * LINE_PITCH..][..(T - 1) * LINE_PITCH + self.pixels].as_ptr();
        let dy = self.dy.as_ptr().wrapping_add(column + offset * N * S::LANES);
        let mut sums = [[simd.zero(); M]; T];
        for (&pixel, &place) in self.order.iter().zip(self.places) {
            let pixel = pixel as usize;
            let place = dy.wrapping_byte_add(place as usize * N);
            let mut dy = [simd.zero(); M];
            for (vector, dy) in dy.iter_mut().enumerate() {
                // SAFETY: places and offsets lie in the region, where each output has `N` vectors.
                *dy = unsafe { simd.load(place.wrapping_add(vector * S::LANES)) };
            }
            for (basis, sums) in sums.iter_mut().enumerate() {
                // SAFETY: each basis has a value for every pixel.
                let value = unsafe { values.wrapping_add(basis * LINE_PITCH + pixel).read() };
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

    #[inline(always)]
    fn inner_of<S: Simd, const T: usize, const N: usize>(
        &self,
        simd: S,
        first: usize,
        partial: &mut [f32],
    ) {
        let places = self.places::<T>(first, N * S::LANES);
        let is_first = self.is_first && first == self.rows().start;
        // Blocks of as many pixels as fit into registers, then the rest.
        if const { S::LANES > 8 } {
            self.groups::<S, T, N, 4>(simd, first, places, is_first, partial);
        } else {
            self.groups::<S, T, N, 2>(simd, first, places, is_first, partial);
        }
    }

    /// `R` pixels at a time, then the rest.
    #[inline(always)]
    fn groups<S: Simd, const T: usize, const N: usize, const R: usize>(
        &self,
        simd: S,
        first: usize,
        places: [usize; T],
        is_first: bool,
        partial: &mut [f32],
    ) {
        let whole = self.order.len() / R * R;
        for start in (0..whole).step_by(R) {
            self.pixels::<S, T, N, R>(simd, first, places, start, is_first, partial);
        }
        for start in whole..self.order.len() {
            self.pixels::<S, T, N, 1>(simd, first, places, start, is_first, partial);
        }
    }

    /// The vectors of `R` pixels of the order.
    #[inline(always)]
    fn pixels<S: Simd, const T: usize, const N: usize, const R: usize>(
        &self,
        simd: S,
        first: usize,
        places: [usize; T],
        start: usize,
        is_first: bool,
        partial: &mut [f32],
    ) {
        let pixels: [usize; R] = std::array::from_fn(|pixel| self.order[start + pixel] as usize);
        let slopes =
            self.slopes[first * LINE_PITCH..][..(T - 1) * LINE_PITCH + self.pixels].as_ptr();
        assert!(self.packed.len() >= self.all_taps * self.of_tap);
        assert!(partial.len() >= self.pixels * S::LANES);
        let own: [_; R] = std::array::from_fn(|pixel| {
            self.dy.as_ptr().wrapping_byte_add(self.places[start + pixel] as usize * N)
        });
        // For each basis, the sum of its weights times `dy`.
        let mut sums = [[simd.zero(); T]; R];
        for &(tap, offset) in self.taps {
            let weights = self.packed.as_ptr().wrapping_add(tap * self.of_tap);
            let offset = offset * N * S::LANES;
            for vector in 0..N {
                let mut dy = [simd.zero(); R];
                for (dy, place) in dy.iter_mut().zip(own) {
                    let place = place.wrapping_add(offset + vector * S::LANES);
                    // SAFETY: places and offsets lie in the region, where each output has `N`
                    // vectors.
                    *dy = unsafe { simd.load(place) };
                }
                for (basis, place) in places.into_iter().enumerate() {
                    let place = weights.wrapping_add(place + vector * S::LANES);
                    // SAFETY: each row of a tap's weights has `N` vectors.
                    let weight = unsafe { simd.load(place) };
                    for (sums, &dy) in sums.iter_mut().zip(&dy) {
                        sums[basis] = simd.multiply_add(sums[basis], weight, dy);
                    }
                    simd.in_order();
                }
            }
        }
        for (sums, pixel) in sums.iter().zip(pixels) {
            let to = &mut partial[pixel * S::LANES..][..S::LANES];
            let mut total = if is_first { simd.zero() } else { simd.read(to) };
            for (basis, &sum) in sums.iter().enumerate() {
                // SAFETY: each basis has a slope for every pixel.
                let slope = unsafe { slopes.wrapping_add(basis * LINE_PITCH + pixel).read() };
                total = simd.multiply_add(total, simd.splat(slope), sum);
            }
            simd.write(to, total);
        }
    }
}
