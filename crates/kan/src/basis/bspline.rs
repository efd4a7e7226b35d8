//! B-splines of any degree over any knots: the `degree + 1` bases that are not zero at a position.

use crate::grid::{Grid, MAX_DEGREE, Outside};

/// The bases and slopes at one position.
const TAPS: usize = MAX_DEGREE + 1;

/// Evaluates the bases of a feature's spline that can differ from zero at `x`, and their slopes
/// per unit of the input.
///
/// Returns the first of them: `values[t]` belongs to basis `first + t`. NaN gives NaN in all of
/// `values` and `slopes`, and so does infinity if polynomials are extended to it. Where the slope
/// has a jump, it is that to the right.
///
/// # Panics
/// If `values` and `slopes` have not `degree + 1` entries each, or the grid has no such feature.
///
/// # Source
/// Piegl and Tiller, The NURBS Book, 2nd edition, algorithm A2.2 and equation 2.7.
///
/// # Example
/// ```
/// use updraft_kan::slices::{Grid, local_bases};
///
/// let grid = Grid::uniform(0.0, 5.0, 5, 3)?;
/// let (mut values, mut slopes) = ([0.0; 4], [0.0; 4]);
/// let first = local_bases(&grid, 0, 2.0, &mut values, &mut slopes);
/// assert_eq!((first, values[3]), (2, 0.0));
/// assert!((values[1] - 2.0 / 3.0).abs() < 1e-15);
/// # Ok::<(), updraft_kan::slices::GridError>(())
/// ```
pub fn local_bases(
    grid: &Grid,
    feature: usize,
    x: f64,
    values: &mut [f64],
    slopes: &mut [f64],
) -> usize {
    let degree = grid.degree();
    assert_eq!([values.len(), slopes.len()], [degree + 1; 2], "degree + 1 values and slopes");
    let has_no_value = x.is_infinite() && grid.outside() == Outside::Extend && degree > 0;
    if x.is_nan() || has_no_value {
        values.fill(f64::NAN);
        slopes.fill(f64::NAN);
        return 0;
    }
    let (low, high) = grid.domain(feature);
    let (low, high) = (f64::from(low), f64::from(high));
    let is_clamped = grid.outside() == Outside::Clamp && (x < low || x > high);
    let at = if is_clamped { x.clamp(low, high) } else { x };
    let Some(interval) = interval(grid, feature, at) else {
        values.fill(0.0);
        slopes.fill(0.0);
        return 0;
    };
    triangle(grid, feature, interval, at, values, slopes);
    if is_clamped {
        slopes.fill(0.0);
    }
    // In the tapers the first or the last bases of this window do not exist.
    let window = interval.clamp(0, grid.intervals() as isize - 1);
    shift(window - interval, values);
    shift(window - interval, slopes);
    window as usize
}

/// The interval that `x` lies in, counted from the left end of the domain.
fn interval(grid: &Grid, feature: usize, x: f64) -> Option<isize> {
    let knot = |index: isize| grid.knot(feature, index);
    let (degree, intervals) = (grid.degree() as isize, grid.intervals() as isize);
    let (first, last) = match grid.outside() {
        Outside::Zero => (-degree, intervals + degree),
        Outside::Clamp | Outside::Extend => (0, intervals),
    };
    if grid.outside() == Outside::Zero && !(knot(first) <= x && x < knot(last)) {
        return None;
    }
    // The last knot that is not above `x`, by bisection.
    let (mut below, mut above) = (first, last);
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if knot(middle) <= x {
            below = middle;
        } else {
            above = middle;
        }
    }
    // Only at an end of the domain can the interval found be empty.
    while below > first && knot(below) == knot(below + 1) {
        below -= 1;
    }
    while knot(below) == knot(below + 1) {
        below += 1;
    }
    Some(below)
}

/// All bases of an interval, by rising degree, with the slopes from the last but one.
fn triangle(
    grid: &Grid,
    feature: usize,
    interval: isize,
    x: f64,
    values: &mut [f64],
    slopes: &mut [f64],
) {
    let degree = grid.degree();
    // The knots on both sides of `x`, from the nearest on.
    let (mut left, mut right) = ([0.0; TAPS], [0.0; TAPS]);
    values[0] = 1.0;
    slopes[0] = 0.0;
    for order in 1..=degree {
        left[order] = grid.knot(feature, interval + 1 - order as isize);
        right[order] = grid.knot(feature, interval + order as isize);
        let (mut saved, mut before) = (0.0, 0.0);
        for index in 0..order {
            let (left, right) = (left[order - index], right[index + 1]);
            let share = values[index] / (right - left);
            values[index] = saved + (right - x) * share;
            saved = (x - left) * share;
            if order == degree {
                slopes[index] = degree as f64 * (before - share);
                before = share;
            }
        }
        values[order] = saved;
        slopes[order] = degree as f64 * before;
    }
}

