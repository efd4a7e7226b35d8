//! The position of a number in a uniform grid, and the bases there.

use cubecl::prelude::*;

use super::layer::CubeLayer;
use crate::grid::Outside;

/// A uniform grid's numbers.
#[derive(CubeType, CubeLaunch, Clone)]
#[expand(derive(Clone))]
pub(super) struct Knots {
    low: f32,
    high: f32,
    /// Intervals per unit of the input.
    density: f32,
    /// The length of an interval is the sum of two parts; the first times a number of intervals is
    /// exact.
    coarse: f32,
    fine: f32,
    /// 0, which no compiler knows.
    pub(super) zero: u32,
}

/// The position of a number.
#[derive(CubeType)]
pub(super) struct Position {
    /// Where in the interval, from 0 to 1.
    pub(super) place: f32,
    /// The first of the bases that can differ from zero.
    pub(super) window: u32,
    /// From the window to the interval's own first basis, where a spline fades.
    pub(super) shift: i32,
    /// The factor of slopes.
    pub(super) density: f32,
    /// Whether no basis has a value.
    pub(super) has_no_value: bool,
    /// NaN in that case.
    pub(super) nan: f32,
}

/// Bases, or their slopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Value,
    Slope,
}

/// A comparison with itself would do where compilers keep the rules of IEEE 754.
#[cube]
pub(super) fn is_nan(x: f32) -> bool {
    (u32::reinterpret(x) & 0x7FFF_FFFFu32) > 0x7F80_0000u32
}

/// Whether no basis has a value at `x`: at NaN, and where polynomials are continued to infinity.
#[cube]
pub(super) fn has_no_value(x: f32, #[comptime] layer: CubeLayer) -> bool {
    let mut result = is_nan(x);
    if comptime!(layer.outside == Outside::Extend && layer.degree > 0) {
        result = (u32::reinterpret(x) & 0x7FFF_FFFFu32) >= 0x7F80_0000u32;
    }
    result
}

/// NaN, with the bits of `x` if it is one.
#[cube]
pub(super) fn nan_of(x: f32) -> f32 {
    f32::reinterpret(u32::reinterpret(x) | 0x7FC0_0000u32)
}

/// `x`, as it was rounded: compilers of shaders replace `(a − b) + b` by `a`, but not through
/// operations on bits.
#[cube]
fn rounded(x: f32, knots: &Knots) -> f32 {
    f32::reinterpret(u32::reinterpret(x) ^ knots.zero)
}

/// The interval of `x` and the position in it.
#[cube]
pub(super) fn locate(x: f32, knots: &Knots, #[comptime] layer: CubeLayer) -> Position {
    let is_without = has_no_value(x, layer);
    let mut at = select(is_without, knots.low, x);
    let mut density = knots.density;
    if comptime!(layer.outside == Outside::Clamp) {
        density = select(at < knots.low || at > knots.high, 0.0f32, density);
        at = select(at < knots.low, knots.low, select(at > knots.high, knots.high, at));
    }
    let last = f32::new(comptime!((layer.intervals - 1) as f32));
    let fades = comptime!(layer.outside == Outside::Zero);
    // Where a spline fades, `degree` intervals follow on either side; and one without bases.
    let beyond = f32::new(comptime!(if fades { (layer.degree + 1) as f32 } else { 0.0 }));
    let floor = f32::floor((at - knots.low) * knots.density);
    let first = -beyond;
    let end = last + beyond;
    let mut interval = select(floor < first, first, select(floor > end, end, floor));
    if comptime!(layer.degree == 0) {
        // A step has no continuity that hides the rounding of the quotient.
        let is_before = distance(at, interval, knots) < 0.0f32;
        let is_behind = distance(at, interval + 1.0f32, knots) >= 0.0f32;
        let exact = select(is_behind, interval + 1.0f32, interval);
        let exact = select(is_before, interval - 1.0f32, exact);
        let inside = select(exact < 0.0f32, 0.0f32, select(exact > last, last, exact));
        interval = select(at < knots.low, first, select(at >= knots.high, end, inside));
    }
    let window = select(interval < 0.0f32, 0.0f32, select(interval > last, last, interval));
    Position {
        place: distance(at, interval, knots) * knots.density,
        window: u32::cast_from(window),
        shift: i32::cast_from(window - interval),
        density,
        has_no_value: is_without,
        nan: nan_of(x),
    }
}

