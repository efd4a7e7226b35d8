//! An axis of categories, each at its number.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::Ranged;

/// Characters that fit below a plot beside each other.
const MOST_CHARACTERS: usize = 52;

/// The numbers of categories from 0, with room for a label each.
pub(super) struct CategoryAxis(usize);

impl CategoryAxis {
    pub(super) const fn new(categories: usize) -> Self {
        Self(categories)
    }
}

impl Ranged for CategoryAxis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        let share = (value + 0.5) / self.0 as f64;
        low + (share * f64::from(high - low)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        (0..self.0).map(|category| category as f64).collect()
    }

    fn range(&self) -> Range<f64> {
        -0.5..self.0 as f64 - 0.5
    }
}

/// The name of the category at a place on the axis, shortened to the room for it.
pub(super) fn label(names: &[String], place: f64) -> String {
    let Some(name) = names.get(place as usize) else { return String::new() };
    let room = (MOST_CHARACTERS / names.len()).max(2);
    if name.chars().count() <= room {
        return name.clone();
    }
    name.chars().take(room - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_divide_the_axis_and_their_names_fit() {
        let axis = CategoryAxis::new(2);
        let places = axis.key_points(8).iter().map(|at| axis.map(at, (0, 400))).collect::<Vec<_>>();
        assert_eq!(places, [100, 300]);
        let names = ["mlp", "a name that is too long for a half"].map(str::to_owned);
        assert_eq!(label(&names, 0.0), "mlp");
        assert_eq!(label(&names, 1.0), "a name that is too long f…");
        assert_eq!(label(&names, 2.0), "");
    }
}
