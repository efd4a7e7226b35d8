//! B-splines of degree 1 to 3 over equal intervals, in closed form, a vector of samples at a time.

use updraft_simd::{MAX_LANES, Simd};

use super::GROUP;
use crate::grid::{Grid, Outside};

/// A uniform grid in the units of its intervals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Uniform {
    pub(in crate::kernels) low: f32,
    pub(in crate::kernels) high: f32,
    /// Intervals per unit of the input.
    pub(in crate::kernels) density: f32,
    /// The length of an interval in two parts; the first times a number of intervals is exact.
    pub(in crate::kernels) step: [f32; 2],
    intervals: f32,
    outside: Outside,
}

/// The destinations of the values of some samples, `[taps][pitch]`.
pub(super) struct Bases<'a> {
    /// Values of the bases that can differ from zero.
    pub(super) values: &'a mut [f32],
    /// Their slopes, if they are required.
    pub(super) slopes: Option<&'a mut [f32]>,
    /// Numbers from one tap's line to the next.
    pub(super) pitch: usize,
    /// The first such basis.
    pub(super) windows: &'a mut [u32],
}

/// Samples, prepared for the evaluation.
struct Located<V> {
    /// The position in the interval, from 0 to 1.
    place: V,
    /// The first basis of the window.
    window: V,
    /// The shift from the interval's own first basis, where a spline fades; the number of
    /// taps where the spline is zero.
    shift: V,
    /// The factor of slopes.
    slope_weight: V,
}

impl Uniform {
    /// `None` for knots that are not uniform, or so many, so near or so far that positions between
    /// them are not exact.
    pub(crate) fn of(grid: &Grid) -> Option<Self> {
        /// The first part of a step has 12 significant bits, a number of intervals as many.
        const MOST_INTERVALS: usize = 1 << 11;
        if !grid.is_uniform() || grid.intervals() > MOST_INTERVALS {
            return None;
        }
        let (low, high) = grid.domain(0);
        let (intervals, outside) = (grid.intervals() as f32, grid.outside());
        let step = (f64::from(high) - f64::from(low)) / f64::from(intervals);
        let coarse = f32::from_bits((step as f32).to_bits() & !0xFFF);
        let step = [coarse, (step - f64::from(coarse)) as f32];
        let density = (1.0 / (f64::from(step[0]) + f64::from(step[1]))) as f32;
        let is_near = (f32::MAX + low.abs()).is_finite();
        let is_exact = is_near && step[0].is_normal() && density.is_normal();
        is_exact.then_some(Self { low, high, density, step, intervals, outside })
    }

    /// Whether all samples of a line lie in an interval, or are NaN; may be false for so few that a
    /// lane has no number.
    #[inline(always)]
    pub(super) fn has_all<S: Simd>(&self, simd: S, x: &[f32]) -> bool {
        let [mut least, mut most] = [f32::INFINITY, f32::NEG_INFINITY].map(|end| simd.splat(end));
        let vectors = x.chunks_exact(S::LANES);
        let rest = vectors.remainder();
        for x in vectors {
            let x = simd.read(x);
            (least, most) = (simd.smaller(x, least), simd.larger(x, most));
        }
        let mut ends = [0.0; 2 * MAX_LANES];
        let ends = &mut ends[..2 * S::LANES];
        simd.write(&mut ends[..S::LANES], least);
        simd.write(&mut ends[S::LANES..], most);
        ends.iter().chain(rest).all(|x| {
            let at = (x - self.low) * self.density;
            (0.0 <= at && at < self.intervals) || x.is_nan()
        })
    }

    /// Evaluates a spline of degree `T - 1` for some vectors of samples.
    ///
    /// It is faster if the domain [has all](Self::has_all) of them; bits do not
    /// depend on that, except for the sign of zeros, which sums do not keep.
    ///
    /// # Panics
    /// If the length of `x` is not a multiple of the vector, or results do not fit.
    #[inline(always)]
    pub(super) fn evaluate<S: Simd, const T: usize>(
        &self,
        simd: S,
        is_inside: bool,
        x: &[f32],
        bases: Bases<'_>,
    ) {
        if self.outside == Outside::Zero && !is_inside {
            self.fill::<S, T, true>(simd, is_inside, x, bases);
        } else {
            self.fill::<S, T, false>(simd, is_inside, x, bases);
        }
    }

