//! A logarithmic axis whose labels have room, however few or many powers of ten it spans.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::Ranged;

/// The least distance of two labels as a fraction of the axis: the width of a label such as `0.0005`.
const LEAST_GAP: f64 = 0.12;

/// Multiples of each power of ten with a label, the finest first.
const MULTIPLES: [&[f64]; 4] = [
    &[1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0, 8.5, 9.0, 9.5],
    &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    &[1.0, 2.0, 5.0],
    &[1.0],
];

/// The positive values of a range, by their logarithm.
pub(super) struct LogAxis(Range<f64>);

impl LogAxis {
    pub(super) const fn new(range: Range<f64>) -> Self {
        Self(range)
    }

    /// The powers of ten that the axis spans.
    fn decades(&self) -> f64 {
        (self.0.end / self.0.start).log10()
    }

    /// The values with a label.
    fn labels(&self) -> Vec<f64> {
        let has_room = |labels: &Vec<f64>| {
            let gap = |pair: &[f64]| (pair[1] / pair[0]).log10() / self.decades();
            labels.windows(2).all(|pair| gap(pair) >= LEAST_GAP)
        };
        let fine = MULTIPLES.iter().map(|multiples| self.multiples(multiples, 1));
        let mut coarse = (2..).map(|step| self.multiples(&[1.0], step));
        fine.chain(&mut coarse).find(has_room).unwrap_or_default()
    }

    /// Multiples of every `step`-th power of ten.
    fn multiples(&self, multiples: &[f64], step: i32) -> Vec<f64> {
        let first = self.0.start.log10().floor() as i32;
        let last = self.0.end.log10().ceil() as i32;
        let powers = (first..=last).filter(|power| power.rem_euclid(step) == 0);
        // Dividing gives the number that a decimal is read as: 0.003, not 3 × 0.001.
        let value = |power: i32, multiple: f64| match power {
            0.. => multiple * 10_f64.powi(power),
            _ => multiple / 10_f64.powi(-power),
        };
        let values = powers.flat_map(|power| multiples.iter().map(move |it| value(power, *it)));
        values.filter(|value| self.0.contains(value)).collect()
    }
}

impl Ranged for LogAxis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        let share = (value / self.0.start).log10() / self.decades();
        low + (share * f64::from(high - low)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.labels()
    }

    fn range(&self) -> Range<f64> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_apart_and_at_least_one_on_an_axis_of_any_length() {
        for (range, expected) in [
            (0.87e-3..2.3e-2, &[0.001, 0.002, 0.005, 0.01, 0.02][..]),
            (0.9e-3..1.15e-1, &[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1]),
            (0.9e-3..2.5, &[0.001, 0.01, 0.1, 1.0]),
            (3.5..9.2, &[4.0, 5.0, 6.0, 7.0, 8.0, 9.0]),
            (3.02..3.99, &[3.5]),
            (4.3..5.75, &[4.5, 5.0, 5.5]),
            (28.0..600.0, &[50.0, 100.0, 200.0, 500.0]),
            (0.9e-12..1.2, &[1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0]),
        ] {
            assert_eq!(LogAxis::new(range).labels(), expected);
        }
    }

    #[test]
    fn equal_factors_are_equally_far_apart() {
        let axis = LogAxis::new(1.0..100.0);
        assert_eq!([1.0, 10.0, 100.0].map(|value| axis.map(&value, (50, 250))), [50, 150, 250]);
    }
}
