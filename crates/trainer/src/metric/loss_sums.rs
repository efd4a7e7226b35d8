//! Mean losses over any number of batches.

use serde::{Deserialize, Serialize};

use super::named::{Evaluation, Metric, MetricSpec};
use super::sum::Sum;

/// Sums of the losses of batches and of their parts, each weighted by its samples.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LossSums {
    losses: Vec<Sum>,
    /// Samples seen.
    pub samples: usize,
}

impl LossSums {
    /// Adds a batch of `samples` samples with its mean loss and the means of its parts.
    pub fn add(&mut self, loss: f64, parts: &[f64], samples: usize) {
        self.losses.resize(1 + parts.len(), Sum::default());
        let means = std::iter::once(&loss).chain(parts);
        for (sum, mean) in self.losses.iter_mut().zip(means) {
            sum.add(mean * samples as f64);
        }
        self.samples += samples;
    }

    /// Adds the batches of other sums.
    pub fn merge(&mut self, other: &Self) {
        self.losses.resize(self.losses.len().max(other.losses.len()), Sum::default());
        for (sum, other) in self.losses.iter_mut().zip(&other.losses) {
            sum.add(other.value());
        }
        self.samples += other.samples;
    }

    /// The mean loss over all samples, then that of each part; none before the first batch.
    ///
    /// For one batch these are exactly its own f32 numbers: f64 represents their product with the
    /// number of samples.
    pub fn means(&self) -> impl Iterator<Item = f64> {
        self.losses.iter().map(|sum| sum.value() / self.samples.max(1) as f64)
    }

    /// The mean losses and a task's own values, with the names of both.
    pub(crate) fn evaluation(&self, specs: &[MetricSpec], values: &[Option<f64>]) -> Evaluation {
        let losses = specs.len() - values.len();
        let means = self.means().map(Some).chain(std::iter::repeat(None)).take(losses);
        let values = means.chain(values.iter().copied());
        let metrics = specs.iter().cloned().zip(values);
        let metrics = metrics.map(|(spec, value)| Metric { spec, value }).collect();
        Evaluation { metrics, samples: self.samples }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Direction, Unit};

    #[test]
    fn means_are_over_samples_and_those_of_one_batch_are_its_own() {
        let (loss, part) = (f64::from(0.1_f32), f64::from(1.0_f32 / 3.0));
        let mut sums = LossSums::default();
        assert_eq!(sums.means().count(), 0);
        sums.add(loss, &[part], 7);
        assert_eq!(sums.means().collect::<Vec<_>>(), [loss, part]);
        sums.add(1.0, &[0.0], 1);
        let means: Vec<f64> = sums.means().collect();
        assert!((means[0] - (7.0 * loss + 1.0) / 8.0).abs() < 1e-15, "{means:?}");
        assert!((means[1] - 7.0 * part / 8.0).abs() < 1e-15, "{means:?}");
    }

    #[test]
    fn losses_and_values_have_their_own_names_before_the_first_batch_too() {
        let spec = |name| MetricSpec::new(name, Unit::None, Direction::LowerIsBetter);
        let specs = ["loss", "loss-part", "error"].map(spec);
        let evaluation = LossSums::default().evaluation(&specs, &[Some(2.0)]);
        let values: Vec<_> = evaluation.metrics.iter().map(|metric| metric.value).collect();
        assert_eq!(values, [None, None, Some(2.0)]);
        assert_eq!(evaluation.value("error"), Some(2.0));
    }
}
