//! Every combination of values, once each, in a random order.

use crate::error::TuneError;
use crate::random::Random;
use crate::space::{Point, Space};

/// The most points of a grid.
const MOST_POINTS: usize = 1_000_000;

/// The values of each parameter, and the number of their combinations.
///
/// # Errors
/// [`TuneError::Setting`] for more than a million combinations.
fn axes(space: &Space, per_number: usize) -> Result<(Vec<Vec<f64>>, usize), TuneError> {
    let (mut axes, mut all) = (Vec::new(), 1_usize);
    for parameter in space.parameters() {
        // Checked before the axis is built: it may be longer than the memory.
        let count = parameter.grid_count(per_number);
        let axis = if count > MOST_POINTS { None } else { Some(parameter.grid(per_number)) };
        let product = axis.as_ref().and_then(|axis| all.checked_mul(axis.len()));
        let (Some(axis), Some(product)) = (axis, product.filter(|all| *all <= MOST_POINTS)) else {
            return Err(TuneError::setting(
                "tune.sampler",
                "a grid of more than a million points",
                "one of fewer, or another sampler",
            ));
        };
        all = product;
        axes.push(axis);
    }
    Ok((axes, all))
}

/// Checks the number of points of a grid, without the points.
///
/// # Errors
/// As [`points`].
pub(crate) fn check(space: &Space, per_number: usize) -> Result<(), TuneError> {
    axes(space, per_number).map(drop)
}

/// All points of a grid in the order of the trials.
///
/// # Errors
/// [`TuneError::Setting`] for more than a million points.
pub(super) fn points(space: &Space, per_number: usize, seed: u64) -> Result<Vec<Point>, TuneError> {
    let (axes, all) = axes(space, per_number)?;
    let mut points: Vec<Point> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for index in 0..all {
        let mut rest = index;
        let mut places = vec![0; axes.len()];
        for (place, axis) in places.iter_mut().zip(&axes) {
            *place = rest % axis.len();
            rest /= axis.len();
        }
        let point = space.point(|at, _| axes[at][places[at]]);
        // Points that differ only in parameters without a value are the same point.
        if seen.insert(point.iter().map(|it| it.map(f64::to_bits)).collect::<Vec<_>>()) {
            points.push(point);
        }
    }
    Random::new(seed, 0).shuffle(&mut points);
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_every_combination_once() {
        let text = r#"
            a = { kind = "categorical", choices = ["x", "y"] }
            b = { kind = "integer", low = 1, high = 10, step = 3 }
            c = { kind = "float", low = 1e-4, high = 1.0, log = true, when = { a = "y" } }
        "#;
        let space = Space::read(&toml::from_str(text).expect("TOML")).expect("a space");
        let found = points(&space, 5, 1).expect("few");
        // 4 integers for `x`; for `y`, 5 numbers with each of the 4 integers.
        assert_eq!(found.len(), 4 + 4 * 5);
        assert_ne!(found, points(&space, 5, 2).expect("few"));
        let mut rates: Vec<f64> = found.iter().filter_map(|point| point[2]).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        assert_eq!(rates, [1e-4, 1e-3, 1e-2, 1e-1, 1.0]);
    }

    #[test]
    fn a_grid_that_is_too_large_is_refused() {
        let text =
            (0..8).map(|at| format!("k{at} = {{ kind = \"float\", low = 0.0, high = 1.0 }}\n"));
        let text: String = text.collect();
        let space = Space::read(&toml::from_str(&text).expect("TOML")).expect("a space");
        let error = points(&space, 10, 1).expect_err("refused").to_string();
        assert!(error.contains("a grid of more than a million points"), "{error}");
        assert!(check(&space, 10).is_err() && check(&space, 5).is_ok());
    }

    #[test]
    fn an_axis_that_is_too_long_is_not_built() {
        for (range, per_number) in [
            ("kind = \"float\", low = 0.0, high = 1.0", usize::MAX),
            ("kind = \"integer\", low = 1, high = 4", 1_000_000_000_000),
            ("kind = \"float\", low = 0.0, high = 1.0, step = 1e-12", 5),
            ("kind = \"float\", low = -1e308, high = 1e308, step = 1e-300", 5),
            ("kind = \"integer\", low = 0, high = 9007199254740992, step = 2", 5),
        ] {
            let space = toml::from_str(&format!("a = {{ {range} }}")).expect("TOML");
            let space = Space::read(&space).expect("a space");
            assert!(points(&space, per_number, 1).is_err(), "{range}");
        }
    }
}
