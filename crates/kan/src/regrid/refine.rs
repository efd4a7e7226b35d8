//! Refinement of knots without changing the splines.

use std::num::NonZeroUsize;

use crate::grid::{Grid, GridError, MAX_DEGREE, knots_of_one};

/// A grid whose every interval is divided into `pieces` equal ones, and the coefficients over it,
/// `[features, bases, columns]`, of the splines that `coefficients` are over `grid`.
///
/// Inside the domain the splines are the same functions; the new coefficients are rounded to f32
/// once. Outside they are the same too, except where a uniform grid fades
/// ([`Outside::Zero`](crate::Outside::Zero)): it stays even, and fades over `degree` of its new
/// intervals.
///
/// # Errors
/// [`GridError`] if the pieces are too many, or too small to differ in f32.
///
/// # Panics
/// If `coefficients` do not fit, or the grid has no such features.
///
/// # Source
/// A coefficient is the polar form of the polynomial of an interval in its basis's support, at the
/// inner knots of that basis: Ramshaw, Blossoms are polar forms, CAGD 6, 1989; for inserted knots
/// that is the Oslo algorithm of Cohen, Lyche and Riesenfeld, 1980.
pub fn refine(
    grid: &Grid,
    coefficients: &[f32],
    features: usize,
    pieces: NonZeroUsize,
) -> Result<(Grid, Vec<f32>), GridError> {
    let old = features * grid.bases();
    assert!(old > 0 && coefficients.len().is_multiple_of(old), "coefficients of whole features");
    let columns = coefficients.len() / old;
    let finer = cut(grid, features, pieces)?;
    let mut all = Vec::with_capacity(features * finer.bases() * columns);
    for (feature, curves) in coefficients.chunks_exact(grid.bases() * columns).enumerate() {
        for basis in 0..finer.bases() {
            let (first, weights) = shares(grid, &finer, feature, basis, pieces.get());
            all.extend((0..columns).map(|column| {
                let share =
                    |tap: usize| weights[tap] * f64::from(curves[(first + tap) * columns + column]);
                (0..=grid.degree()).map(share).sum::<f64>() as f32
            }));
        }
    }
    Ok((finer, all))
}

/// The grid with every interval in pieces.
fn cut(grid: &Grid, features: usize, pieces: NonZeroUsize) -> Result<Grid, GridError> {
    let pieces = pieces.get();
    let (degree, intervals) = (grid.degree() as isize, grid.intervals() as isize);
    let count = grid.intervals().saturating_mul(pieces);
    let finer = if grid.is_uniform() {
        let (low, high) = grid.domain(0);
        Grid::uniform(low, high, count, grid.degree())
    } else {
        knots_of_one(count, grid.degree())?;
        let of_feature = |feature: usize| {
            let knot = move |index: isize| grid.knot(feature, index);
            let inside = move |index: isize| {
                let (interval, piece) = (index / pieces as isize, index % pieces as isize);
                let (left, right) = (knot(interval), knot(interval + 1));
                left + (right - left) * piece as f64 / pieces as f64
            };
            (-degree..0)
                .map(knot)
                .chain((0..intervals * pieces as isize).map(inside))
                .chain((intervals..=intervals + degree).map(knot))
                .map(|knot| knot as f32)
        };
        let knots = (0..features).flat_map(of_feature).collect();
        Grid::per_feature(features, knots, count, grid.degree())
    };
    finer.map(|finer| finer.with_outside(grid.outside()))
}

/// The weights of the old coefficients in a coefficient of the finer grid, from the first on.
fn shares(
    old: &Grid,
    finer: &Grid,
    feature: usize,
    basis: usize,
    pieces: usize,
) -> (usize, [f64; MAX_DEGREE + 1]) {
    let degree = old.degree();
    let interval = seen(finer, feature, basis) / pieces;
    let mut weights = [0.0; MAX_DEGREE + 1];
    for (tap, weight) in weights[..=degree].iter_mut().enumerate() {
        let mut line = [0.0; MAX_DEGREE + 1];
        line[tap] = 1.0;
        // de Boor's triangle with another argument on every step.
        for step in 1..=degree {
            let at = finer.knot(feature, basis as isize + step as isize - degree as isize);
            for index in (step..=degree).rev() {
                let left = old.knot(feature, (interval + index) as isize - degree as isize);
                let right = old.knot(feature, (interval + index + 1) as isize - step as isize);
                let share = (at - left) / (right - left);
                line[index] = (1.0 - share) * line[index - 1] + share * line[index];
            }
        }
        *weight = line[degree];
    }
    (interval, weights)
}

