//! What samples are to be told as: classes or numbers, and how an output is held to them.

use burn::tensor::{Device, Int, Tensor};
use updraft_data::{ImageBatch, Mix, TargetBatch, TensorBatch};

use crate::error::TrainError;
use crate::loss::{ClassLoss, mean_squared_error, one_hot};
use crate::step::{StepSettings, correct_predictions};

/// What a batch's samples are to be told as, on a device.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Target {
    /// A class each, `[batch]`: outputs are logits, held to the loss of the step's settings.
    Classes(Tensor<1, Int>),
    /// Two classes each, of samples that were mixed: held to the same loss by their shares.
    Mixed(Box<MixedClasses>),
    /// Numbers each, `[batch, values]`: outputs are held to their mean squared error.
    Values(Tensor<2>),
}

/// What mixed samples are of; each tensor is `[batch]`.
#[derive(Debug, Clone)]
pub struct MixedClasses {
    /// The class that a sample counts as where right ones are counted.
    pub own: Tensor<1, Int>,
    /// The class of what was mixed in.
    pub partner: Tensor<1, Int>,
    /// The share of the own class, from 0 to 1; the rest is the partner's.
    pub share: Tensor<1>,
}

impl MixedClasses {
    /// The share of each class, `[batch, classes]`, in the dtype of `logits` of that shape.
    fn shares(&self, logits: &Tensor<2>) -> Tensor<2> {
        let share = self.share.clone().cast(logits.dtype()).unsqueeze_dim::<2>(1);
        let rest = share.clone().neg().add_scalar(1.0);
        one_hot(logits, self.own.clone()) * share + one_hot(logits, self.partner.clone()) * rest
    }
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
            Self::Mixed(mixed) => mixed.own.dims()[0],
            Self::Values(values) => values.dims()[0],
        }
    }

    /// Refuses settings that speak of classes where there are none, and losses that know no shares
    /// of them where samples are mixed.
    pub(crate) fn check(&self, settings: &StepSettings) -> Result<(), TrainError> {
        let refuse = |name, value| {
            let expected = "the default: values are held to the mean squared error";
            Err(TrainError::Setting { name, value, expected })
        };
        match self {
            Self::Mixed(_) => settings.loss.check_shares(),
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
            Self::Mixed(mixed) => {
                let right = correct_predictions(outputs, &mixed.own);
                let (outputs, shares) = (outputs.clone(), mixed.shares(outputs));
                (settings.loss.of_shares(outputs, shares, settings.label_smoothing), Some(right))
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
    /// The input, and what it is to be told as.
    ///
    /// # Panics
    /// If `D` is not the rank of the batch's input, or targets are numbers of another shape than
    /// `[values]`.
    fn into_tensors(self, device: &Device) -> (Tensor<D>, Target);
}

/// Images `[batch, 3, height, width]`, a class each or, mixed, two.
impl TrainBatch<4> for ImageBatch {
    fn into_tensors(self, device: &Device) -> (Tensor<4>, Target) {
        let mix = self.mix().cloned();
        let (images, own) = self.to_device(device);
        let Some(Mix { shares, partner_labels }) = mix else {
            return (images, Target::Classes(own));
        };
        let partners: Vec<i64> = partner_labels.into_iter().map(|label| label as i64).collect();
        let partner = Tensor::from_data(partners.as_slice(), device);
        let share = Tensor::from_data(shares.as_slice(), device);
        (images, Target::Mixed(Box::new(MixedClasses { own, partner, share })))
    }
}

/// Samples of any shape; those without targets are their own, flattened.
impl<const D: usize> TrainBatch<D> for TensorBatch {
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