/// Moves entry `index + by` to `index`, and fills the end with zeros.
fn shift(by: isize, numbers: &mut [f64]) {
    let steps = by.unsigned_abs().min(numbers.len());
    let end = numbers.len() - steps;
    if by > 0 {
        numbers.copy_within(steps.., 0);
        numbers[end..].fill(0.0);
    } else {
        numbers.copy_within(..end, steps);
        numbers[..steps].fill(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::reference;
    use proptest::prelude::*;

    /// All bases, from those that can be non-zero.
    fn all(grid: &Grid, x: f64) -> [Vec<f64>; 2] {
        let mut local = [vec![0.0; grid.degree() + 1], vec![0.0; grid.degree() + 1]];
        let [values, slopes] = &mut local;
        let first = local_bases(grid, 0, x, values, slopes);
        local.map(|numbers| {
            let mut all = vec![0.0; grid.bases()];
            all[first..=first + grid.degree()].copy_from_slice(&numbers);
            all
        })
    }

    fn assert_agrees(grid: &Grid, x: f64) -> Result<(), TestCaseError> {
        let [values, slopes] = all(grid, x);
        let scale = slopes.iter().fold(1.0_f64, |most, slope| most.max(slope.abs()));
        let value_scale = values.iter().fold(1.0_f64, |most, value| most.max(value.abs()));
        for (actual, expected) in values.iter().zip(reference::bases(grid, 0, x)) {
            prop_assert!((actual - expected).abs() <= 1e-10 * value_scale, "{values:?} at {x}");
        }
        for (actual, expected) in slopes.iter().zip(reference::slopes(grid, 0, x)) {
            prop_assert!((actual - expected).abs() <= 1e-10 * scale, "slopes {slopes:?} at {x}");
        }
        Ok(())
    }

    fn outside() -> impl Strategy<Value = Outside> {
        prop_oneof![Just(Outside::Zero), Just(Outside::Clamp), Just(Outside::Extend)]
    }

    proptest! {
        #[test]
        fn local_bases_are_those_of_the_recursion(
            degree in 0_usize..=7,
            intervals in 1_usize..12,
            outside in outside(),
            x in -3.0..3.0_f64,
        ) {
            let grid = Grid::uniform(-1.0, 1.5, intervals, degree).unwrap().with_outside(outside);
            assert_agrees(&grid, x)?;
        }

        #[test]
        fn local_bases_follow_uneven_and_coinciding_knots(
            degree in 0_usize..=4,
            steps in prop::collection::vec(prop_oneof![Just(0.0_f32), 0.01..1.0_f32], 1..6),
            outside in outside(),
            share in -0.2..1.2_f64,
        ) {
            prop_assume!(steps.iter().any(|&step| step > 0.0));
            // Single knots around the domain, so that no basis is empty at its ends.
            let around = || std::iter::repeat_n(0.3, degree);
            let mut knots = vec![-1.0_f32];
            for step in around().chain(steps.iter().copied()).chain(around()) {
                knots.push(knots.last().unwrap() + step);
            }
            let span = f64::from(*knots.last().unwrap()) + 1.0;
            let grid = Grid::per_feature(1, knots, steps.len(), degree).unwrap();
            assert_agrees(&grid.with_outside(outside), -1.0 + share * span)?;
        }
    }

    #[test]
    fn knots_belong_to_the_interval_on_their_right() {
        for degree in 0..=3 {
            for outside in [Outside::Zero, Outside::Clamp, Outside::Extend] {
                let grid = Grid::uniform(-1.0, 1.0, 4, degree).unwrap().with_outside(outside);
                for index in -5..=9 {
                    assert_agrees(&grid, grid.knot(0, index)).unwrap();
                }
            }
        }
    }

    #[test]
    fn polynomials_keep_their_digits_far_outside() {
        for degree in 1..=5 {
            let grid = Grid::uniform(-0.3, 1.1, 4, degree).unwrap().with_outside(Outside::Extend);
            for x in [-1e12, -1e6, 1e6, 1e12, 3e18] {
                assert_agrees(&grid, x).unwrap();
            }
        }
    }

    #[test]
    fn infinity_is_outside_and_nan_is_everywhere() {
        let grid = Grid::uniform(-1.0, 1.0, 4, 3).unwrap();
        for x in [f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(all(&grid, x), [vec![0.0; 7], vec![0.0; 7]]);
            let extended = grid.clone().with_outside(Outside::Extend);
            assert!(all(&extended, x).concat()[..4].iter().all(|number| number.is_nan()));
        }
        let (mut values, mut slopes) = ([0.0; 4], [0.0; 4]);
        local_bases(&grid, 0, f64::NAN, &mut values, &mut slopes);
        assert!(values.iter().chain(&slopes).all(|number| number.is_nan()));
    }
}
