//! Which loss a classifier learns from, as a serialisable value.

use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};

use super::{cross_entropy, focal};
use crate::error::TrainError;

/// The loss between a classifier's logits and one label a sample.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ClassLoss {
    /// Cross-entropy, with the label smoothing of the step's settings.
    #[default]
    CrossEntropy,
    /// Cross-entropy that counts samples the less the better they are classified.
    Focal {
        /// How strongly, at least 0; 0 is cross-entropy.
        #[serde(default = "default_gamma")]
        gamma: f64,
    },
}

/// The value that the paper recommends.
fn default_gamma() -> f64 {
    2.0
}

impl ClassLoss {
    /// Checks the ranges of the loss's numbers, with the label smoothing beside it.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the number that cannot be used.
    pub fn validate(&self, smoothing: f32) -> Result<(), TrainError> {
        let refuse =
            |name, value: String, expected| Err(TrainError::Setting { name, value, expected });
        if !(0.0..1.0).contains(&smoothing) {
            return refuse("label_smoothing", smoothing.to_string(), "at least 0 and below 1");
        }
        match *self {
            Self::Focal { gamma } if !(gamma.is_finite() && gamma >= 0.0) => {
                refuse("loss.gamma", gamma.to_string(), "a finite number of at least 0")
            }
            Self::Focal { .. } if smoothing > 0.0 => refuse(
                "label_smoothing",
                smoothing.to_string(),
                "0 with the focal loss, which is defined for hard labels",
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
    pub fn forward(&self, logits: Tensor<2>, labels: Tensor<1, Int>, smoothing: f32) -> Tensor<1> {
        match *self {
            Self::CrossEntropy => cross_entropy(logits, labels, smoothing),
            Self::Focal { gamma } => focal(logits, labels, gamma),
        }
    }
}
