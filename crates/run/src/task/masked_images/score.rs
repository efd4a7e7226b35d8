//! The score of predicted patches, beside predictions without a model.

use burn::tensor::{FloatDType, Tensor};
use serde::{Deserialize, Serialize};
use updraft_trainer::{Direction, MetricSpec, Score, Sum, Unit};

/// Sums over samples of means over the numbers of their masked patches.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct MaskedScore {
    samples: Sum,
    /// Of the squared error.
    errors: Sum,
    /// Of the target.
    values: Sum,
    /// Of the squared target.
    squares: Sum,
}

impl MaskedScore {
    /// The means of a batch, `[3]`: squared error, target and squared target.
    pub(super) fn measure(predicted: &Tensor<3>, target: &Tensor<3>) -> Tensor<1> {
        let [predicted, target] =
            [predicted, target].map(|tensor| tensor.clone().cast(FloatDType::F32));
        let errors = (predicted - target.clone()).square().mean();
        Tensor::cat(vec![errors, target.clone().mean(), target.square().mean()], 0)
    }

    /// The metrics beside the loss, which is the mean squared error of the masked patches.
    pub(super) fn specs() -> Vec<MetricSpec> {
        let error = |name, long| {
            MetricSpec::new(name, Unit::None, Direction::LowerIsBetter).with_long_name(long)
        };
        vec![
            error("zero-error", "mean squared error of predicting 0"),
            error("mean-error", "mean squared error of predicting the mean of all masked patches"),
            MetricSpec::new("r-squared", Unit::None, Direction::HigherIsBetter)
                .with_long_name("share of the variance of masked patches that is explained"),
        ]
    }

    /// Their values, in the same order.
    pub(super) fn metrics(&self) -> Vec<Option<f64>> {
        let samples = self.samples.value();
        if samples == 0.0 {
            return vec![None; 3];
        }
        let [errors, mean, squares] =
            [self.errors, self.values, self.squares].map(|sum| sum.value() / samples);
        // `max` would turn NaN into 0.
        let variance = squares - mean * mean;
        let variance = if variance < 0.0 { 0.0 } else { variance };
        let explained = (variance > 0.0).then(|| 1.0 - errors / variance);
        vec![Some(squares), Some(variance), explained]
    }
}

impl Score for MaskedScore {
    fn add(&mut self, numbers: &[f64], samples: usize) {
        let [errors, values, squares] = *numbers else { return };
        let samples = samples as f64;
        let sum = |mean: f64| Sum::from(mean * samples);
        let [errors, values, squares] = [errors, values, squares].map(sum);
        self.merge(&Self { samples: samples.into(), errors, values, squares });
    }

    fn merge(&mut self, other: &Self) {
        self.samples.add(other.samples.value());
        self.errors.add(other.errors.value());
        self.values.add(other.values.value());
        self.squares.add(other.squares.value());
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::devices;

    use super::*;

    #[test]
    fn metrics_are_those_counted_by_hand_over_batches_of_different_sizes() {
        for device in devices() {
            let of = |values: [[[f32; 2]; 1]; 2]| Tensor::<3>::from_floats(values, &device);
            let mut score = MaskedScore::default();
            assert_eq!(score.metrics(), [None, None, None]);
            let mut add = |predicted: Tensor<3>, target: Tensor<3>| {
                let numbers: Vec<f64> =
                    MaskedScore::measure(&predicted, &target).into_data().iter().collect();
                score.add(&numbers, target.dims()[0]);
            };
            add(of([[[1., 2.]], [[3., 4.]]]), of([[[1., 4.]], [[3., 0.]]]));
            let one = |a, b| Tensor::<3>::from_floats([[[a, b]]], &device);
            add(one(0.0, 0.0), one(2.0, 2.0));
            // Targets 1, 4, 3, 0, 2, 2; errors 0, 2, 0, 4, 2, 2.
            let (squares, mean, errors) = (34.0 / 6.0, 2.0_f64, 28.0 / 6.0);
            let variance = squares - mean * mean;
            let expected = [squares, variance, 1.0 - errors / variance];
            for (found, expected) in score.metrics().into_iter().zip(expected) {
                assert!((found.expect("a value") - expected).abs() < 1e-6, "{found:?} {expected}");
            }
        }
    }
}
