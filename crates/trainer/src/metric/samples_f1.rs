//! The samples-averaged F1 of multi-label predictions.

use burn::tensor::Tensor;

/// The mean over samples of `F1 = 2·|P ∩ T| / (|P| + |T|)`, with `P` the predicted and `T` the
/// true labels of a sample.
///
/// A sample without predicted and true labels counts as 0, which is scikit-learn's default for
/// `average="samples"`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SamplesF1 {
    sum: f64,
    samples: usize,
}

impl SamplesF1 {
    /// Adds a batch; a label is predicted where its score is at least `threshold`.
    ///
    /// # Shapes
    /// - `scores` and `targets`: `[batch, labels]`, targets 0 or 1
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn add(&mut self, scores: Tensor<2>, targets: Tensor<2>, threshold: f64) {
        let [batch, labels] = scores.dims();
        assert_eq!(targets.dims(), [batch, labels], "scores and targets have one shape");
        let scores: Vec<f64> = scores.into_data().iter().collect();
        let targets: Vec<f64> = targets.into_data().iter().collect();
        for (scores, targets) in scores.chunks(labels.max(1)).zip(targets.chunks(labels.max(1))) {
            let (mut both, mut either) = (0_usize, 0_usize);
            for (score, target) in scores.iter().zip(targets) {
                let (predicted, is_true) = (*score >= threshold, *target > 0.5);
                both += usize::from(predicted && is_true);
                either += usize::from(predicted) + usize::from(is_true);
            }
            if either > 0 {
                self.sum += 2.0 * both as f64 / either as f64;
            }
        }
        self.samples += batch;
    }

    /// The mean so far; `None` before the first sample.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum / self.samples as f64)
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
                metric.add(part(&scores), part(&truth), 0.5);
            }
            // 2·2/(2 + 3), 2·1/2, 0 and 0, as scikit-learn's f1_score(average="samples").
            assert_eq!(metric.value(), Some((0.8 + 1.0) / 4.0));
        }
    }
}
