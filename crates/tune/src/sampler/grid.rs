//! Every combination of values, once each, in a random order.

use crate::random::Random;
use crate::space::{Point, Space};

/// The most points of a grid.
const MOST_POINTS: usize = 1_000_000;

/// All points of a grid in the order of the trials; `None` for more than a million points.
pub(super) fn points(space: &Space, per_number: usize, seed: u64) -> Option<Vec<Point>> {
    let (mut axes, mut all) = (Vec::new(), 1_usize);
    for parameter in space.parameters() {
        // Checked before the axis is built: it may be longer than the memory.
        if parameter.grid_count(per_number) > MOST_POINTS {
            return None;
        }
        let axis = parameter.grid(per_number);
        all = all.checked_mul(axis.len()).filter(|all| *all <= MOST_POINTS)?;
        axes.push(axis);
    }
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
    Some(points)
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
    fn a_grid_that_is_too_large_is_none() {
        let text =
            (0..8).map(|at| format!("k{at} = {{ kind = \"float\", low = 0.0, high = 1.0 }}\n"));
        let text: String = text.collect();
        let space = Space::read(&toml::from_str(&text).expect("TOML")).expect("a space");
        assert!(points(&space, 10, 1).is_none());
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
            assert!(points(&space, per_number, 1).is_none(), "{range}");
        }
    }
}
