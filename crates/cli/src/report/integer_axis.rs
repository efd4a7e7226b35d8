//! An axis whose labels are whole numbers.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::Ranged;

/// The most labels on the axis.
const MOST_LABELS: f64 = 8.0;

/// The numbers of a range.
pub(super) struct IntegerAxis(Range<f64>);

impl IntegerAxis {
    pub(super) const fn new(range: Range<f64>) -> Self {
        Self(range)
    }

    /// The distance of two labels: 1, 2 or 5, or one of these times a power of ten.
    fn step(&self) -> f64 {
        let least = (self.0.end - self.0.start) / MOST_LABELS;
        let power = 10_f64.powf(least.max(1.0).log10().floor());
        let multiples = [1.0, 2.0, 5.0, 10.0].map(|multiple| multiple * power);
        multiples.into_iter().find(|step| *step >= least).unwrap_or(10.0 * power)
    }
}

impl Ranged for IntegerAxis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        let share = (value - self.0.start) / (self.0.end - self.0.start);
        low + (share * f64::from(high - low)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        let step = self.step();
        let first = (self.0.start / step).ceil() as i64;
        let last = (self.0.end / step).floor() as i64;
        (first..=last).map(|at| at as f64 * step).collect()
    }

    fn range(&self) -> Range<f64> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_whole_and_few() {
        let of = |range| IntegerAxis::new(range).key_points(8);
        assert_eq!(of(0.9..3.1), [1.0, 2.0, 3.0]);
        assert_eq!(of(0.9..2.1), [1.0, 2.0]);
        assert_eq!(of(-2.0..52.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(of(30.0..194.0), [50.0, 100.0, 150.0]);
        assert!((1..5000).all(|end| (1..=9).contains(&of(0.0..f64::from(end)).len())));
    }
}
