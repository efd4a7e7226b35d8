//! A panel's products: weights of a few inputs that stay in the fastest cache while samples pass by.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use std::ops::Range;

use updraft_simd::{Kernel, Simd};

use super::flush::Flush;
use super::{GROUP, ROWS};
use crate::kernels::geometry::LayerGeometry;
use crate::kernels::scratch::Taps;

/// Taps of a spline that are added at once.
const MOST_TAPS: usize = 4;

/// The weights of some inputs, and what a line's samples see of them.
pub(super) struct Panel<'a> {
    pub(super) geometry: &'a LayerGeometry,
    pub(super) taps: &'a Taps,
    /// Of the taps.
    pub(super) inputs: usize,
    /// The first that the weights belong to.
    pub(super) first_input: usize,
    /// `[inputs][rows of weights][N vectors]`.
    pub(super) weights: &'a [f32],
    /// Numbers of an input's weights.
    pub(super) of_input: usize,
    pub(super) has_base: bool,
}

impl Panel<'_> {
    /// Adds the panel's products to each sample's sums, which the first panel starts.
    #[inline(always)]
    pub(super) fn add<S: Simd, const N: usize, const R: usize>(
        &self,
        simd: S,
        rows: Range<usize>,
        sums: &mut [f32],
        mut flush: Option<&mut Flush<'_>>,
    ) {
        let spline_taps = self.geometry.grid().degree() + 1;
        for first in (0..spline_taps).step_by(MOST_TAPS) {
            let count = (spline_taps - first).min(MOST_TAPS);
            let rows = rows.clone();
            let is_last = first + count == spline_taps;
            let flush = if is_last { flush.take() } else { None };
            // The last taps take the base branch along.
            match (count, self.has_base && is_last) {
                (1, false) => self.part::<S, 1, false, N, R>(simd, first, rows, sums, flush),
                (2, false) => self.part::<S, 2, false, N, R>(simd, first, rows, sums, flush),
                (3, false) => self.part::<S, 3, false, N, R>(simd, first, rows, sums, flush),
                (_, false) => self.part::<S, 4, false, N, R>(simd, first, rows, sums, flush),
                (1, true) => self.part::<S, 1, true, N, R>(simd, first, rows, sums, flush),
                (2, true) => self.part::<S, 2, true, N, R>(simd, first, rows, sums, flush),
                (3, true) => self.part::<S, 3, true, N, R>(simd, first, rows, sums, flush),
                (_, true) => self.part::<S, 4, true, N, R>(simd, first, rows, sums, flush),
            }
        }
    }

    /// [`products`](Self::products), compiled apart.
    #[inline(always)]
    fn part<S: Simd, const T: usize, const BASE: bool, const N: usize, const R: usize>(
        &self,
        simd: S,
        first: usize,
        rows: Range<usize>,
        sums: &mut [f32],
        flush: Option<&mut Flush<'_>>,
    ) {
        simd.vectorize(PanelProducts::<T, BASE, N, R> { panel: self, first, rows, sums, flush });
    }

    /// The products of `T` taps of a spline, and of the base branch behind them.
    #[inline(always)]
    fn products<S: Simd, const T: usize, const BASE: bool, const N: usize, const R: usize>(
        &self,
        simd: S,
        first: usize,
        rows: Range<usize>,
        sums: &mut [f32],
        mut flush: Option<&mut Flush<'_>>,
    ) {
        let (width, of_input) = (N * S::LANES, self.of_input);
        let inputs = self.weights.len() / of_input;
        let taps = self.geometry.grid().degree() + 1 + usize::from(self.has_base);
        let (first_row, rows) = (rows.start, rows.len());
        let groups = rows.div_ceil(GROUP);
        assert!(self.taps.groups.len() >= groups * self.inputs * taps * GROUP);
        assert!(self.taps.group_windows.len() >= groups * self.inputs * GROUP);
        assert!(self.first_input + inputs <= self.inputs);
        assert!(S::LANES.is_multiple_of(R) && rows <= ROWS && sums.len() >= ROWS * width);
        let is_first = self.first_input == 0 && first == 0;

        for row in (0..rows).step_by(R) {
            let group = row / GROUP * self.inputs + self.first_input;
            let own = first_row + row..first_row + rows.min(row + R);
            if let Some(flush) = &flush {
                flush.prefetch(simd, own.end..own.end + R);
            }
            let places = sums.as_mut_ptr().wrapping_add(row * width);
            let place = |sample, vector| places.wrapping_add(sample * width + vector * S::LANES);
            let mut all = [[simd.zero(); N]; R];
            if !is_first {
                for (sample, sums) in all.iter_mut().enumerate() {
                    for (vector, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: each of the line's samples has `N` vectors.
                        *sum = unsafe { simd.load(place(sample, vector)) };
                    }
                }
            }
            let of_group = (group * taps + first) * GROUP + row % GROUP;
            let mut values = self.taps.groups.as_ptr().wrapping_add(of_group);
            let of_group = group * GROUP + row % GROUP;
            let mut windows = self.taps.group_windows.as_ptr().wrapping_add(of_group);
            let mut weights = self.weights.as_ptr();
            for _ in 0..inputs {
                let mut rows = [weights; R];
                for (sample, rows) in rows.iter_mut().enumerate() {
                    // SAFETY: samples have windows up to a whole vector, also behind the last.
                    let window = unsafe { windows.wrapping_add(sample).read() } as usize;
                    *rows = simd.one_address(weights.wrapping_add((window + first) * width));
                }
                if BASE {
                    let row = weights.wrapping_add(of_input - width);
                    let mut of_samples = [simd.zero(); R];
                    for (sample, value) in of_samples.iter_mut().enumerate() {
                        let place = values.wrapping_add(T * GROUP + sample);
                        // SAFETY: the base branch has a value for every sample.
                        *value = simd.splat(unsafe { place.read() });
                    }
                    for vector in 0..N {
                        // SAFETY: the base branch has an input's last row of weights.
                        let base = unsafe { simd.load(row.wrapping_add(vector * S::LANES)) };
                        for (sums, &value) in all.iter_mut().zip(&of_samples) {
                            sums[vector] = simd.multiply_add(sums[vector], value, base);
                        }
                        simd.in_order();
                    }
                }
                for tap in 0..T {
                    for (sample, sums) in all.iter_mut().enumerate() {
                        // SAFETY: a tap has a value for every sample.
                        let value = unsafe { values.wrapping_add(tap * GROUP + sample).read() };
                        let value = simd.splat(value);
                        for (vector, sum) in sums.iter_mut().enumerate() {
                            let row = rows[sample].wrapping_add(tap * width + vector * S::LANES);
                            // SAFETY: a window is that of an interval, so that its taps are bases.
                            *sum = simd.multiply_add(*sum, value, unsafe { simd.load(row) });
                        }
                        simd.in_order();
                    }
                }
                values = values.wrapping_add(taps * GROUP);
                windows = windows.wrapping_add(GROUP);
                weights = weights.wrapping_add(of_input);
            }
            for (sample, sums) in all.iter().enumerate() {
                for (vector, &sum) in sums.iter().enumerate() {
                    // SAFETY: each of the line's samples has `N` vectors.
                    unsafe { simd.store(place(sample, vector), sum) };
                }
            }
            if let Some(flush) = &mut flush {
                flush.add::<S, N>(simd, own, &sums[row * width..]);
            }
        }
    }
}

/// [`Panel::products`] as a function of its own: all in one, they take the compiler minutes.
struct PanelProducts<'a, 'b, const T: usize, const BASE: bool, const N: usize, const R: usize> {
    panel: &'a Panel<'a>,
    first: usize,
    rows: Range<usize>,
    sums: &'a mut [f32],
    flush: Option<&'a mut Flush<'b>>,
}

impl<const T: usize, const BASE: bool, const N: usize, const R: usize> Kernel
    for PanelProducts<'_, '_, T, BASE, N, R>
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { panel, first, rows, sums, flush } = self;
        panel.products::<S, T, BASE, N, R>(simd, first, rows, sums, flush);
    }
}
