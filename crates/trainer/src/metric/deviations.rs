//! Deviations of predicted numbers from the true ones.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::score::Score;
use super::sum::Sum;

/// Deviations of predicted numbers from the true ones, per output.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Deviations {
    outputs: Vec<Deviation>,
}

/// One output's sums, in f64.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Deviation {
    /// The first value, which is subtracted from the others to avoid cancellation in the sums of
    /// squares.
    first: Option<Sum>,
    count: u64,
    sum: Sum,
    squares: Sum,
    errors: Sum,
    absolute: Sum,
}

impl Deviations {
    /// The numbers that [`Score::add`] takes for a batch: all predictions, then all values.
    ///
    /// # Shapes
    /// - `predictions` and `values`: `[batch, outputs]`
    /// - returns: `[2 · batch · outputs]`
    ///
    /// # Panics
    /// If the shapes differ.
    #[must_use]
    pub fn measure(predictions: &Tensor<2>, values: &Tensor<2>) -> Tensor<1> {
        assert_eq!(predictions.dims(), values.dims(), "predictions and values have one shape");
        let values = values.clone().cast(predictions.dtype());
        Tensor::cat(vec![predictions.clone().flatten::<1>(0, 1), values.flatten::<1>(0, 1)], 0)
    }

    /// The share of the values' variance that the predictions explain, the mean over outputs, at
    /// most 1; `None` if the values of an output are all equal.
    #[must_use]
    pub fn r_squared(&self) -> Option<f64> {
        let each: Option<Vec<f64>> = self.outputs.iter().map(Deviation::r_squared).collect();
        let each = each.filter(|each| !each.is_empty())?;
        Some(each.iter().sum::<f64>() / each.len() as f64)
    }

    /// The root of the mean squared error of an output, in the values' unit; `None` before the
    /// first sample.
    #[must_use]
    pub fn root_mean_squared_error(&self, output: usize) -> Option<f64> {
        let output = self.outputs.get(output)?;
        Some((output.errors.value() / output.count as f64).sqrt())
    }

    /// The mean absolute error of an output, in the values' unit; `None` before the first sample.
    #[must_use]
    pub fn mean_absolute_error(&self, output: usize) -> Option<f64> {
        let output = self.outputs.get(output)?;
        Some(output.absolute.value() / output.count as f64)
    }
}

impl Score for Deviations {
    fn add(&mut self, numbers: &[f64], samples: usize) {
        if samples == 0 {
            return;
        }
        let (predictions, values) = numbers.split_at(numbers.len() / 2);
        let width = predictions.len() / samples;
        self.outputs.resize_with(width.max(self.outputs.len()), Deviation::default);
        for (at, (prediction, value)) in predictions.iter().zip(values).enumerate() {
            self.outputs[at % width].add(*prediction, *value);
        }
    }

    fn merge(&mut self, other: &Self) {
        let width = self.outputs.len().max(other.outputs.len());
        self.outputs.resize_with(width, Deviation::default);
        for (own, other) in self.outputs.iter_mut().zip(&other.outputs) {
            own.merge(other);
        }
    }
}

impl Deviation {
    fn add(&mut self, prediction: f64, value: f64) {
        let away = value - self.first.get_or_insert(value.into()).value();
        self.count += 1;
        self.sum.add(away);
        self.squares.add(away * away);
        self.errors.add((prediction - value).powi(2));
        self.absolute.add((prediction - value).abs());
    }

    fn merge(&mut self, other: &Self) {
        let Some(theirs) = other.first else { return };
        // Σ(v − a) and Σ(v − a)² from sums about b, with d = b − a.
        let d = theirs.value() - self.first.get_or_insert(theirs).value();
        let count = other.count as f64;
        self.count += other.count;
        self.sum.add(other.sum.value() + count * d);
        self.squares.add(other.squares.value() + 2.0 * d * other.sum.value() + count * d * d);
        self.errors.add(other.errors.value());
        self.absolute.add(other.absolute.value());
    }

    /// `None` if the values are all equal.
    fn r_squared(&self) -> Option<f64> {
        let sum = self.sum.value();
        let total = self.squares.value() - sum * sum / self.count as f64;
        (total > 0.0).then(|| 1.0 - self.errors.value() / total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two outputs of three samples: squared errors 1, 0, 1 of values that vary by 8, and 0, 1, 4
    /// of values that vary by 8.
    const PREDICTIONS: [f64; 6] = [1e4 + 1.0, 1.0, 1e4 + 2.0, 4.0, 1e4 + 3.0, 5.0];
    const VALUES: [f64; 6] = [1e4, 1.0, 1e4 + 2.0, 5.0, 1e4 + 4.0, 3.0];

    fn score(samples: std::ops::Range<usize>) -> Deviations {
        let part = 2 * samples.start..2 * samples.end;
        let mut score = Deviations::default();
        let numbers = [&PREDICTIONS[part.clone()], &VALUES[part]].concat();
        score.add(&numbers, samples.len());
        score
    }

    #[test]
    fn values_far_from_zero_have_the_r_squared_known_by_hand() {
        let whole = score(0..3);
        let expected = (1.0 - 2.0 / 8.0 + 1.0 - 5.0 / 8.0) / 2.0;
        assert!((whole.r_squared().expect("they differ") - expected).abs() < 1e-12);
        let error = whole.root_mean_squared_error(1).expect("three samples");
        assert!((error - (5.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(whole.root_mean_squared_error(2), None);
        assert_eq!(whole.mean_absolute_error(1), Some(1.0));
        assert_eq!(score(0..1).r_squared(), None);
    }

    #[test]
    fn merged_parts_are_the_whole_and_come_back_to_the_bit() {
        let (mut merged, whole) = (score(0..1), score(0..3));
        merged.merge(&score(1..3));
        let difference = merged.r_squared().expect("they differ") - whole.r_squared().expect("so");
        assert!(difference.abs() < 1e-12, "{difference}");
        let text = serde_json::to_string(&whole).expect("JSON");
        assert_eq!(serde_json::from_str::<Deviations>(&text).expect("a score"), whole);
    }
}
