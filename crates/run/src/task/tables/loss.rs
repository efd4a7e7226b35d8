//! The loss of a target, as a serializable value.

use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};
use updraft_trainer::{
    Asymmetric, binary_cross_entropy, huber, mean_absolute_error, mean_squared_error,
    ordinal_cross_entropy, quantile_loss, weighted_cross_entropy, weighted_focal,
};

use super::target_plan::TargetKind;

/// The loss of one target; numbers are standardized.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum TargetLoss {
    /// The mean of squared differences.
    MeanSquaredError,
    /// The mean of absolute differences.
    MeanAbsoluteError,
    /// Squares for differences up to `delta`, absolute values beyond.
    Huber {
        /// In standard deviations of the target, above 0.
        #[serde(default = "one")]
        delta: f32,
    },
    /// The pinball loss of several quantiles; the prediction is the middle one.
    Quantile {
        /// Ascending, above 0 and below 1.
        #[serde(default = "quartiles")]
        quantiles: Vec<f32>,
    },
    /// Cross-entropy.
    CrossEntropy {
        /// The label smoothing.
        #[serde(default)]
        label_smoothing: f64,
        /// What each class counts.
        #[serde(default)]
        class_weights: ClassWeights,
    },
    /// Cross-entropy with lower weights for well-classified rows.
    Focal {
        /// The focusing parameter, from 0 to 100.
        #[serde(default = "two")]
        gamma: f64,
        /// What each class counts.
        #[serde(default)]
        class_weights: ClassWeights,
    },
    /// The binary cross-entropy of "is the class above this one?".
    Ordinal,
    /// The binary cross-entropy of each label.
    BinaryCrossEntropy,
    /// The asymmetric loss of each label.
    Asymmetric(Asymmetric),
}

/// What each class counts in a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ClassWeights {
    /// As many as it has rows.
    #[default]
    None,
    /// The same as every other.
    Balanced,
}

fn one() -> f32 {
    1.0
}

/// The value that the paper recommends.
fn two() -> f64 {
    2.0
}

fn quartiles() -> Vec<f32> {
    vec![0.25, 0.5, 0.75]
}

impl TargetLoss {
    /// The loss of a target that names none.
    pub(super) const fn of(kind: TargetKind) -> Self {
        match kind {
            TargetKind::Number => Self::MeanSquaredError,
            TargetKind::Classes => {
                Self::CrossEntropy { label_smoothing: 0.0, class_weights: ClassWeights::None }
            }
            TargetKind::Ordered => Self::Ordinal,
            TargetKind::Labels => Self::BinaryCrossEntropy,
        }
    }

