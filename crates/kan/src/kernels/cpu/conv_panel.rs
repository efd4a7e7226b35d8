//! A panel's products: weights of a channel's taps that stay in the fastest cache while pixels pass
//! by.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::{Kernel, Simd};

use crate::kernels::conv::PLANE;

/// Bases of a spline that are added at once.
const MOST_TAPS: usize = 4;

/// The weights of some taps, and what pixels see of the splines.
pub(super) struct ConvPanel<'a> {
    /// Bases of a window, or 0 without splines.
    pub(super) spline_taps: usize,
    /// Where the base branch's values lie.
    pub(super) base_plane: usize,
    pub(super) has_base: bool,
    /// A plane for each basis of a window, and one for the base branch.
    pub(super) values: &'a [f32],
    /// The first basis that each pixel sees; planes hold values of as many pixels.
    pub(super) windows: &'a [u32],
    /// Where the first tap sees each output's pixel.
    pub(super) positions: &'a [u32],
    /// How far from there each tap's pixel is.
    pub(super) offsets: &'a [usize],
    /// `[taps][rows of weights][N vectors]`.
    pub(super) weights: &'a [f32],
    /// Numbers of a tap's weights.
    pub(super) of_tap: usize,
}

impl ConvPanel<'_> {
    /// Adds the panel's products to each pixel's sums, `[pixels][N vectors]`, which the first panel
    /// starts.
    #[inline(always)]
    pub(super) fn add<S: Simd, const N: usize, const R: usize>(
        &self,
        simd: S,
        is_first: bool,
        sums: &mut [f32],
    ) {
        if self.spline_taps == 0 {
            return self.part::<S, 0, true, N, R>(simd, 0, is_first, sums);
        }
        for first in (0..self.spline_taps).step_by(MOST_TAPS) {
            let count = (self.spline_taps - first).min(MOST_TAPS);
            let is_last = first + count == self.spline_taps;
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

    /// [`products`](Self::products), compiled apart.
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
        let planes = self.base_plane + usize::from(self.has_base);
        assert!(self.values.len() >= planes * PLANE && self.windows.len() <= PLANE);
        assert!(self.weights.len() == self.offsets.len() * of_tap);
        assert!(self.positions.len().is_multiple_of(R));
        assert!(sums.len() == self.positions.len() * width && first + T <= self.base_plane);
        let last = self.offsets.iter().max().copied().unwrap_or(0);
        let end = self.windows.len();
        assert!(self.positions.iter().all(|&position| position as usize + last < end));
        let values = self.values[first * PLANE..].as_ptr();
        let to_base = (self.base_plane - first) * PLANE;
        let windows = self.windows.as_ptr();

        for (positions, sums) in
            self.positions.chunks_exact(R).zip(sums.chunks_exact_mut(R * width))
        {
            let pixels: [usize; R] = std::array::from_fn(|pixel| positions[pixel] as usize);
            let mut all = [[simd.zero(); N]; R];
            let mut weights = self.weights.as_ptr();
            for &offset in self.offsets {
                let values = values.wrapping_add(offset);
                let windows = windows.wrapping_add(offset);
                let mut rows = [weights; R];
                if T > 0 {
                    for (pixel, rows) in rows.iter_mut().enumerate() {
                        // SAFETY: positions and offsets lie in a plane.
                        let window = unsafe { windows.wrapping_add(pixels[pixel]).read() } as usize;
                        *rows = simd.one_address(weights.wrapping_add((window + first) * width));
                    }
                }
                if BASE {
                    let row = weights.wrapping_add(of_tap - width);
                    let mut of_pixels = [simd.zero(); R];
                    for (pixel, value) in of_pixels.iter_mut().enumerate() {
                        let place = values.wrapping_add(pixels[pixel] + to_base);
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
                        let place = values.wrapping_add(pixels[pixel] + tap * PLANE);
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
            // Sums start anew with each panel, so that rounding errors do not grow with the channels.
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
