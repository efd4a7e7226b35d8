//! The bases at a number of an input: in closed form, or by the recursion of Cox and de Boor for
//! other degrees and for knots of each input.

use cubecl::prelude::*;

use super::layer::CubeLayer;
use super::position::{Kind, Knots, basis, has_no_value, locate, nan_of};
use crate::grid::Outside;
use crate::kernels::cube_cost::Spacing;

/// Where a number lies.
#[derive(CubeType)]
pub(super) struct Found {
    /// The first of the bases that can differ from zero.
    pub(super) window: u32,
    /// Whether no basis has a value.
    pub(super) has_no_value: bool,
    /// NaN in that case.
    pub(super) nan: f32,
}

/// Writes the values of the bases that can differ from zero at an input's number, or their slopes.
#[cube]
pub(super) fn evaluate(
    number: f32,
    input: u32,
    knots: &Knots,
    list: &[f32],
    of_taps: &mut Array<f32>,
    #[comptime] layer: CubeLayer,
    #[comptime] kind: Kind,
) -> Found {
    if comptime!(layer.spacing == Spacing::PerInput) {
        between_knots(number, input, list, of_taps, layer, kind)
    } else {
        let position = locate(number, knots, layer);
        if comptime!(layer.is_closed()) {
            #[unroll]
            for tap in 0..comptime!(layer.taps()) {
                of_taps[tap] = basis(&position, layer, tap, kind);
            }
        } else {
            let mut own = Array::<f32>::new(comptime!(layer.taps()));
            over_equal_intervals(position.place, &mut own, comptime!(layer.degree), kind);
            #[unroll]
            for tap in 0..comptime!(layer.taps()) {
                let mut result = shifted(&own, position.shift, tap, layer);
                if comptime!(kind == Kind::Slope) {
                    result *= position.density;
                }
                of_taps[tap] = select(position.has_no_value, position.nan, result);
            }
        }
        Found { window: position.window, has_no_value: position.has_no_value, nan: position.nan }
    }
}

/// The bases of an interval at `place`, from 0 to 1 of it, or their slopes per interval.
///
/// # Source
/// Piegl and Tiller, The NURBS Book, 2nd edition, algorithm A2.2 and equation 2.7, with knots at
/// integers.
#[cube]
fn over_equal_intervals(
    place: f32,
    own: &mut Array<f32>,
    #[comptime] degree: usize,
    #[comptime] kind: Kind,
) {
    own[0usize] = f32::new(comptime!(initial(degree, kind)));
    #[unroll]
    for below in 0..degree {
        let order = comptime!(below + 1);
        let are_slopes = comptime!(order == degree && kind == Kind::Slope);
        let mut saved = 0.0f32;
        let mut before = 0.0f32;
        #[unroll]
        for index in 0..order {
            let value = own[index];
            if comptime!(are_slopes) {
                own[index] = before - value;
                before = value;
            } else {
                let share = value * f32::new(comptime!(1.0 / order as f32));
                let falling = f32::new(comptime!((index + 1) as f32)) - place;
                let rising = place + f32::new(comptime!((order - index - 1) as f32));
                own[index] = saved + falling * share;
                saved = rising * share;
            }
        }
        if comptime!(are_slopes) {
            own[order] = before;
        } else {
            own[order] = saved;
        }
    }
}

/// The basis of degree 0 at the start of a recursion, or its slope if that is the end, too.
const fn initial(degree: usize, kind: Kind) -> f32 {
    if degree == 0 && matches!(kind, Kind::Slope) { 0.0 } else { 1.0 }
}

/// Number `tap + shift` of an interval's own: where a spline fades, or behind its knots, some do not
/// exist.
#[cube]
fn shifted(
    own: &Array<f32>,
    shift: i32,
    #[comptime] tap: usize,
    #[comptime] layer: CubeLayer,
) -> f32 {
    let mut result = 0.0f32;
    if comptime!(layer.outside == Outside::Zero) {
        #[unroll]
        for from in 0..comptime!(layer.taps()) {
            let wanted = comptime!(from as i32 - tap as i32);
            result = select(shift == wanted, own[from], result);
        }
    } else {
        result = own[tap];
    }
    result
}

