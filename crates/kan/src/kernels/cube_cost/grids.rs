//! The grids that the kernels for GPUs compute.

use super::layer::MOST_DEGREE;
use crate::grid::{Grid, Outside};
use crate::kernels::cpu::Uniform;

/// The highest degree of polynomials that are continued beyond uneven knots: there the recursion
/// subtracts large numbers, and its error in f32, relative to the largest basis at a point, is
/// 3·10⁻⁶ at degree 5, but 1.2·10⁻⁵ at degree 8 and 2·10⁻³ at degree 12 (random knots, points up to
/// 0.4 domains outside, against the recursion in f64).
pub(crate) const MOST_EXTENDED_DEGREE: usize = 5;

/// The largest number that a knot of an input may be.
const FARTHEST_KNOT: f32 = 1e30;

/// The shortest interval between knots of an input.
const SHORTEST_INTERVAL: f32 = 1e-30;

/// Why the kernels for GPUs do not compute splines over a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsupported {
    /// The degree is above [`MOST_DEGREE`].
    Degree,
    /// Polynomials above [`MOST_EXTENDED_DEGREE`] are continued beyond uneven knots.
    Knots,
    /// f32 does not resolve positions in the intervals.
    Intervals,
}

/// `None` if they do.
pub(crate) fn unsupported(grid: &Grid) -> Option<Unsupported> {
    let degree = grid.degree();
    if degree > MOST_DEGREE {
        Some(Unsupported::Degree)
    } else if grid.is_uniform() {
        Uniform::of(grid).is_none().then_some(Unsupported::Intervals)
    } else if grid.outside() == Outside::Extend && degree > MOST_EXTENDED_DEGREE {
        Some(Unsupported::Knots)
    } else {
        (!is_resolved(grid)).then_some(Unsupported::Intervals)
    }
}

/// Whether the distances of an input's knots are normal numbers.
fn is_resolved(grid: &Grid) -> bool {
    let knots = grid.feature_knots();
    let of_one = grid.intervals() + 2 * grid.degree() + 1;
    knots.chunks(of_one).all(|knots| {
        let is_near = knots.iter().all(|knot| knot.abs() <= FARTHEST_KNOT);
        let mut steps = knots.windows(2).map(|pair| pair[1] - pair[0]);
        is_near && steps.all(|step| step == 0.0 || step >= SHORTEST_INTERVAL)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_grid_that_f32_resolves_is_computed() {
        let uniform = |intervals, degree| Grid::uniform(-1.0, 1.0, intervals, degree).unwrap();
        for degree in 0..=MOST_DEGREE {
            let grid = uniform(5, degree);
            assert_eq!(unsupported(&grid), None);
            assert_eq!(unsupported(&grid.with_outside(Outside::Extend)), None);
        }
        assert_eq!(unsupported(&uniform(5, 13)), Some(Unsupported::Degree));
        assert_eq!(unsupported(&uniform(3000, 3)), Some(Unsupported::Intervals));

        let uneven = |steps: [f32; 3], degree: usize| {
            let around = || std::iter::repeat_n(1.0, degree);
            let mut knots = vec![-1.0_f32];
            for step in around().chain(steps).chain(around()) {
                knots.push(knots[knots.len() - 1] + step);
            }
            Grid::per_feature(1, knots, 3, degree).unwrap()
        };
        assert_eq!(unsupported(&uneven([1.0, 0.0, 0.25], 3)), None);
        assert_eq!(unsupported(&uneven([1.0, 0.5, 0.25], 12)), None);
        let extended = |degree| uneven([1.0, 0.5, 0.25], degree).with_outside(Outside::Extend);
        assert_eq!(unsupported(&extended(5)), None);
        assert_eq!(unsupported(&extended(6)), Some(Unsupported::Knots));
        let tiny = Grid::per_feature(1, vec![-1e-32, 0.0, 1e-32, 1.0], 1, 1).unwrap();
        assert_eq!(unsupported(&tiny), Some(Unsupported::Intervals));
        let far = Grid::per_feature(1, vec![-1e31, 0.0, 1.0, 2.0], 1, 1).unwrap();
        assert_eq!(unsupported(&far), Some(Unsupported::Intervals));
    }
}
