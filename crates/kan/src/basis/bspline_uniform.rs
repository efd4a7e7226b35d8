//! B-splines of degree 1 to 3 over equal intervals, in closed form, many samples at a time.
//!
//! Each loop does little over whole lines, so that compilers make vector instructions of it, for
//! whatever path it is compiled for.

use crate::grid::{Grid, Outside};

/// Samples evaluated at a time, at most.
pub(crate) const LINE: usize = 128;

/// A uniform grid in the units of its intervals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Uniform {
    low: f32,
    high: f32,
    /// Intervals per unit of the input.
    density: f32,
    /// The length of an interval in two parts; the first times a number of intervals is exact.
    step: [f32; 2],
    intervals: f32,
    outside: Outside,
}

impl Uniform {
    /// `None` for knots that are not uniform, or so many that their places are not exact.
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
        Some(Self { low, high, density, step, intervals, outside })
    }

    /// Evaluates a spline of degree `T - 1` for up to [`LINE`] samples: the values of the bases
    /// that can differ from zero, the slopes if they are asked for, and the first such basis.
    ///
    /// A tap's values lie `pitch` after those of the tap before it.
    #[inline(always)]
    pub(crate) fn evaluate<const T: usize>(
        &self,
        x: &[f32],
        values: &mut [f32],
        slopes: Option<&mut [f32]>,
        pitch: usize,
        windows: &mut [u32],
    ) {
        let mut place = [0.0; LINE];
        let (mut weight, mut slope_weight) = ([1.0; LINE], [self.density; LINE]);
        let mut shifts = [0_i32; LINE];
        let count = x.len();
        let place = &mut place[..count];
        self.locate::<T>(x, place, &mut weight[..count], &mut slope_weight[..count]);
        let is_tapered = self.windows::<T>(place, &mut shifts[..count], &mut windows[..count]);

        let mut lines = values.chunks_mut(pitch);
        let mut lines: [&mut [f32]; T] =
            std::array::from_fn(|_| &mut lines.next().expect("a line a tap")[..count]);
        let shifts = is_tapered.then_some(&shifts[..count]);
        fill(value::<T>, place, &weight[..count], shifts, &mut lines);
        let Some(slopes) = slopes else { return };
        let mut lines = slopes.chunks_mut(pitch);
        let mut lines: [&mut [f32]; T] =
            std::array::from_fn(|_| &mut lines.next().expect("a line a tap")[..count]);
        fill(slope::<T>, place, &slope_weight[..count], shifts, &mut lines);
    }

    /// Brings samples to where polynomials are, and says what their values and slopes are
    /// multiplied by: 0 where there is no spline.
    #[inline(always)]
    fn locate<const T: usize>(
        &self,
        x: &[f32],
        place: &mut [f32],
        weight: &mut [f32],
        slope_weight: &mut [f32],
    ) {
        let Self { low, high, density, intervals, outside, .. } = *self;
        match outside {
            Outside::Zero => {
                let (first, end) = (1.0 - T as f32, intervals + T as f32 - 1.0);
                let places = place.iter_mut().zip(x);
                for (((place, &x), weight), slope) in places.zip(weight).zip(slope_weight) {
                    let at = (x - low) * density;
                    let is_beyond = (at < first) | (at >= end);
                    *place = if is_beyond { low } else { x };
                    *weight = if is_beyond { 0.0 } else { 1.0 };
                    *slope = if is_beyond { 0.0 } else { density };
                }
            }
            Outside::Clamp => {
                for ((place, &x), slope) in place.iter_mut().zip(x).zip(slope_weight) {
                    let above = if x < low { low } else { x };
                    *place = if above > high { high } else { above };
                    *slope = if (x < low) | (x > high) { 0.0 } else { density };
                }
            }
            Outside::Extend => place.copy_from_slice(x),
        }
    }

    /// Splits samples into the interval that they lie in and the place in it; says by how much
    /// the first basis of each window is not the interval's own, and whether there is such a
    /// window.
    #[inline(always)]
    fn windows<const T: usize>(
        &self,
        place: &mut [f32],
        shifts: &mut [i32],
        windows: &mut [u32],
    ) -> bool {
        let last = self.intervals - 1.0;
        // Only a spline that fades has polynomials outside its domain that are not the last ones.
        let taper = if self.outside == Outside::Zero { T as f32 - 1.0 } else { 0.0 };
        let mut is_tapered = 0;
        for ((place, shift), window) in place.iter_mut().zip(shifts).zip(windows) {
            let interval = ((*place - self.low) * self.density).floor();
            let interval = if interval > -taper { interval } else { -taper };
            let interval = if interval < last + taper { interval } else { last + taper };
            let inside = if interval > 0.0 { interval } else { 0.0 };
            let inside = if inside < last { inside } else { last };
            *window = whole(inside).cast_unsigned();
            *shift = whole(inside - interval);
            is_tapered |= *shift;
            *place = self.place(*place, interval);
        }
        is_tapered != 0
    }

    /// Where `x` is in an interval, to the last bits, however far the interval is from `low`.
    #[inline(always)]
    fn place(&self, x: f32, interval: f32) -> f32 {
        // What rounding took from the difference: Knuth's TwoSum of x and −low.
        let difference = x - self.low;
        let taken = difference - x;
        let lost = (x - (difference - taken)) - (self.low + taken);
        let [coarse, fine] = self.step;
        (((difference - interval * coarse) - interval * fine) + lost) * self.density
    }
}

