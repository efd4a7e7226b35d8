//! Every basis function of a spline by the recursion of Cox and de Boor.

use crate::grid::{Grid, Outside};

/// The values of all bases of a feature's spline at `x`, `[bases]`.
///
/// NaN gives NaN in all of them.
///
/// # Panics
/// If the grid has no such feature.
///
/// # Source
/// `B(j,0)` is 1 on `[t(j), t(j+1))`, and `B(j,p) = (x − t(j))/(t(j+p) − t(j))·B(j,p−1) +
/// (t(j+p+1) − x)/(t(j+p+1) − t(j+1))·B(j+1,p−1)`, where 0/0 is 0: Cox 1972, de Boor 1972.
#[must_use]
pub fn bases(grid: &Grid, feature: usize, x: f64) -> Vec<f64> {
    all(grid, feature, x, |span, at| of_degree(grid, feature, grid.degree(), span, at))
}

/// The slopes of all bases of a feature's spline at `x`, per unit of the input, `[bases]`.
///
/// # Panics
/// If the grid has no such feature.
///
/// # Source
/// `B'(j,p) = p/(t(j+p) − t(j))·B(j,p−1) − p/(t(j+p+1) − t(j+1))·B(j+1,p−1)`: de Boor 1972.
#[must_use]
pub fn slopes(grid: &Grid, feature: usize, x: f64) -> Vec<f64> {
    let degree = grid.degree();
    let (low, high) = grid.domain(feature);
    if degree == 0
        || grid.outside() == Outside::Clamp && (x < f64::from(low) || x > f64::from(high))
    {
        return vec![if x.is_nan() { x } else { 0.0 }; grid.bases()];
    }
    all(grid, feature, x, |span, at| {
        let lower = of_degree(grid, feature, degree - 1, span, at);
        (0..grid.bases())
            .map(|basis| {
                let knot = |offset: usize| knot(grid, feature, basis + offset);
                let left = ratio(lower[basis], knot(degree) - knot(0));
                let right = ratio(lower[basis + 1], knot(degree + 1) - knot(1));
                degree as f64 * (left - right)
            })
            .collect()
    })
}

/// Finds the interval whose polynomials are valid at `x`, and evaluates there.
fn all(grid: &Grid, feature: usize, x: f64, evaluate: impl Fn(usize, f64) -> Vec<f64>) -> Vec<f64> {
    if x.is_nan() {
        return vec![x; grid.bases()];
    }
    let (low, high) = grid.domain(feature);
    let at = match grid.outside() {
        Outside::Clamp => x.clamp(low.into(), high.into()),
        Outside::Zero | Outside::Extend => x,
    };
    let spans = grid.intervals() + 2 * grid.degree();
    let holds =
        |&span: &usize| knot(grid, feature, span) <= at && at < knot(grid, feature, span + 1);
    let inside = grid.degree()..grid.bases();
    let is_filled = |&span: &usize| knot(grid, feature, span) < knot(grid, feature, span + 1);
    let span = match grid.outside() {
        Outside::Zero => match (0..spans).find(holds) {
            Some(span) => span,
            None => return vec![0.0; grid.bases()],
        },
        Outside::Clamp | Outside::Extend => match inside.clone().find(holds) {
            Some(span) => span,
            None if at < f64::from(low) => {
                inside.clone().find(is_filled).expect("the domain has an inside")
            }
            None => inside.clone().rev().find(is_filled).expect("the domain has an inside"),
        },
    };
    evaluate(span, at)
}

/// The bases of one degree, as the polynomials that hold in one interval.
fn of_degree(grid: &Grid, feature: usize, degree: usize, span: usize, x: f64) -> Vec<f64> {
    let spans = grid.intervals() + 2 * grid.degree();
    let mut values: Vec<f64> = (0..spans).map(|index| f64::from(u8::from(index == span))).collect();
    for degree in 1..=degree {
        values = (0..spans - degree)
            .map(|basis| {
                let knot = |offset: usize| knot(grid, feature, basis + offset);
                let left = ratio((x - knot(0)) * values[basis], knot(degree) - knot(0));
                let right =
                    ratio((knot(degree + 1) - x) * values[basis + 1], knot(degree + 1) - knot(1));
                left + right
            })
            .collect();
    }
    values
}

fn ratio(numerator: f64, denominator: f64) -> f64 {
    if denominator == 0.0 { 0.0 } else { numerator / denominator }
}

/// Knots counted from the first one.
fn knot(grid: &Grid, feature: usize, index: usize) -> f64 {
    grid.knot(feature, index as isize - grid.degree() as isize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cubic B-spline over the knots 0, 1, 2, 3, 4 is 1/6, 2/3, 1/6 at 1, 2, 3; halfway
    /// between knots it is 1/48 and 23/48.
    #[test]
    fn the_cubic_basis_has_its_textbook_values() {
        let grid = Grid::uniform(0.0, 4.0, 4, 3).unwrap();
        let basis = |x| bases(&grid, 0, x)[3];
        for (x, expected) in
            [(0.0, 0.0), (1.0, 1.0 / 6.0), (2.0, 2.0 / 3.0), (3.0, 1.0 / 6.0), (4.0, 0.0)]
        {
            assert!((basis(x) - expected).abs() < 1e-15, "at {x}");
        }
        for (x, expected) in [(0.5, 1.0 / 48.0), (1.5, 23.0 / 48.0), (2.5, 23.0 / 48.0)] {
            assert!((basis(x) - expected).abs() < 1e-15, "at {x}");
        }
        let slope = |x| slopes(&grid, 0, x)[3];
        for (x, expected) in [(1.0, 0.5), (2.0, 0.0), (3.0, -0.5), (1.5, 0.625)] {
            assert!((slope(x) - expected).abs() < 1e-15, "at {x}");
        }
    }

    #[test]
    fn the_bases_sum_to_one_inside_and_their_slopes_to_zero() {
        let knots = vec![-2.0, -1.5, -1.0, -0.2, -0.2, 0.5, 1.0, 1.25, 2.0];
        for grid in [
            Grid::uniform(-1.0, 1.0, 5, 3).unwrap(),
            Grid::uniform(-1.0, 1.0, 3, 0).unwrap(),
            Grid::uniform(-1.0, 1.0, 2, 7).unwrap(),
            Grid::per_feature(1, knots, 4, 2).unwrap(),
        ] {
            for step in 0..100 {
                let x = -1.0 + f64::from(step) * 0.02;
                assert!((bases(&grid, 0, x).iter().sum::<f64>() - 1.0).abs() < 1e-14);
                assert!(slopes(&grid, 0, x).iter().sum::<f64>().abs() < 1e-12);
            }
        }
    }

    #[test]
    fn outside_is_what_the_grid_says() {
        let grid = Grid::uniform(0.0, 1.0, 1, 1).unwrap();
        assert_eq!(bases(&grid, 0, 1.5), [0.0, 0.5]);
        assert_eq!(bases(&grid, 0, 2.5), [0.0, 0.0]);
        let clamped = grid.clone().with_outside(Outside::Clamp);
        assert_eq!(bases(&clamped, 0, 1.5), [0.0, 1.0]);
        assert_eq!(slopes(&clamped, 0, 1.5), [0.0, 0.0]);
        let extended = grid.with_outside(Outside::Extend);
        assert_eq!(bases(&extended, 0, 1.5), [-0.5, 1.5]);
        assert_eq!(slopes(&extended, 0, -3.0), [-1.0, 1.0]);
    }
}
