//! The samples-averaged F1 of multi-label predictions.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::named::{Direction, MetricSpec, Unit};
use super::score::Score;
use super::sum::Sum;

/// The mean over samples of `F1 = 2·|P ∩ T| / (|P| + |T|)`, with `P` the predicted and `T` the
/// true labels of a sample.
///
/// A sample without predicted and true labels counts as 0, which is scikit-learn's default for
/// `average="samples"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SamplesF1 {
    sum: Sum,
    samples: usize,
}

impl SamplesF1 {
    /// The specification of [`value`](Self::value).
    #[must_use]
    pub fn spec() -> MetricSpec {
        MetricSpec::new("samples-f1", Unit::Share, Direction::HigherIsBetter)
    }

    /// The numbers that [`Score::add`] takes for a batch: `|P ∩ T|` of all samples, then `|P| +
    /// |T|`; a label is predicted if its score is at least `threshold`.
    ///
    /// # Shapes
    /// - `scores` and `targets`: `[batch, labels]`, targets 0 or 1
    /// - returns: `[2 · batch]`
    ///
    /// # Panics
    /// If the shapes differ.
    #[must_use]
    pub fn measure(scores: &Tensor<2>, targets: &Tensor<2>, threshold: f64) -> Tensor<1> {
        assert_eq!(scores.dims(), targets.dims(), "scores and targets have one shape");
        let predicted = scores.clone().greater_equal_elem(threshold).float();
        let targets = targets.clone().cast(predicted.dtype());
        let both = (predicted.clone() * targets.clone()).sum_dim(1);
        let either = (predicted + targets).sum_dim(1);
        Tensor::cat(vec![both.flatten::<1>(0, 1), either.flatten::<1>(0, 1)], 0)
    }

    /// The mean so far; `None` before the first sample.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum.value() / self.samples as f64)
    }
}

impl Score for SamplesF1 {
    fn add(&mut self, numbers: &[f64], samples: usize) {
        let (both, either) = numbers.split_at(numbers.len() / 2);
        for (both, either) in both.iter().zip(either) {
            if *either > 0.0 {
                self.sum.add(2.0 * both / either);
            }
        }
        self.samples += samples;
    }

    fn merge(&mut self, other: &Self) {
        self.sum.add(other.sum.value());
        self.samples += other.samples;
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::devices;

    use super::*;

    #[test]
    fn it_is_the_mean_of_each_samples_f1_over_any_batches() {
        for device in devices() {
            let scores = [[0.9, 0.2, 0.7], [0.1, 0.6, 0.4], [0.3, 0.2, 0.1], [0.1, 0.1, 0.1]];
            let truth = [[1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]];
            let scores = Tensor::<2>::from_floats(scores, &device);
            let truth = Tensor::<2>::from_floats(truth, &device);
            let mut metric = SamplesF1::default();
            assert_eq!(metric.value(), None);
            for rows in [0..1, 1..4] {
                let part = |tensor: &Tensor<2>| tensor.clone().slice([rows.clone(), 0..3]);
                let numbers = SamplesF1::measure(&part(&scores), &part(&truth), 0.5);
                let numbers: Vec<f64> = numbers.into_data().iter().collect();
                let mut batch = SamplesF1::default();
                batch.add(&numbers, rows.len());
                metric.merge(&batch);
            }
            // 2·2/(2 + 3), 2·1/2, 0 and 0, as scikit-learn's f1_score(average="samples").
            assert_eq!(metric.value(), Some((0.8 + 1.0) / 4.0));
        }
    }
}