/// As [`evaluate`], between the knots of the input.
#[cube]
fn between_knots(
    number: f32,
    input: u32,
    list: &[f32],
    of_taps: &mut Array<f32>,
    #[comptime] layer: CubeLayer,
    #[comptime] kind: Kind,
) -> Found {
    let degree = comptime!(layer.degree);
    let start = input as usize * comptime!(layer.knots());
    // The knots at the ends of the domain, and around them those between which bases have a value.
    let left = comptime!(2 * layer.degree as u32);
    let right = comptime!((2 * layer.degree + layer.intervals) as u32);
    let beyond = comptime!(if layer.outside == Outside::Zero { layer.degree as u32 } else { 0 });

    let is_without = has_no_value(number, layer);
    let nan = nan_of(number);
    // Any number will do: the results are NaN.
    let mut at = select(is_without, 0.0f32, number);
    let mut factor = 1.0f32;
    if comptime!(layer.outside == Outside::Clamp) {
        let low = list[start + comptime!(left as usize)];
        let high = list[start + comptime!(right as usize)];
        factor = select(at < low || at > high, 0.0f32, 1.0f32);
        at = select(at < low, low, select(at > high, high, at));
    }

    // The last knot that is not above, by bisection.
    let mut below = 0u32.runtime();
    below += comptime!(left - beyond);
    let mut above = 0u32.runtime();
    above += comptime!(right + beyond);
    while above - below > 1u32 {
        let middle = (below + above) / 2u32;
        if list[start + middle as usize] <= at {
            below = middle;
        } else {
            above = middle;
        }
    }
    // Only at an end can the interval found be empty.
    while below > comptime!(left - beyond)
        && list[start + below as usize] == list[start + below as usize + 1usize]
    {
        below -= 1u32;
    }
    while below < comptime!(right + beyond - 1)
        && list[start + below as usize] == list[start + below as usize + 1usize]
    {
        below += 1u32;
    }

    let last = comptime!((layer.intervals - 1) as u32);
    let inside = below - min(left, below);
    let window = min(last, inside);
    let mut shift = i32::cast_from(window + left) - i32::cast_from(below);
    if comptime!(layer.outside == Outside::Zero) {
        let first = list[start + comptime!((left - beyond) as usize)];
        let end = list[start + comptime!((right + beyond) as usize)];
        let is_within = first <= at && at < end;
        shift = select(is_within, shift, comptime!(layer.taps() as i32));
    }

    // The knots around the interval, half of them before it.
    let mut near = Array::<f32>::new(comptime!((2 * layer.degree).max(1)));
    #[unroll]
    for place in 0..comptime!(2 * layer.degree) {
        let knot = below + comptime!(place as u32 + 1) - comptime!(layer.degree as u32);
        near[place] = list[start + knot as usize];
    }
    let mut own = Array::<f32>::new(comptime!(layer.taps()));
    own[0usize] = f32::new(comptime!(initial(degree, kind)));
    #[unroll]
    for lower in 0..degree {
        let order = comptime!(lower + 1);
        let are_slopes = comptime!(order == degree && kind == Kind::Slope);
        let mut saved = 0.0f32;
        let mut before = 0.0f32;
        #[unroll]
        for index in 0..order {
            let from = near[comptime!(degree + index - order)];
            let to = near[comptime!(degree + index)];
            let span = to - from;
            // A basis over no interval is zero; it is one that the grid does not have.
            let is_there = span > 0.0f32;
            let share = select(is_there, own[index] / select(is_there, span, 1.0f32), 0.0f32);
            if comptime!(are_slopes) {
                own[index] = f32::new(comptime!(degree as f32)) * (before - share);
                before = share;
            } else {
                own[index] = saved + (to - at) * share;
                saved = (at - from) * share;
            }
        }
        if comptime!(are_slopes) {
            own[order] = f32::new(comptime!(degree as f32)) * before;
        } else {
            own[order] = saved;
        }
    }
    #[unroll]
    for tap in 0..comptime!(layer.taps()) {
        let mut result = shifted(&own, shift, tap, layer);
        if comptime!(kind == Kind::Slope) {
            result *= factor;
        }
        of_taps[tap] = select(is_without, nan, result);
    }
    Found { window, has_no_value: is_without, nan }
}
