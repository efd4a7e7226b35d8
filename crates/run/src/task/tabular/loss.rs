//! The loss of a predicted number, as a serializable value.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};
use updraft_trainer::{huber, mean_absolute_error, mean_squared_error};

/// The loss between predictions and values, both standardized: in units of the target's standard
/// deviation over the training rows.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ValueLoss {
    /// The mean of squared differences.
    #[default]
    MeanSquaredError,
    /// The mean of absolute differences: more robust to outliers.
    MeanAbsoluteError,
    /// Squares for differences up to `delta`, absolute values beyond.
    Huber {
        /// In standard deviations of the target, above 0.
        #[serde(default = "default_delta")]
        delta: f32,
    },
}

/// The value of Huber's own example, one standard deviation.
fn default_delta() -> f32 {
    1.0
}

impl ValueLoss {
    /// Whether its parameters are in range.
    pub(super) fn is_valid(&self) -> bool {
        match self {
            Self::Huber { delta } => delta.is_finite() && *delta > 0.0,
            Self::MeanSquaredError | Self::MeanAbsoluteError => true,
        }
    }

    /// The mean loss, of shape `[1]`.
    ///
    /// # Shapes
    /// - `predictions` and `values`: `[batch, outputs]`
    pub(super) fn forward(&self, predictions: Tensor<2>, values: Tensor<2>) -> Tensor<1> {
        match *self {
            Self::MeanSquaredError => mean_squared_error(predictions, values),
            Self::MeanAbsoluteError => mean_absolute_error(predictions, values),
            Self::Huber { delta } => huber(predictions, values, delta),
        }
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, devices, tolerance};

    use super::*;

    #[test]
    fn every_loss_has_its_value_by_hand() {
        for device in devices() {
            let predictions = Tensor::<2>::from_floats([[0.5], [3.0]], &device);
            let values = Tensor::<2>::from_floats([[0.0], [0.0]], &device);
            for (loss, expected) in [
                (ValueLoss::MeanSquaredError, (0.25 + 9.0) / 2.0),
                (ValueLoss::MeanAbsoluteError, (0.5 + 3.0) / 2.0),
                // ½·0.5² and 1·(3 − ½).
                (ValueLoss::Huber { delta: 1.0 }, (0.125 + 2.5) / 2.0),
            ] {
                let found = loss.forward(predictions.clone(), values.clone());
                assert_close(&found, &[expected], tolerance::F32);
            }
        }
    }
}
