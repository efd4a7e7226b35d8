//! The loss of a classifier, as a serializable value.

use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};

use updraft_trainer::{
    Asymmetric, TrainError, binary_cross_entropy, cross_entropy, focal, mean_squared_error,
    soft_cross_entropy,
};

/// The loss of a classifier with one label per sample.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ClassLoss {
    /// Cross-entropy, with the label smoothing of the step's settings.
    #[default]
    CrossEntropy,
    /// Cross-entropy with lower weights for well-classified samples.
    Focal {
        /// The focusing parameter, from 0 to 100; 0 is cross-entropy.
        #[serde(default = "default_gamma")]
        gamma: f64,
    },
    /// Binary cross-entropy of each class against the others, the mean over classes.
    BinaryCrossEntropy,
    /// The asymmetric loss of each class against the others, the sum over classes.
    Asymmetric(Asymmetric),
    /// Squared distance of the logits to 1 at the label and 0 elsewhere, the mean over classes.
    MeanSquaredError,
}

/// The value that the paper recommends.
fn default_gamma() -> f64 {
    2.0
}

impl ClassLoss {
    /// Checks the ranges of the loss's parameters together with the label smoothing.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the parameter that cannot be used.
    pub(super) fn validate(&self, smoothing: f32) -> Result<(), TrainError> {
        let refuse = |name, value: String, expected: &'static str| {
            Err(TrainError::Setting { name, value, expected: expected.into() })
        };
        if !(0.0..1.0).contains(&smoothing) {
            return refuse("label_smoothing", smoothing.to_string(), "at least 0 and below 1");
        }
        match *self {
            // Larger exponents underflow in f32 for bases between 0 and 1.
            Self::Focal { gamma } if !(0.0..=100.0).contains(&gamma) => {
                refuse("loss.gamma", gamma.to_string(), "from 0 to 100")
            }
            Self::Asymmetric(asymmetric) => asymmetric.validate(),
            _ => Ok(()),
        }?;
        match *self {
            Self::CrossEntropy => Ok(()),
            _ if smoothing > 0.0 => refuse(
                "label_smoothing",
                smoothing.to_string(),
                "0 with any loss but cross-entropy: the others are defined for hard labels",
            ),
            _ => Ok(()),
        }
    }

    /// The mean loss, of shape `[1]`.
    ///
    /// # Shapes
    /// - `logits`: `[batch, classes]`
    /// - `labels`: `[batch]`, each below the number of classes
    #[must_use]
    pub(super) fn forward(
        &self,
        logits: Tensor<2>,
        labels: Tensor<1, Int>,
        smoothing: f32,
    ) -> Tensor<1> {
        match *self {
            Self::CrossEntropy => cross_entropy(logits, labels, smoothing),
            Self::Focal { gamma } => focal(logits, labels, gamma),
            Self::BinaryCrossEntropy => {
                let targets = one_hot(&logits, labels);
                binary_cross_entropy(logits, targets)
            }
            Self::Asymmetric(asymmetric) => {
                let targets = one_hot(&logits, labels);
                asymmetric.forward(logits, targets)
            }
            Self::MeanSquaredError => {
                let targets = one_hot(&logits, labels);
                mean_squared_error(logits, targets)
            }
        }
    }

    /// Checks that the loss accepts soft targets.
    ///
    /// # Errors
    /// [`TrainError::Setting`] for a loss that is defined for hard labels.
    pub(super) fn check_shares(&self) -> Result<(), TrainError> {
        match self {
            Self::CrossEntropy | Self::BinaryCrossEntropy | Self::MeanSquaredError => Ok(()),
            Self::Focal { .. } => Err(not_for_shares("focal")),
            Self::Asymmetric(_) => Err(not_for_shares("asymmetric")),
        }
    }

    /// The mean loss with soft targets, of shape `[1]`.
    ///
    /// # Shapes
    /// - `logits` and `shares`: `[batch, classes]`, each row of `shares` summing to 1
    ///
    /// # Panics
    /// If the loss does not pass [`check_shares`](Self::check_shares).
    #[must_use]
    pub(super) fn of_shares(
        &self,
        logits: Tensor<2>,
        shares: Tensor<2>,
        smoothing: f32,
    ) -> Tensor<1> {
        match self {
            Self::CrossEntropy => {
                let [_, classes] = logits.dims();
                let smoothing = f64::from(smoothing);
                let kept = shares.mul_scalar(1.0 - smoothing);
                soft_cross_entropy(logits, kept.add_scalar(smoothing / classes as f64))
            }
            Self::BinaryCrossEntropy => binary_cross_entropy(logits, shares),
            Self::MeanSquaredError => mean_squared_error(logits, shares),
            Self::Focal { .. } | Self::Asymmetric(_) => panic!("{self:?} knows no shares"),
        }
    }
}

