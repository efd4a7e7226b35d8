//! Every metric of predicted classes, from the probabilities of each sample.

use burn::tensor::activation::softmax;
use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};

use super::calibration::Calibration;
use super::confusion::Confusion;
use super::named::{Direction, MetricSpec, Unit};
use super::ranking::Ranking;
use super::score::Score;
use super::sum::Sum;

/// The metrics of predicted classes: accuracy, balanced accuracy, macro and weighted F1, AUC,
/// average precision, log loss and calibration error.
///
/// AUC and average precision are those of class 1 for two classes, and the one-versus-rest mean
/// over classes for more; the scores of all samples are kept.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClassScores {
    confusion: Confusion,
    /// One versus rest for each class; for two classes only that of class 1.
    rankings: Vec<Ranking>,
    calibration: Calibration,
    log_loss: Sum,
    samples: usize,
}

impl ClassScores {
    /// The metrics, in the order of [`values`](Self::values).
    #[must_use]
    pub fn specs() -> Vec<MetricSpec> {
        let more = |name| MetricSpec::new(name, Unit::Share, Direction::HigherIsBetter);
        let less = |name| MetricSpec::new(name, Unit::None, Direction::LowerIsBetter);
        vec![
            more("accuracy"),
            more("balanced-accuracy"),
            more("macro-f1").with_long_name("macro F1"),
            more("weighted-f1").with_long_name("weighted F1"),
            more("auc").with_long_name("AUC"),
            more("average-precision"),
            less("log-loss"),
            less("calibration-error"),
        ]
    }

    /// The numbers that [`Score::add`] takes for a batch: all probabilities, then all classes.
    ///
    /// # Shapes
    /// - `logits`: `[batch, classes]`
    /// - `classes`: `[batch]`
    /// - returns: `[batch · classes + batch]`
    #[must_use]
    pub fn measure(logits: &Tensor<2>, classes: &Tensor<1, Int>) -> Tensor<1> {
        let probabilities = softmax(logits.clone(), 1).flatten::<1>(0, 1);
        let classes = classes.clone().float().cast(probabilities.dtype());
        Tensor::cat(vec![probabilities, classes], 0)
    }

    /// The value of each of [`specs`](Self::specs); `None` if it is not defined.
    #[must_use]
    pub fn values(&self) -> Vec<Option<f64>> {
        let log_loss = (self.samples > 0).then(|| self.log_loss.value() / self.samples as f64);
        vec![
            self.confusion.accuracy(),
            self.confusion.balanced_accuracy(),
            self.confusion.macro_f1(),
            self.confusion.weighted_f1(),
            self.mean(Ranking::auc),
            self.mean(Ranking::average_precision),
            log_loss,
            self.calibration.error(),
        ]
    }

    /// The confusion matrix.
    #[must_use]
    pub const fn confusion(&self) -> &Confusion {
        &self.confusion
    }

    fn add_sample(&mut self, probabilities: &[f64], class: usize) {
        let predicted = (0..probabilities.len()).fold(0, |best, other| {
            if probabilities[other] > probabilities[best] { other } else { best }
        });
        self.confusion.add(class, predicted);
        self.calibration.add(probabilities[predicted], predicted == class);
        // As scikit-learn clips f32 probabilities.
        let probability = probabilities.get(class).copied().unwrap_or(0.0);
        self.log_loss.add(-probability.max(f32::EPSILON.into()).ln());
        let is_binary = probabilities.len() == 2;
        let ranked = if is_binary { 1..2 } else { 0..probabilities.len() };
        self.rankings.resize_with(ranked.len().max(self.rankings.len()), Ranking::default);
        for (ranking, other) in self.rankings.iter_mut().zip(ranked) {
            ranking.add(probabilities[other] as f32, class == other);
        }
        self.samples += 1;
    }

    /// The mean over rankings; `None` if one is not defined.
    fn mean(&self, metric: impl Fn(&Ranking) -> Option<f64>) -> Option<f64> {
        let each: Vec<f64> = self.rankings.iter().map(metric).collect::<Option<_>>()?;
        (!each.is_empty()).then(|| each.iter().sum::<f64>() / each.len() as f64)
    }
}

impl Score for ClassScores {
    fn add(&mut self, numbers: &[f64], samples: usize) {
        if samples == 0 {
            return;
        }
        let (probabilities, classes) = numbers.split_at(numbers.len() - samples);
        let rows = probabilities.chunks_exact(probabilities.len() / samples);
        for (row, class) in rows.zip(classes) {
            self.add_sample(row, *class as usize);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.confusion.merge(&other.confusion);
        self.rankings.resize_with(self.rankings.len().max(other.rankings.len()), Ranking::default);
        for (own, other) in self.rankings.iter_mut().zip(&other.rankings) {
            own.merge(other);
        }
        self.calibration.merge(&other.calibration);
        self.log_loss.add(other.log_loss.value());
        self.samples += other.samples;
    }
}
