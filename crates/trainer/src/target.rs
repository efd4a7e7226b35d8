//! What samples are to be told as: classes or numbers, and how an output is held to them.

use burn::tensor::{Device, Int, Tensor};
use updraft_data::{ImageBatch, TargetBatch, TensorBatch};

use crate::error::TrainError;
use crate::loss::{ClassLoss, mean_squared_error};
use crate::step::{StepSettings, correct_predictions};

/// What a batch's samples are to be told as, on a device.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Target {
    /// A class each, `[batch]`: outputs are logits, held to the loss of the step's settings.
    Classes(Tensor<1, Int>),
    /// Numbers each, `[batch, values]`: outputs are held to their mean squared error.
    Values(Tensor<2>),
}

impl From<Tensor<1, Int>> for Target {
    fn from(classes: Tensor<1, Int>) -> Self {
        Self::Classes(classes)
    }
}

impl From<Tensor<2>> for Target {
    fn from(values: Tensor<2>) -> Self {
        Self::Values(values)
    }
}

impl Target {
    /// How many samples there are.
    pub(crate) fn samples(&self) -> usize {
        match self {
            Self::Classes(labels) => labels.dims()[0],
            Self::Values(values) => values.dims()[0],
        }
    }

    /// Refuses settings that speak of classes where there are none.
    pub(crate) fn check(&self, settings: &StepSettings) -> Result<(), TrainError> {
        let refuse = |name, value| {
            let expected = "the default: values are held to the mean squared error";
            Err(TrainError::Setting { name, value, expected })
        };
        match self {
            Self::Values(_) if settings.loss != ClassLoss::default() => {
                refuse("loss", format!("{:?}", settings.loss))
            }
            Self::Values(_) if settings.label_smoothing != 0.0 => {
                refuse("label_smoothing", settings.label_smoothing.to_string())
            }
            _ => Ok(()),
        }
    }

    /// The mean loss of outputs, of shape `[1]`, and how many name the right class, if there are
    /// classes.
    ///
    /// # Panics
    /// If the outputs have not the shape of the values.
    pub(crate) fn hold(
        &self,
        outputs: &Tensor<2>,
        settings: &StepSettings,
    ) -> (Tensor<1>, Option<Tensor<1>>) {
        match self {
            Self::Classes(labels) => {
                let right = correct_predictions(outputs, labels);
                let (outputs, labels) = (outputs.clone(), labels.clone());
                (settings.loss.forward(outputs, labels, settings.label_smoothing), Some(right))
            }
            Self::Values(values) => {
                let values = values.clone().cast(outputs.dtype());
                (mean_squared_error(outputs.clone(), values), None)
            }
        }
    }
}

/// A loader's batch that a run learns from; `D` is the rank of its input.
pub trait TrainBatch<const D: usize> {
    /// Whether a run can learn from it.
    ///
    /// # Errors
    /// [`TrainError`] that names what is in the way.
    fn check(&self, epoch: u64) -> Result<(), TrainError>;

    /// The input, and what it is to be told as.
    fn into_tensors(self, device: &Device) -> (Tensor<D>, Target);
}

/// Images `[batch, 3, height, width]`, a class each.
impl TrainBatch<4> for ImageBatch {
    fn check(&self, epoch: u64) -> Result<(), TrainError> {
        if self.mix().is_some() { Err(TrainError::MixedLabels { epoch }) } else { Ok(()) }
    }

    fn into_tensors(self, device: &Device) -> (Tensor<4>, Target) {
        let (images, labels) = self.to_device(device);
        (images, Target::Classes(labels))
    }
}

/// Samples of any shape; those without targets are their own, flattened.
///
/// # Panics
/// If `D` is not one more than the axes of a sample, or targets are numbers of another shape than
/// `[values]`.
impl<const D: usize> TrainBatch<D> for TensorBatch {
    fn check(&self, _: u64) -> Result<(), TrainError> {
        Ok(())
    }

    fn into_tensors(self, device: &Device) -> (Tensor<D>, Target) {
        let input = self.input::<D>(device);
        let target = match self.targets() {
            TargetBatch::Classes(_) => Target::Classes(self.classes(device)),
            TargetBatch::Values { .. } => Target::Values(self.target_values(device)),
            TargetBatch::None => {
                let values = self.sample_shape().iter().product();
                Target::Values(input.clone().reshape([self.len(), values]))
            }
            other => unreachable!("targets of a kind that is not known: {other:?}"),
        };
        (input, target)
    }
}
