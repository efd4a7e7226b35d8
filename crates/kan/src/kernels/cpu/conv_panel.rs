//! A panel's products: weights of a channel's taps that stay in the L1 cache for all
//! pixels.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::{Kernel, Simd};

use crate::kernels::conv::PLANE;

/// Bases of a spline that are added in one pass.
const MOST_TAPS: usize = 4;

/// The weights of some taps, and the basis values of pixels.
pub(super) struct ConvPanel<'a> {
    /// Bases of a window.
    pub(super) window: usize,
    /// Whether they are added, or only the base branch.
    pub(super) has_spline: bool,
    pub(super) has_base: bool,
    /// A plane of the offsets of each pixel's rows of weights, as the bits of integers, then one
    /// for each basis of a window, and one for the base branch.
    pub(super) planes: &'a [f32],
    /// Pixels of a plane.
    pub(super) pixels: usize,
    /// The offset of the first tap for each output's pixel.
    pub(super) positions: &'a [u32],
    /// The distance from there to each tap's pixel.
    pub(super) offsets: &'a [usize],
    /// `[taps][rows of weights][N vectors]`.
    pub(super) weights: &'a [f32],
    /// Numbers of a tap's weights.
    pub(super) of_tap: usize,
}

impl ConvPanel<'_> {
    /// Adds the panel's products to each pixel's sums, `[pixels][N vectors]`; the first panel
    /// initializes them.
    #[inline(always)]
    pub(super) fn add<S: Simd, const N: usize, const R: usize>(
        &self,
        simd: S,
        is_first: bool,
        sums: &mut [f32],
    ) {
        if !self.has_spline {
            return self.part::<S, 0, true, N, R>(simd, self.window, is_first, sums);
        }
        for first in (0..self.window).step_by(MOST_TAPS) {
            let count = (self.window - first).min(MOST_TAPS);
            let is_last = first + count == self.window;
            let is_first = is_first && first == 0;
            // The last bases take the base branch along.
            match (count, self.has_base && is_last) {
                (1, false) => self.part::<S, 1, false, N, R>(simd, first, is_first, sums),
                (2, false) => self.part::<S, 2, false, N, R>(simd, first, is_first, sums),
                (3, false) => self.part::<S, 3, false, N, R>(simd, first, is_first, sums),
                (_, false) => self.part::<S, 4, false, N, R>(simd, first, is_first, sums),
                (1, true) => self.part::<S, 1, true, N, R>(simd, first, is_first, sums),
                (2, true) => self.part::<S, 2, true, N, R>(simd, first, is_first, sums),
                (3, true) => self.part::<S, 3, true, N, R>(simd, first, is_first, sums),
                (_, true) => self.part::<S, 4, true, N, R>(simd, first, is_first, sums),
            }
        }
    }

    /// [`products`](Self::products) in a separate function.
    #[inline(always)]
    fn part<S: Simd, const T: usize, const BASE: bool, const N: usize, const R: usize>(
        &self,
        simd: S,
        first: usize,
        is_first: bool,
        sums: &mut [f32],
    ) {
        simd.vectorize(PanelProducts::<T, BASE, N, R> { panel: self, first, is_first, sums });
    }

    /// The products of `T` bases of a spline, and of the base branch behind them.
    #[inline(always)]
    fn products<S: Simd, const T: usize, const BASE: bool, const N: usize, const R: usize>(
        &self,
        simd: S,
        first: usize,
        is_first: bool,
        sums: &mut [f32],
    ) {
        let (width, of_tap) = (N * S::LANES, self.of_tap);
        let planes = 1 + self.window + usize::from(self.has_base);
        assert!(self.planes.len() >= planes * PLANE && self.pixels <= PLANE);
        assert!(self.weights.len() == self.offsets.len() * of_tap);
        assert!(self.positions.len().is_multiple_of(R));
        assert!(sums.len() == self.positions.len() * width);
        assert!(first + T <= self.window && (!BASE || self.has_base && first + T == self.window));
        let last = self.offsets.iter().max().copied().unwrap_or(0);
        let furthest = self.positions.iter().max().map_or(0, |&position| position as usize);
        assert!(furthest + last < self.pixels);
        // From the plane of the first basis.
        let values = self.planes[(1 + first) * PLANE..].as_ptr();
        let to_rows = ((1 + first) * PLANE).wrapping_neg();

        for (positions, sums) in
            self.positions.chunks_exact(R).zip(sums.chunks_exact_mut(R * width))
        {
            let pixels: [*const f32; R] =
                std::array::from_fn(|pixel| values.wrapping_add(positions[pixel] as usize));
            let mut all = [[simd.zero(); N]; R];
            // A tap's row of the first basis.
            let mut weights = self.weights.as_ptr().wrapping_add(first * width);
            for &offset in self.offsets {
                let mut rows = [weights; R];
                if T > 0 {
                    let to_rows = offset.wrapping_add(to_rows);
                    for (pixel, rows) in pixels.into_iter().zip(&mut rows) {
                        let place = pixel.wrapping_add(to_rows).cast::<u32>();
                        // SAFETY: positions and offsets lie in a plane.
                        let row = unsafe { place.read() } as usize;
                        *rows = simd.one_address(weights.wrapping_add(row));
                    }
                }
                if BASE {
                    let row = weights.wrapping_add(of_tap - width - first * width);
                    let mut of_pixels = [simd.zero(); R];
                    for (pixel, value) in pixels.into_iter().zip(&mut of_pixels) {
                        // After the last bases.
                        let place = pixel.wrapping_add(offset + T * PLANE);
                        // SAFETY: the base branch has a plane.
                        *value = simd.splat(unsafe { place.read() });
                    }
                    for vector in 0..N {
                        // SAFETY: the base branch has a tap's last row of weights.
                        let base = unsafe { simd.load(row.wrapping_add(vector * S::LANES)) };
                        for (sums, &value) in all.iter_mut().zip(&of_pixels) {
                            sums[vector] = simd.multiply_add(sums[vector], value, base);
                        }
                        simd.in_order();
                    }
                }
                for tap in 0..T {
                    for (pixel, sums) in all.iter_mut().enumerate() {
                        let place = pixels[pixel].wrapping_add(offset + tap * PLANE);
                        // SAFETY: each basis of a window has a plane.
                        let value = simd.splat(unsafe { place.read() });
                        for (vector, sum) in sums.iter_mut().enumerate() {
                            let row = rows[pixel].wrapping_add(tap * width + vector * S::LANES);
                            // SAFETY: a window is that of an interval, so that its taps are bases.
                            *sum = simd.multiply_add(*sum, value, unsafe { simd.load(row) });
                        }
                        simd.in_order();
                    }
                }
                weights = weights.wrapping_add(of_tap);
            }
            // Each panel has new sums, so that rounding errors do not grow with the channels.
            for (place, &sum) in sums.chunks_exact_mut(S::LANES).zip(all.as_flattened()) {
                let sum = if is_first { sum } else { simd.add(sum, simd.read(place)) };
                simd.write(place, sum);
            }
        }
    }
}

/// [`ConvPanel::products`] as a function of its own: all in one, they take the compiler minutes.
struct PanelProducts<'a, const T: usize, const BASE: bool, const N: usize, const R: usize> {
    panel: &'a ConvPanel<'a>,
    first: usize,
    is_first: bool,
    sums: &'a mut [f32],
}

impl<const T: usize, const BASE: bool, const N: usize, const R: usize> Kernel
    for PanelProducts<'_, T, BASE, N, R>
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { panel, first, is_first, sums } = self;
        panel.products::<S, T, BASE, N, R>(simd, first, is_first, sums);
    }
}