    /// The expected loss for a target of this kind, if it is another one.
    pub(super) fn fault(&self, kind: TargetKind) -> Option<&'static str> {
        let is_right = match self {
            Self::MeanSquaredError
            | Self::MeanAbsoluteError
            | Self::Huber { .. }
            | Self::Quantile { .. } => kind == TargetKind::Number,
            Self::CrossEntropy { .. } | Self::Focal { .. } => {
                matches!(kind, TargetKind::Classes | TargetKind::Ordered)
            }
            Self::Ordinal => kind == TargetKind::Ordered,
            Self::BinaryCrossEntropy | Self::Asymmetric(_) => kind == TargetKind::Labels,
        };
        if !is_right {
            return Some(match kind {
                TargetKind::Number => {
                    "`mean-squared-error`, `mean-absolute-error`, `huber` or `quantile` for a number"
                }
                TargetKind::Classes => "`cross-entropy` or `focal` for classes",
                TargetKind::Ordered => "`ordinal`, `cross-entropy` or `focal` for ordered classes",
                TargetKind::Labels => "`binary-cross-entropy` or `asymmetric` for labels",
            });
        }
        match self {
            Self::Huber { delta } if !(delta.is_finite() && *delta > 0.0) => {
                Some("a loss with a finite `delta` above 0")
            }
            Self::Quantile { quantiles } => {
                let is_inside = |share: &f32| *share > 0.0 && *share < 1.0;
                let is_rising = quantiles.windows(2).all(|pair| pair[0] < pair[1]);
                let is_valid =
                    !quantiles.is_empty() && is_rising && quantiles.iter().all(is_inside);
                (!is_valid).then_some(
                    "a loss with `quantiles` in ascending order, each above 0 and below 1",
                )
            }
            Self::CrossEntropy { label_smoothing, .. } if !(0.0..1.0).contains(label_smoothing) => {
                Some("a loss with a `label_smoothing` of at least 0 and below 1")
            }
            Self::Focal { gamma, .. } if !(0.0..=100.0).contains(gamma) => {
                Some("a loss with a `gamma` from 0 to 100")
            }
            Self::Asymmetric(asymmetric) if asymmetric.validate().is_err() => Some(
                "a loss with `positive_focus` and `negative_focus` from 0 to 100, and a `margin` of at \
                 least 0 and below 1",
            ),
            _ => None,
        }
    }

    /// The levels of the quantiles that are predicted; none for other losses.
    pub(super) fn levels(&self) -> &[f32] {
        match self {
            Self::Quantile { quantiles } => quantiles,
            _ => &[],
        }
    }

    /// Whether classes are weighted by their inverse frequency.
    pub(super) const fn is_balanced(&self) -> bool {
        matches!(
            self,
            Self::CrossEntropy { class_weights: ClassWeights::Balanced, .. }
                | Self::Focal { class_weights: ClassWeights::Balanced, .. }
        )
    }

    /// The mean loss of numbers or labels, of shape `[1]`.
    ///
    /// # Shapes
    /// - `outputs`: `[rows, width]`
    /// - `values`: `[rows, width]`, for quantiles `[rows, 1]`
    ///
    /// # Panics
    /// For a loss of classes.
    pub(super) fn of_values(&self, outputs: Tensor<2>, values: Tensor<2>) -> Tensor<1> {
        match self {
            Self::MeanSquaredError => mean_squared_error(outputs, values),
            Self::MeanAbsoluteError => mean_absolute_error(outputs, values),
            Self::Huber { delta } => huber(outputs, values, *delta),
            Self::Quantile { quantiles } => quantile_loss(outputs, values, quantiles),
            Self::BinaryCrossEntropy => binary_cross_entropy(outputs, values),
            Self::Asymmetric(asymmetric) => asymmetric.forward(outputs, values),
            other => panic!("{other:?} is a loss of classes"),
        }
    }

    /// The mean loss of classes, of shape `[1]`.
    ///
    /// # Shapes
    /// - `outputs`: `[rows, classes]`, for an ordinal loss `[rows, classes − 1]`
    /// - `classes`: `[rows]`
    ///
    /// # Panics
    /// For a loss of numbers or labels.
    pub(super) fn of_classes(
        &self,
        outputs: Tensor<2>,
        classes: Tensor<1, Int>,
        weights: Option<&[f32]>,
    ) -> Tensor<1> {
        let tensor = |weights: &[f32]| Tensor::<1>::from_floats(weights, &outputs.device());
        let weights = weights.map(tensor);
        match (self, weights) {
            (Self::CrossEntropy { label_smoothing, .. }, None) => {
                updraft_transformer::cross_entropy(outputs, classes, *label_smoothing as f32)
            }
            (Self::CrossEntropy { label_smoothing, .. }, Some(weights)) => {
                weighted_cross_entropy(outputs, classes, weights, *label_smoothing)
            }
            (Self::Focal { gamma, .. }, None) => updraft_trainer::focal(outputs, classes, *gamma),
            (Self::Focal { gamma, .. }, Some(weights)) => {
                weighted_focal(outputs, classes, weights, *gamma)
            }
            (Self::Ordinal, _) => ordinal_cross_entropy(outputs, classes),
            (other, _) => panic!("{other:?} is no loss of classes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, devices, tolerance};

    use super::*;

    #[test]
    fn every_kind_of_target_has_a_loss_and_refuses_those_of_others() {
        let kinds =
            [TargetKind::Number, TargetKind::Classes, TargetKind::Ordered, TargetKind::Labels];
        for kind in kinds {
            assert_eq!(TargetLoss::of(kind).fault(kind), None, "{kind:?}");
        }
        for (loss, kind, word) in [
            (TargetLoss::Ordinal, TargetKind::Classes, "cross-entropy"),
            (TargetLoss::MeanSquaredError, TargetKind::Labels, "asymmetric"),
            (TargetLoss::of(TargetKind::Classes), TargetKind::Number, "huber"),
            (TargetLoss::Huber { delta: 0.0 }, TargetKind::Number, "`delta`"),
            (TargetLoss::Quantile { quantiles: vec![0.5, 0.5] }, TargetKind::Number, "ascending"),
        ] {
            let fault = loss.fault(kind).expect("refused");
            assert!(fault.contains(word), "{fault}");
        }
    }

    #[test]
    fn losses_have_their_values_by_hand() {
        for device in devices() {
            let logits = || Tensor::<2>::zeros([2, 2], &device);
            let classes = || Tensor::<1, Int>::from_ints([0, 1], &device);
            let ln2 = std::f64::consts::LN_2;
            let entropy = TargetLoss::of(TargetKind::Classes);
            let found = entropy.of_classes(logits(), classes(), Some(&[3.0, 1.0]));
            assert_close(&found, &[ln2], tolerance::F32);
            let focal = TargetLoss::Focal { gamma: 2.0, class_weights: ClassWeights::None };
            let found = focal.of_classes(logits(), classes(), None);
            assert_close(&found, &[0.25 * ln2], tolerance::F32);
            let numbers = Tensor::<2>::from_floats([[0.5], [3.0]], &device);
            let huber = TargetLoss::Huber { delta: 1.0 };
            let found = huber.of_values(numbers, Tensor::zeros([2, 1], &device));
            assert_close(&found, &[(0.125 + 2.5) / 2.0], tolerance::F32);
        }
    }
}