    /// Evaluates a cubic spline for a group of samples: each number of `quads` has the four values as
    /// bytes, in steps of `1/steps_of_one`, in the order of the bases from the lowest byte on.
    ///
    /// `is_inside` is as in [`evaluate`](Self::evaluate). Values of NaN are unspecified.
    ///
    /// # Panics
    /// If the results do not fit.
    #[inline(always)]
    pub(super) fn quads<S: Simd>(
        &self,
        simd: S,
        is_inside: bool,
        steps_of_one: f32,
        x: &[f32; GROUP],
        quads: &mut [u32; GROUP],
        windows: &mut [u32; GROUP],
    ) {
        if self.outside == Outside::Zero && !is_inside {
            let (mut after, mut before) = ([0; GROUP], [0; GROUP]);
            for first in (0..GROUP).step_by(S::LANES) {
                let located = self.locate::<S, 4, true>(simd, is_inside, simd.read(&x[first..]));
                write_quads(
                    simd,
                    steps_of_one,
                    &located,
                    &mut quads[first..],
                    &mut windows[first..],
                );
                let bits = simd.multiply(located.shift, simd.splat(8.0));
                let minus = simd.subtract(simd.zero(), bits);
                simd.write_whole(&mut after[first..], simd.larger(bits, simd.zero()));
                simd.write_whole(&mut before[first..], simd.larger(minus, simd.zero()));
            }
            // The values beyond the window fall off; four places leave none.
            for ((quad, after), before) in quads.iter_mut().zip(after).zip(before) {
                let kept = if after < u32::BITS { *quad >> (after % u32::BITS) } else { 0 };
                *quad = if before < u32::BITS { kept << (before % u32::BITS) } else { 0 };
            }
        } else {
            for first in (0..GROUP).step_by(S::LANES) {
                let located = self.locate::<S, 4, false>(simd, is_inside, simd.read(&x[first..]));
                write_quads(
                    simd,
                    steps_of_one,
                    &located,
                    &mut quads[first..],
                    &mut windows[first..],
                );
            }
        }
    }

    /// With `FADES` for splines that fade outside the domain.
    #[inline(always)]
    fn fill<S: Simd, const T: usize, const FADES: bool>(
        &self,
        simd: S,
        is_inside: bool,
        x: &[f32],
        bases: Bases<'_>,
    ) {
        let Bases { values, mut slopes, pitch, windows } = bases;
        assert!(x.len().is_multiple_of(S::LANES), "whole vectors");
        for (index, x) in x.chunks_exact(S::LANES).enumerate() {
            let row = index * S::LANES;
            let located = self.locate::<S, T, FADES>(simd, is_inside, simd.read(x));
            let Located { place, window, shift, slope_weight } = located;
            simd.write_whole(&mut windows[row..], window);
            let mut taps = value::<S, T>(simd, place);
            if FADES {
                taps = moved(simd, taps, shift);
            }
            for (tap, value) in taps.into_iter().enumerate() {
                simd.write(&mut values[tap * pitch + row..][..S::LANES], value);
            }
            let Some(slopes) = &mut slopes else { continue };
            let mut taps = slope::<S, T>(simd, place);
            if FADES {
                taps = moved(simd, taps, shift);
            }
            for (tap, slope) in taps.into_iter().enumerate() {
                let slope = simd.multiply(slope, slope_weight);
                simd.write(&mut slopes[tap * pitch + row..][..S::LANES], slope);
            }
        }
    }

    /// The rule outside of the domain.
    pub(super) const fn outside(&self) -> Outside {
        self.outside
    }

    /// The position of samples in their interval, the factor of slopes, and the number of the interval.
    ///
    /// With `FADES` the interval may lie outside of the domain. Where all bases are zero, the position is
    /// some finite number, so that products with it are zero, too.
    #[inline(always)]
    pub(super) fn interval<S: Simd, const T: usize, const FADES: bool>(
        &self,
        simd: S,
        x: S::Vector,
    ) -> (S::Vector, S::Vector, S::Vector) {
        let Located { place, window, shift, slope_weight } =
            self.locate::<S, T, FADES>(simd, false, x);
        let interval = simd.subtract(window, shift);
        if !FADES {
            return (place, slope_weight, interval);
        }
        let [first, end] = [0.5 - T as f32, self.intervals - 1.5 + T as f32].map(|x| simd.splat(x));
        // NaN stays NaN.
        let place = simd.where_below([interval, first], simd.zero(), place);
        let place = simd.where_below([end, interval], simd.zero(), place);
        (place, slope_weight, interval)
    }

