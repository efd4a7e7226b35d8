//! The gradients of one input: samples in one interval, a run, use the same weights.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::{Kernel, Simd};

use super::Blocking;
use crate::kernels::scratch::Run;

/// The most rows of weights whose sums are in registers at once.
const MOST_TAPS: usize = 5;

/// One input, for the samples of a line.
pub(super) struct Input<'a> {
    /// By increasing window.
    pub(super) runs: &'a [Run],
    /// Of all samples of the line, window by window.
    pub(super) order: &'a [u32],
    /// `[rows][N vectors]`.
    pub(super) dy: &'a [f32],
    pub(super) taps: usize,
    pub(super) spline_taps: usize,
    /// `[taps][pitch]`.
    pub(super) values: &'a [f32],
    /// The same; empty if no slopes are required.
    pub(super) slopes: &'a [f32],
    /// `[rows of weights][N vectors]`.
    pub(super) packed: &'a [f32],
    /// Numbers of the input's weights.
    pub(super) width: usize,
}

impl Input<'_> {
    /// Adds `Σ value·dy` over the samples to the rows of their taps in `sums`.
    #[inline(always)]
    pub(super) fn add_sums<S: Simd, const N: usize>(&self, simd: S, sums: &mut [f32]) {
        simd.vectorize(Sums::<N> { input: self, sums });
    }

    /// Writes for each sample a vector whose lanes sum to `Σ_tap slope·(weights·dy)`.
    #[inline(always)]
    pub(super) fn write_inner<S: Simd, const N: usize>(&self, simd: S, partial: &mut [f32]) {
        simd.vectorize(Inner::<N> { input: self, partial });
    }

    /// Adds the sums of `T` taps.
    #[inline(always)]
    fn sums_of<S: Simd, const T: usize, const N: usize>(
        &self,
        simd: S,
        first: usize,
        sums: &mut [f32],
    ) {
        let mut vector = 0;
        while vector < N {
            // Blocks of the size of the instruction set, then the rest.
            let left = N - vector;
            if const { S::SUMS == 1 } || left == 1 {
                self.sums::<S, T, N, 1>(simd, first, vector, sums);
                vector += 1;
            } else if const { S::SUMS == 2 } || left == 2 {
                self.sums::<S, T, N, 2>(simd, first, vector, sums);
                vector += 2;
            } else if left == 3 {
                self.sums::<S, T, N, 3>(simd, first, vector, sums);
                vector += 3;
            } else {
                self.sums::<S, T, N, 4>(simd, first, vector, sums);
                vector += 4;
            }
        }
    }

    /// Adds `M` vectors of the sums of `T` taps, from a vector of the tile on.
    ///
    /// The next window has all rows of this one but the first, so the sums stay in registers from
    /// run to run, and those of a row are added to memory when the windows have passed it.
    #[inline(always)]
    fn sums<S: Simd, const T: usize, const N: usize, const M: usize>(
        &self,
        simd: S,
        first: usize,
        vector: usize,
        to: &mut [f32],
    ) {
        let column = vector * S::LANES;
        assert!(vector + M <= N, "vectors of a tile");
        let spline_taps = self.spline_taps.saturating_sub(first).min(T);
        let values = self.values[first * S::PITCH..][..T * S::PITCH].as_ptr();
        let dy = self.dy.as_ptr().wrapping_add(column);
        let mut sums = [[simd.zero(); M]; T];
        let mut window = self.runs.first().map_or(0, |run| run.window as usize);
        for group in self.groups() {
            for row in window..group.window.min(window + spline_taps) {
                add(simd, sums[0], &mut to[(row + first) * N * S::LANES + column..]);
                // The base branch is the last tap and does not move. Constant indices keep the sums
                // in registers.
                let of_base = sums[T - 1];
                for tap in 1..T {
                    sums[tap - 1] = sums[tap];
                }
                sums[T - 1] = [simd.zero(); M];
                if T > 1 && spline_taps < T {
                    (sums[T - 2], sums[T - 1]) = (sums[T - 1], of_base);
                }
            }
            window = group.window;
            for &row in group.order {
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
        }
        let base = self.width - N * S::LANES;
        for (tap, sums) in sums.into_iter().enumerate() {
            let row = (window + first + tap) * N * S::LANES;
            let place = if tap < spline_taps { row } else { base };
            add(simd, sums, &mut to[place + column..]);
        }
    }

    /// The samples of each run.
    #[inline(always)]
    fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        self.runs.iter().map(|run| Group {
            input: self,
            order: &self.order[run.start as usize..run.end as usize],
            window: run.window as usize,
        })
    }
}