/// From the start of an interval to `at`.
#[cube]
fn distance(at: f32, interval: f32, knots: &Knots) -> f32 {
    // The rounding error of the difference: Knuth's TwoSum of x and −low.
    let difference = rounded(at - knots.low, knots);
    let taken = rounded(difference - at, knots);
    let left = rounded(at - rounded(difference - taken, knots), knots);
    let lost = left - rounded(knots.low + taken, knots);
    let place = rounded(difference - interval * knots.coarse, knots) - interval * knots.fine;
    place + lost
}

/// The value or the slope of basis `window + tap`.
#[cube]
pub(super) fn basis(
    position: &Position,
    #[comptime] layer: CubeLayer,
    #[comptime] tap: usize,
    #[comptime] kind: Kind,
) -> f32 {
    let mut result = 0.0f32;
    if comptime!(layer.outside == Outside::Zero) {
        #[unroll]
        for from in 0..comptime!(layer.taps()) {
            let wanted = comptime!(from as i32 - tap as i32);
            let polynomial = polynomial(position.place, comptime!(layer.degree), from, kind);
            result = select(position.shift == wanted, polynomial, result);
        }
    } else {
        result = polynomial(position.place, comptime!(layer.degree), tap, kind);
    }
    if comptime!(kind == Kind::Slope) {
        result *= position.density;
    }
    select(position.has_no_value, position.nan, result)
}

/// Basis `tap` of the interval's own, at `u` of an interval of length 1, or its slope.
///
/// # Source
/// The recursion of Cox and de Boor with knots at integers, written out.
#[cube]
fn polynomial(
    u: f32,
    #[comptime] degree: usize,
    #[comptime] tap: usize,
    #[comptime] kind: Kind,
) -> f32 {
    let v = 1.0f32 - u;
    // The second half of the bases mirrors the first.
    let is_mirrored = comptime!(2 * tap > degree);
    let mut near = v;
    let mut far = u;
    if comptime!(is_mirrored) {
        near = u;
        far = v;
    }
    let is_outer = comptime!(tap == 0 || tap == degree);
    if comptime!(kind == Kind::Value) {
        value(near, far, degree, is_outer)
    } else {
        let slope = slope(near, far, degree, is_outer);
        if comptime!(is_mirrored) { slope } else { -slope }
    }
}

/// The value of a basis that rises with `near` if it is an outer one, and falls with `far` from
/// its peak if not.
#[cube]
fn value(near: f32, far: f32, #[comptime] degree: usize, #[comptime] is_outer: bool) -> f32 {
    if comptime!(degree == 1) {
        near
    } else if comptime!(degree == 2) {
        if comptime!(is_outer) { 0.5f32 * near * near } else { 0.5f32 + near * far }
    } else if comptime!(is_outer) {
        near * near * near * (1.0f32 / 6.0f32)
    } else {
        (2.0f32 / 3.0f32 - far * far) + 0.5f32 * far * far * far
    }
}

/// Its slope by `near`.
#[cube]
fn slope(near: f32, far: f32, #[comptime] degree: usize, #[comptime] is_outer: bool) -> f32 {
    if comptime!(degree == 1) {
        1.0f32.runtime()
    } else if comptime!(degree == 2) {
        if comptime!(is_outer) { near } else { far - near }
    } else if comptime!(is_outer) {
        0.5f32 * near * near
    } else {
        far * (2.0f32 - 1.5f32 * far)
    }
}