    /// Moves samples into the range of the polynomials, and splits them into the interval that they
    /// lie in and the position in it.
    #[inline(always)]
    fn locate<S: Simd, const T: usize, const FADES: bool>(
        &self,
        simd: S,
        is_inside: bool,
        mut x: S::Vector,
    ) -> Located<S::Vector> {
        let number = |number: f32| simd.splat(number);
        let [low, density] = [self.low, self.density].map(number);
        let [zero, last] = [0.0, self.intervals - 1.0].map(number);
        let mut slope_weight = density;
        if self.outside == Outside::Clamp && !is_inside {
            let high = number(self.high);
            for limits in [[x, low], [high, x]] {
                slope_weight = simd.where_below(limits, zero, slope_weight);
            }
            // NaN stays NaN.
            x = simd.smaller(high, simd.larger(low, x));
        }

        let at = simd.multiply(simd.subtract(x, low), density);
        // Where a spline fades, `T - 1` intervals follow on either side; and one without bases.
        let beyond = if FADES { T as f32 } else { 0.0 };
        let [first, end] = [-beyond, self.intervals - 1.0 + beyond].map(number);
        // NaN stays NaN.
        let interval = simd.smaller(end, simd.larger(first, simd.floor(at)));
        let window = simd.smaller(simd.larger(interval, zero), last);
        let shift = simd.subtract(window, interval);
        let place = self.place(simd, x, interval);
        Located { place, window, shift, slope_weight }
    }

    /// The position of `x` in an interval, to the last bits for any distance of the interval from
    /// `low`.
    #[inline(always)]
    fn place<S: Simd>(&self, simd: S, x: S::Vector, interval: S::Vector) -> S::Vector {
        let minus = |a, b| simd.subtract(a, b);
        let [low, coarse, fine] = [self.low, self.step[0], self.step[1]].map(|x| simd.splat(x));
        // The rounding error of the difference: Knuth's TwoSum of x and −low.
        let difference = minus(x, low);
        let taken = minus(difference, x);
        let lost = minus(minus(x, minus(difference, taken)), simd.add(low, taken));
        let place = minus(difference, simd.multiply(interval, coarse));
        let place = minus(place, simd.multiply(interval, fine));
        simd.multiply(simd.add(place, lost), simd.splat(self.density))
    }
}

/// Writes the four values of cubic bases as bytes, and the windows.
#[inline(always)]
fn write_quads<S: Simd>(
    simd: S,
    steps_of_one: f32,
    located: &Located<S::Vector>,
    quads: &mut [u32],
    windows: &mut [u32],
) {
    simd.write_whole(windows, located.window);
    let step = simd.splat(steps_of_one);
    let values = value::<S, 4>(simd, located.place);
    simd.write_bytes(quads, values.map(|value| simd.multiply(value, step)));
}

/// Entry `tap + shift` at `tap`, or zero if there is none; NaN for a NaN shift.
#[inline(always)]
fn moved<S: Simd, const T: usize>(
    simd: S,
    taps: [S::Vector; T],
    shift: S::Vector,
) -> [S::Vector; T] {
    let mut result = taps;
    for (tap, moved) in result.iter_mut().enumerate() {
        let entry = |from: usize| {
            let wanted = simd.splat(from as f32 - tap as f32);
            simd.unless_differs([shift, wanted], taps[from])
        };
        *moved = entry(0);
        for from in 1..T {
            *moved = simd.add(*moved, entry(from));
        }
    }
    result
}

/// The bases of degree `T - 1` at `u` of an interval of length 1.
///
/// # Source
/// The recursion of Cox and de Boor with knots at integers, written out.
#[inline(always)]
pub(super) fn value<S: Simd, const T: usize>(simd: S, u: S::Vector) -> [S::Vector; T] {
    let number = |number: f32| simd.splat(number);
    let product = |a, b| simd.multiply(a, b);
    let half = |a| simd.multiply(number(0.5), a);
    let v = simd.subtract(number(1.0), u);
    let mut values = [u; T];
    match T {
        2 => values.copy_from_slice(&[v, u]),
        3 => {
            let middle = simd.add(number(0.5), product(u, v));
            values.copy_from_slice(&[product(half(v), v), middle, product(half(u), u)]);
        }
        _ => {
            let (u2, v2) = (product(u, u), product(v, v));
            let outer = |a, a2| product(product(a2, a), number(1.0 / 6.0));
            let inner =
                |a, a2| simd.add(simd.subtract(number(2.0 / 3.0), a2), product(half(a2), a));
            values.copy_from_slice(&[outer(v, v2), inner(u, u2), inner(v, v2), outer(u, u2)]);
        }
    }
    values
}