/// Writes a function of the place, weighted, for every tap.
///
/// With shifts, the entry `tap + shift` becomes that of `tap`; entries from outside are zero.
#[inline(always)]
fn fill<const T: usize>(
    function: impl Fn(f32) -> [f32; T],
    place: &[f32],
    weight: &[f32],
    shifts: Option<&[i32]>,
    taps: &mut [&mut [f32]; T],
) {
    for (tap, to) in taps.iter_mut().enumerate() {
        let numbers = to.iter_mut().zip(place).zip(weight);
        match shifts {
            None => {
                for ((to, &place), weight) in numbers {
                    *to = function(place)[tap] * weight;
                }
            }
            Some(shifts) => {
                for (((to, &place), weight), shift) in numbers.zip(shifts) {
                    let all = function(place);
                    let mut moved = 0.0;
                    for (from, value) in all.into_iter().enumerate() {
                        moved = if tap as i32 + shift == from as i32 { value } else { moved };
                    }
                    *to = moved * weight;
                }
            }
        }
    }
}

/// A small whole number as an integer.
#[inline(always)]
fn whole(x: f32) -> i32 {
    /// Adding it leaves a whole number below 2^22 in the lowest bits.
    const ROUNDER: f32 = 12_582_912.0;
    ((x + ROUNDER).to_bits().wrapping_sub(ROUNDER.to_bits())).cast_signed()
}

/// The bases of degree `T - 1` at `u` of an interval of length 1.
///
/// # Source
/// The recursion of Cox and de Boor with knots at whole numbers, written out.
#[inline(always)]
fn value<const T: usize>(u: f32) -> [f32; T] {
    let v = 1.0 - u;
    let mut values = [0.0; T];
    match T {
        2 => values.copy_from_slice(&[v, u]),
        3 => values.copy_from_slice(&[0.5 * v * v, 0.5 + u * v, 0.5 * u * u]),
        _ => {
            let (u2, v2) = (u * u, v * v);
            values.copy_from_slice(&[
                v2 * v * (1.0 / 6.0),
                (2.0 / 3.0) - u2 + 0.5 * u2 * u,
                (2.0 / 3.0) - v2 + 0.5 * v2 * v,
                u2 * u * (1.0 / 6.0),
            ]);
        }
    }
    values
}

/// Their slopes.
#[inline(always)]
fn slope<const T: usize>(u: f32) -> [f32; T] {
    let v = 1.0 - u;
    let mut slopes = [0.0; T];
    match T {
        2 => slopes.copy_from_slice(&[-1.0, 1.0 + 0.0 * u]),
        3 => slopes.copy_from_slice(&[-v, v - u, u]),
        _ => slopes.copy_from_slice(&[
            -0.5 * v * v,
            u * (1.5 * u - 2.0),
            v * (2.0 - 1.5 * v),
            0.5 * u * u,
        ]),
    }
    slopes
}
