//! The metrics of samples with any number of labels, from the probability of each label.

use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;
use serde::{Deserialize, Serialize};

use super::confusion::Confusion;
use super::named::{Direction, MetricSpec, Unit};
use super::ranking::Ranking;
use super::score::Score;

/// The metrics of many labels: Hamming loss, macro F1, AUC and average precision, each the mean
/// over labels.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LabelScores {
    rankings: Vec<Ranking>,
    /// For each label, with the thresholds given to [`measure`](Self::measure).
    confusions: Vec<Confusion>,
}

impl LabelScores {
    /// The metrics, in the order of [`values`](Self::values).
    #[must_use]
    pub fn specs() -> Vec<MetricSpec> {
        let more = |name| MetricSpec::new(name, Unit::Share, Direction::HigherIsBetter);
        vec![
            MetricSpec::new("hamming-loss", Unit::Share, Direction::LowerIsBetter),
            more("macro-f1").with_long_name("macro F1"),
            more("auc").with_long_name("AUC"),
            more("average-precision"),
        ]
    }

    /// The numbers that [`Score::add`] takes for a batch: for each sample and label the
    /// probability, whether it is at least the label's threshold, and the target.
    ///
    /// # Shapes
    /// - `logits` and `targets`: `[batch, labels]`, targets 0 or 1
    /// - `thresholds`: `[labels]`
    /// - returns: `[3 · batch · labels]`
    ///
    /// # Panics
    /// If the shapes do not match.
    #[must_use]
    pub fn measure(logits: &Tensor<2>, targets: &Tensor<2>, thresholds: &[f32]) -> Tensor<1> {
        assert_eq!(logits.dims(), targets.dims(), "logits and targets have one shape");
        let [batch, labels] = logits.dims();
        assert_eq!(labels, thresholds.len(), "one threshold for each label");
        let probabilities = sigmoid(logits.clone());
        let dtype = probabilities.dtype();
        let thresholds = Tensor::<1>::from_floats(thresholds, &logits.device()).cast(dtype);
        let thresholds = thresholds.unsqueeze::<2>().expand([batch, labels]);
        let predicted = probabilities.clone().greater_equal(thresholds).float().cast(dtype);
        let targets = targets.clone().cast(dtype);
        let parts = [probabilities, predicted, targets].map(|part| part.flatten::<1>(0, 1));
        Tensor::cat(parts.into(), 0)
    }

    /// The value of each of [`specs`](Self::specs); `None` if it is not defined.
    #[must_use]
    pub fn values(&self) -> Vec<Option<f64>> {
        let wrong = mean(self.confusions.iter().map(Confusion::accuracy)).map(|right| 1.0 - right);
        vec![
            wrong,
            // scikit-learn's F1 of a label that is neither present nor predicted is 0.
            mean(self.confusions.iter().map(|own| Some(positive_f1(own)))),
            mean(self.rankings.iter().map(Ranking::auc)),
            mean(self.rankings.iter().map(Ranking::average_precision)),
        ]
    }

    /// For each label the threshold with the highest F1 on the samples so far; `None` for a label
    /// that none of them has.
    #[must_use]
    pub fn best_thresholds(&self) -> Vec<Option<f32>> {
        self.rankings.iter().map(Ranking::best_threshold).collect()
    }
}

impl Score for LabelScores {
    fn add(&mut self, numbers: &[f64], samples: usize) {
        if samples == 0 {
            return;
        }
        let count = numbers.len() / 3;
        let labels = count / samples;
        self.grow(labels);
        for at in 0..count {
            let (is_predicted, is_true) =
                (numbers[count + at] != 0.0, numbers[2 * count + at] != 0.0);
            self.rankings[at % labels].add(numbers[at] as f32, is_true);
            self.confusions[at % labels].add(is_true.into(), is_predicted.into());
        }
    }

    fn merge(&mut self, other: &Self) {
        self.grow(other.rankings.len());
        for (own, other) in self.rankings.iter_mut().zip(&other.rankings) {
            own.merge(other);
        }
        for (own, other) in self.confusions.iter_mut().zip(&other.confusions) {
            own.merge(other);
        }
    }
}

impl LabelScores {
    fn grow(&mut self, labels: usize) {
        let labels = labels.max(self.rankings.len());
        self.rankings.resize_with(labels, Ranking::default);
        self.confusions.resize_with(labels, Confusion::default);
    }
}

/// The F1 of the label; 0 if no sample has it and it is never predicted.
fn positive_f1(confusion: &Confusion) -> f64 {
    let hits = confusion.count(1, 1);
    let either = 2 * hits + confusion.count(0, 1) + confusion.count(1, 0);
    if either == 0 { 0.0 } else { 2.0 * hits as f64 / either as f64 }
}

/// The mean; `None` if one is not defined.
fn mean(each: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let each: Vec<f64> = each.collect::<Option<_>>()?;
    (!each.is_empty()).then(|| each.iter().sum::<f64>() / each.len() as f64)
}