fn not_for_shares(kind: &str) -> TrainError {
    TrainError::Setting {
        name: "loss.kind",
        value: format!("`{kind}`"),
        expected: "`cross-entropy`, `binary-cross-entropy` or `mean-squared-error` beside \
                   `augment.mix_up`: the others are defined for hard labels"
            .into(),
    }
}

/// The soft targets of mixed samples, in the shape and dtype of `logits`: `share` for the own
/// class, the rest for the partner's.
pub(super) fn class_shares(
    logits: &Tensor<2>,
    own: Tensor<1, Int>,
    partner: Tensor<1, Int>,
    share: Tensor<1>,
) -> Tensor<2> {
    let share = share.cast(logits.dtype()).unsqueeze_dim::<2>(1);
    let rest = share.clone().neg().add_scalar(1.0);
    one_hot(logits, own) * share + one_hot(logits, partner) * rest
}

/// 1 at the label and 0 elsewhere, of the logits' shape and dtype.
fn one_hot(logits: &Tensor<2>, labels: Tensor<1, Int>) -> Tensor<2> {
    let [_, classes] = logits.dims();
    labels.one_hot::<2>(classes).float().cast(logits.dtype())
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, devices, tolerance};

    use super::*;

    #[test]
    fn every_loss_has_its_value_by_hand() {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let rows = [[0.5_f64, -1.0], [0.25, 2.0]];
        let plain = Asymmetric { positive_focus: 0.0, negative_focus: 0.0, margin: 0.0 };
        // One class against the other, labels 0 and 1.
        let each: Vec<f64> = rows
            .iter()
            .zip([0, 1])
            .flat_map(|(row, label)| {
                row.iter().enumerate().map(move |(class, &x)| {
                    -(if class == label { sigmoid(x).ln() } else { sigmoid(-x).ln() })
                })
            })
            .collect();
        let binary = each.iter().sum::<f64>() / 4.0;
        let squared = (0.25 + 1.0 + 0.0625 + 1.0) / 4.0;
        for device in devices() {
            let logits = Tensor::<2>::from_floats([[0.5, -1.0], [0.25, 2.0]], &device);
            let labels = Tensor::<1, Int>::from_ints([0, 1], &device);
            for (loss, expected) in [
                (ClassLoss::BinaryCrossEntropy, binary),
                (ClassLoss::Asymmetric(plain), 2.0 * binary),
                (ClassLoss::MeanSquaredError, squared),
            ] {
                let found = loss.forward(logits.clone(), labels.clone(), 0.0);
                assert_close(&found, &[expected], tolerance::F32);
            }
        }
    }

    #[test]
    fn a_sample_of_one_class_alone_costs_what_its_label_does() {
        for device in devices() {
            let logits = Tensor::<2>::from_floats([[0.5, -1.0], [0.25, 2.0]], &device);
            let labels = Tensor::<1, Int>::from_ints([0, 1], &device);
            for (loss, smoothing) in [
                (ClassLoss::CrossEntropy, 0.0),
                (ClassLoss::CrossEntropy, 0.2),
                (ClassLoss::BinaryCrossEntropy, 0.0),
                (ClassLoss::MeanSquaredError, 0.0),
            ] {
                let shares = one_hot(&logits, labels.clone());
                let found = loss.of_shares(logits.clone(), shares, smoothing);
                let expected = loss.forward(logits.clone(), labels.clone(), smoothing);
                assert_close(&found, &expected, tolerance::F32);
            }
        }
        for hard in [ClassLoss::Focal { gamma: 2.0 }, ClassLoss::Asymmetric(Asymmetric::default())]
        {
            let message = hard.check_shares().expect_err("refused").to_string();
            assert!(message.starts_with("`loss.kind` is "), "{message}");
        }
    }

    #[test]
    fn smoothing_belongs_to_cross_entropy_and_numbers_have_ranges() {
        assert!(ClassLoss::CrossEntropy.validate(0.1).is_ok());
        for loss in [
            ClassLoss::Focal { gamma: 2.0 },
            ClassLoss::BinaryCrossEntropy,
            ClassLoss::Asymmetric(Asymmetric::default()),
            ClassLoss::MeanSquaredError,
        ] {
            assert!(loss.validate(0.0).is_ok());
            let message = loss.validate(0.1).expect_err("refused").to_string();
            assert!(message.starts_with("`label_smoothing` is 0.1"), "{message}");
        }
        let plain = Asymmetric::default();
        for (bad, name) in [
            (Asymmetric { positive_focus: -1.0, ..plain }, "`loss.positive_focus`"),
            (Asymmetric { negative_focus: f64::NAN, ..plain }, "`loss.negative_focus`"),
            (Asymmetric { margin: 1.0, ..plain }, "`loss.margin`"),
        ] {
            let message =
                ClassLoss::Asymmetric(bad).validate(0.0).expect_err("refused").to_string();
            assert!(message.starts_with(name), "{message}");
        }
    }
}
