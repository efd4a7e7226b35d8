//! Coefficients over other knots that keep a spline's values at samples.

use crate::basis::local_bases;
use crate::grid::{Grid, MAX_DEGREE};

use super::least_squares::LeastSquares;

/// In addition to the samples, the spline is kept at a few positions of every interval with this
/// weight: it does not change where there are no samples, and no system is singular.
const WEIGHT_OF_A_SITE: f64 = 1e-3;

/// The coefficients over the knots of `to`, `[features, bases, columns]`, of the splines that
/// `coefficients`, `[features, bases, columns]`, are over the knots of `from`.
///
/// They are nearest to the old splines at `samples`, `[count, features]`, by least squares in f64;
/// in intervals without samples they follow the old splines as well. Factors of the splines
/// have no part in it: they multiply the new coefficients as they did the old.
///
/// # Panics
/// If `samples` or `coefficients` do not fit, a grid has no such features, or a sample is not
/// finite.
#[must_use]
pub fn refit(
    from: &Grid,
    to: &Grid,
    coefficients: &[f32],
    samples: &[f32],
    features: usize,
) -> Vec<f32> {
    let old = features * from.bases();
    assert!(old > 0 && coefficients.len().is_multiple_of(old), "coefficients of whole features");
    assert!(samples.len().is_multiple_of(features), "whole samples");
    assert!(samples.iter().all(|sample| sample.is_finite()), "finite samples");
    let columns = coefficients.len() / old;
    let mut all = Vec::with_capacity(features * to.bases() * columns);
    let mut right = vec![0.0; columns];
    let (mut values, mut slopes) = ([0.0; MAX_DEGREE + 1], [0.0; MAX_DEGREE + 1]);
    for (feature, curves) in coefficients.chunks_exact(from.bases() * columns).enumerate() {
        let column = samples.iter().skip(feature).step_by(features);
        let mut places: Vec<(f64, f64)> = column.map(|&x| (f64::from(x), 1.0)).collect();
        places.extend(sites(to, feature).map(|x| (x, WEIGHT_OF_A_SITE)));
        // The band is filled from one end to the other.
        places.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));

        let mut equations = LeastSquares::new(to.bases(), to.degree(), columns);
        for (x, weight) in places {
            let taps = from.degree() + 1;
            let first = local_bases(from, feature, x, &mut values[..taps], &mut slopes[..taps]);
            right.fill(0.0);
            let rows = curves[first * columns..].chunks_exact(columns);
            for (row, value) in rows.zip(&values[..taps]) {
                for (right, &coefficient) in right.iter_mut().zip(row) {
                    *right += weight * value * f64::from(coefficient);
                }
            }
            let taps = to.degree() + 1;
            let first = local_bases(to, feature, x, &mut values[..taps], &mut slopes[..taps]);
            values[..taps].iter_mut().for_each(|value| *value *= weight);
            equations.add(first, &mut values[..taps], &mut right);
        }
        all.extend(equations.solve().into_iter().map(|number| number as f32));
    }
    all
}

/// Enough positions in every non-empty interval to determine its polynomials.
fn sites(grid: &Grid, feature: usize) -> impl Iterator<Item = f64> {
    let count = grid.degree() + 1;
    (0..grid.intervals() as isize).flat_map(move |interval| {
        let (left, right) = (grid.knot(feature, interval), grid.knot(feature, interval + 1));
        let place = move |site: usize| (site as f64 + 0.5) / count as f64;
        let sites = if left < right { count } else { 0 };
        (0..sites).map(move |site| left + place(site) * (right - left))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::reference::bases;
    use crate::regrid::Placement;

    fn number(index: usize) -> f32 {
        ((index * 7919 + 13) % 101) as f32 / 50.0 - 1.0
    }

    fn curve(grid: &Grid, coefficients: &[f32], x: f64) -> f64 {
        let values = bases(grid, 0, x);
        values.iter().zip(coefficients).map(|(value, c)| value * f64::from(*c)).sum()
    }

    #[test]
    fn finer_knots_that_hold_the_old_ones_change_nothing() {
        let (from, to) =
            (Grid::uniform(-1.0, 1.0, 5, 3).unwrap(), Grid::uniform(-1.0, 1.0, 10, 3).unwrap());
        let old: Vec<f32> = (0..8).map(number).collect();
        let samples: Vec<f32> = (0..50).map(|index| index as f32 / 25.0 - 1.0).collect();
        let new = refit(&from, &to, &old, &samples, 1);
        for step in 0..400 {
            let x = f64::from(step) / 200.0 - 1.0;
            assert!((curve(&from, &old, x) - curve(&to, &new, x)).abs() < 3e-7, "at {x}");
        }
    }

    #[test]
    fn an_interval_without_samples_keeps_its_function() {
        let grid = Grid::uniform(-1.0, 1.0, 8, 3).unwrap();
        let old: Vec<f32> = (0..11).map(number).collect();
        let new = refit(&grid, &grid, &old, &[-0.9, -0.8, 0.9], 1);
        for (old, new) in old.iter().zip(&new) {
            assert!((old - new).abs() < 1e-6, "{old} and {new}");
        }
    }

    #[test]
    fn coinciding_knots_give_finite_coefficients() {
        let from = Grid::uniform(-1.0, 1.0, 4, 2).unwrap();
        let samples = [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, -1.0, 1.0];
        let placement = Placement { uniform_share: 0.0, margin: 0.0 };
        let to = placement.place(&from, &samples, 1).unwrap();
        assert_eq!(to.knot(0, 2), to.knot(0, 3), "a test of coinciding knots");
        let old: Vec<f32> = (0..6).map(number).collect();
        let new = refit(&from, &to, &old, &samples, 1);
        assert!(new.iter().all(|c| c.is_finite()), "{new:?}");
        assert!((curve(&from, &old, 0.5) - curve(&to, &new, 0.5)).abs() < 1e-5);
    }

    /// The residual of least squares is orthogonal to every basis.
    #[test]
    fn the_rest_is_orthogonal_to_the_bases_where_samples_are_many() {
        let from = Grid::uniform(-1.0, 1.0, 7, 3).unwrap();
        let to = Grid::uniform(-1.0, 1.0, 5, 3).unwrap();
        let old: Vec<f32> = (0..10).map(number).collect();
        let samples: Vec<f32> = (0..500).map(|index| index as f32 / 250.0 - 1.0).collect();
        let new = refit(&from, &to, &old, &samples, 1);
        let mut sums = [0.0; 8];
        for &x in &samples {
            let x = f64::from(x);
            let rest = curve(&from, &old, x) - curve(&to, &new, x);
            for (sum, value) in sums.iter_mut().zip(bases(&to, 0, x)) {
                *sum += rest * value / samples.len() as f64;
            }
        }
        assert!(sums.iter().all(|sum| sum.abs() < 1e-6), "{sums:?}");
    }
}