/// Adds vectors to the first numbers.
///
/// A function and not a closure: a closure that is called twice may be compiled without the
/// instructions of `S`.
#[inline(always)]
fn add<S: Simd, const M: usize>(simd: S, sums: [S::Vector; M], to: &mut [f32]) {
    for (to, sum) in to[..M * S::LANES].chunks_exact_mut(S::LANES).zip(sums) {
        simd.write(to, simd.add(simd.read(to), sum));
    }
}

/// One input, for the samples of a run.
struct Group<'a> {
    input: &'a Input<'a>,
    order: &'a [u32],
    window: usize,
}

impl Group<'_> {
    /// Where the rows of `T` taps lie among an input's weights.
    #[inline(always)]
    fn places<const T: usize>(&self, first: usize, tile: usize) -> [usize; T] {
        let places: [usize; T] = std::array::from_fn(|tap| {
            let tap = first + tap;
            if tap < self.input.spline_taps {
                (self.window + tap) * tile
            } else {
                self.input.width - tile
            }
        });
        assert!(places.iter().all(|place| place + tile <= self.input.width));
        places
    }

    /// The vectors of `T` taps; contributions of slopes after the first taps are added.
    #[inline(always)]
    fn inner_of<S: Simd, const T: usize, const N: usize>(
        &self,
        simd: S,
        first: usize,
        partial: &mut [f32],
    ) {
        let places = self.places::<T>(first, N * S::LANES);
        // Blocks of as many samples as fit into registers, then the rest.
        let mut order = self.order;
        if const { S::LANES > 8 } {
            order = self.samples::<S, T, N, 4>(simd, first, places, order, partial);
        }
        order = self.samples::<S, T, N, 2>(simd, first, places, order, partial);
        self.samples::<S, T, N, 1>(simd, first, places, order, partial);
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
        let slopes = self.input.slopes[first * S::PITCH..][..T * S::PITCH].as_ptr();
        let weights = self.input.packed[..self.input.width].as_ptr();
        let dy = rows.map(|row| self.input.dy.as_ptr().wrapping_add(row * N * S::LANES));
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

/// [`Input::add_sums`] in a separate function, for all passes that need it.
struct Sums<'a, const N: usize> {
    input: &'a Input<'a>,
    sums: &'a mut [f32],
}

impl<const N: usize> Kernel for Sums<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { input, sums } = self;
        for first in (0..input.taps).step_by(MOST_TAPS) {
            match (input.taps - first).min(MOST_TAPS) {
                1 => input.sums_of::<S, 1, N>(simd, first, sums),
                2 => input.sums_of::<S, 2, N>(simd, first, sums),
                3 => input.sums_of::<S, 3, N>(simd, first, sums),
                4 => input.sums_of::<S, 4, N>(simd, first, sums),
                _ => input.sums_of::<S, 5, N>(simd, first, sums),
            }
        }
    }
}

/// [`Input::write_inner`] in a separate function, for all passes that need it.
struct Inner<'a, const N: usize> {
    input: &'a Input<'a>,
    partial: &'a mut [f32],
}

impl<const N: usize> Kernel for Inner<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { input, partial } = self;
        for group in input.groups() {
            for first in (0..input.taps).step_by(MOST_TAPS) {
                match (input.taps - first).min(MOST_TAPS) {
                    1 => group.inner_of::<S, 1, N>(simd, first, partial),
                    2 => group.inner_of::<S, 2, N>(simd, first, partial),
                    3 => group.inner_of::<S, 3, N>(simd, first, partial),
                    4 => group.inner_of::<S, 4, N>(simd, first, partial),
                    _ => group.inner_of::<S, 5, N>(simd, first, partial),
                }
            }
        }
    }
}