/// The non-empty interval of the domain that is in a basis's support and nearest to the
/// middle of the support.
fn seen(grid: &Grid, feature: usize, basis: usize) -> usize {
    let degree = grid.degree();
    let holds = |&at: &usize| grid.knot(feature, at as isize) < grid.knot(feature, at as isize + 1);
    let (first, last) = (basis.saturating_sub(degree), basis.min(grid.intervals() - 1));
    let middle = (basis as isize - degree as isize / 2).clamp(first as isize, last as isize);
    let of_basis = (first..=last).filter(holds);
    let nearest = of_basis.min_by_key(|&at| at.abs_diff(middle as usize));
    // A basis over coinciding knots has an empty support: any interval gives a finite number.
    let any = || (0..grid.intervals()).filter(holds).min_by_key(|&at| at.abs_diff(basis));
    nearest.or_else(any).expect("the domain has an inside")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Outside;
    use crate::kernels::reference::bases;

    fn number(index: usize) -> f32 {
        ((index * 7919 + 13) % 101) as f32 / 50.0 - 1.0
    }

    fn curve(grid: &Grid, feature: usize, coefficients: &[f32], x: f64) -> f64 {
        let values = bases(grid, feature, x);
        let mine = &coefficients[feature * grid.bases()..];
        values.iter().zip(mine).map(|(value, c)| value * f64::from(*c)).sum()
    }

    /// Boehm's rule for one knot in the middle of a linear spline's intervals: the values there.
    #[test]
    fn a_polygon_gets_the_values_between_its_corners() {
        let grid = Grid::uniform(0.0, 2.0, 2, 1).unwrap();
        let two = NonZeroUsize::new(2).unwrap();
        let (finer, values) = refine(&grid, &[3.0, 5.0, 4.0], 1, two).unwrap();
        assert_eq!(finer.intervals(), 4);
        assert_eq!(values, [3.0, 4.0, 5.0, 4.5, 4.0]);
    }

    #[test]
    fn cut_intervals_change_no_function_inside_the_domain() {
        for degree in 0..=5 {
            for outside in [Outside::Zero, Outside::Clamp, Outside::Extend] {
                let grid = Grid::uniform(-1.0, 1.0, 5, degree).unwrap().with_outside(outside);
                let old: Vec<f32> = (0..grid.bases()).map(number).collect();
                for pieces in [1, 2, 3, 7] {
                    let pieces = NonZeroUsize::new(pieces).unwrap();
                    let (finer, new) = refine(&grid, &old, 1, pieces).unwrap();
                    assert_eq!(finer.intervals(), 5 * pieces.get());
                    // Outside the domain, rules other than fading are the same for both.
                    let reach = if outside == Outside::Zero { 0.999 } else { 1.2 };
                    for step in 0..=100 {
                        // Not at knots, where rounding decides the side of a jump.
                        let x = reach * (f64::from(step) / 50.0 - 1.0) + 1e-4;
                        let (old, new) = (curve(&grid, 0, &old, x), curve(&finer, 0, &new, x));
                        let bound = 1e-5 * old.abs().max(1.0);
                        assert!((old - new).abs() < bound, "degree {degree}, {pieces}, at {x}");
                    }
                }
            }
        }
    }

    #[test]
    fn uneven_knots_keep_the_whole_function() {
        let knots = vec![
            -2.0, -1.5, -1.0, -0.25, -0.25, 0.5, 1.0, 1.25, 2.0, //
            0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 4.0, 4.0,
        ];
        let grid = Grid::per_feature(2, knots, 4, 2).unwrap();
        let old: Vec<f32> = (0..12).map(number).collect();
        let (finer, new) = refine(&grid, &old, 2, NonZeroUsize::new(3).unwrap()).unwrap();
        for feature in 0..2 {
            for step in 0..=260 {
                let x = f64::from(step) / 40.0 - 2.25;
                let (old, new) = (curve(&grid, feature, &old, x), curve(&finer, feature, &new, x));
                assert!((old - new).abs() < 1e-6, "feature {feature} at {x}: {old} and {new}");
            }
        }
    }
}