/// Their slopes.
#[inline(always)]
pub(super) fn slope<S: Simd, const T: usize>(simd: S, u: S::Vector) -> [S::Vector; T] {
    let number = |number: f32| simd.splat(number);
    let product = |a, b| simd.multiply(a, b);
    let minus = |a| simd.subtract(simd.zero(), a);
    let v = simd.subtract(number(1.0), u);
    let mut slopes = [u; T];
    match T {
        // NaN where u is.
        2 => {
            slopes.copy_from_slice(&[number(-1.0), simd.add(number(1.0), product(u, simd.zero()))])
        }
        3 => slopes.copy_from_slice(&[minus(v), simd.subtract(v, u), u]),
        _ => {
            let outer = |a| product(product(number(0.5), a), a);
            let inner = |a| product(a, simd.subtract(product(number(1.5), a), number(2.0)));
            slopes.copy_from_slice(&[minus(outer(v)), inner(u), minus(inner(v)), outer(u)]);
        }
    }
    slopes
}

#[cfg(test)]
mod tests {
    use updraft_simd::Portable;

    use super::*;

    /// Bits of the values, the slopes and the windows of eight samples, but for a zero's sign.
    fn evaluated<const T: usize>(uniform: &Uniform, is_inside: bool, x: [f32; 8]) -> Vec<u32> {
        let (mut values, mut slopes, mut windows) = (vec![0.0; 8 * T], vec![0.0; 8 * T], [0; 8]);
        let slopes_of = Some(&mut slopes[..]);
        let bases =
            Bases { values: &mut values, slopes: slopes_of, pitch: 8, windows: &mut windows };
        uniform.evaluate::<Portable, T>(Portable, is_inside, &x, bases);
        values.iter().chain(&slopes).map(|value| (value + 0.0).to_bits()).chain(windows).collect()
    }

    fn agree<const T: usize>(outside: Outside) {
        let grid = Grid::uniform(-0.7, 1.1, 6, T - 1).unwrap().with_outside(outside);
        let uniform = Uniform::of(&grid).unwrap();
        let x = [-0.7, -0.4, -0.1, 0.2, 0.333, 0.8, 1.0, 1.099];
        assert!(uniform.has_all(Portable, &x));
        assert_eq!(evaluated::<T>(&uniform, true, x), evaluated::<T>(&uniform, false, x));
        let with_nan = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, f32::NAN];
        assert!(uniform.has_all(Portable, &with_nan));
        for beyond in [-0.71, 1.2, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(!uniform.has_all(Portable, &[0.0, 0.1, 0.2, 0.3, beyond, 0.5, 0.6, 0.7]));
            assert!(!uniform.has_all(Portable, &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, beyond]));
        }
    }

    #[test]
    fn what_is_known_of_samples_changes_no_bit() {
        for outside in [Outside::Zero, Outside::Clamp, Outside::Extend] {
            agree::<2>(outside);
            agree::<3>(outside);
            agree::<4>(outside);
        }
    }

    #[test]
    fn intervals_that_f32_can_not_count_in_are_left_to_the_recursion() {
        for (low, high) in [(0.0, 1e-38), (0.0, 5e-44), (-1e38, 2e38)] {
            assert!(Uniform::of(&Grid::uniform(low, high, 5, 3).unwrap()).is_none());
        }
        assert!(Uniform::of(&Grid::uniform(0.0, 1e-30, 5, 3).unwrap()).is_some());
    }

    #[test]
    fn beyond_the_fading_there_is_nothing_and_nan_stays_nan() {
        let uniform = Uniform::of(&Grid::uniform(0.0, 4.0, 4, 3).unwrap()).unwrap();
        let x = [-3.0_f32.next_up(), -3.5, 7.0, 1e30, f32::INFINITY, f32::NEG_INFINITY, 2.0, 6.9];
        let bits = evaluated::<4>(&uniform, false, x);
        let value = |tap: usize, sample: usize| f32::from_bits(bits[8 * tap + sample]);
        for sample in 1..6 {
            assert!((0..8).all(|line| value(line, sample) == 0.0), "{}", x[sample]);
        }
        assert!(value(0, 0) == 0.0 && value(3, 7) > 0.0 && value(1, 6) > 0.5);
        let bits = evaluated::<4>(&uniform, false, [f32::NAN; 8]);
        assert!(bits[..64].iter().all(|&bits| f32::from_bits(bits).is_nan()));
    }
}
