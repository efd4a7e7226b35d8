//! A loss for each channel of target images: several outputs of one network.

use std::sync::Arc;

use burn::tensor::{FloatDType, Tensor};
use serde::{Deserialize, Serialize};

use super::data_plan::{DataPlan, TargetKind};
use super::objective::ImageLoss;
use crate::config::{ConfigError, Edit, Key, Keys, Settings};
use crate::error::RunError;

const NAME: &str = "train.channel_losses";

const CHANNEL_LOSSES: Key<Vec<ChannelLoss>> = Key::new(
    NAME,
    "image only, instead of `train.loss`: for each target channel a table with its `loss` and its `weight` in the sum, 1 if left out; each is reported, as `loss-channel-1` and so on",
)
.edit(Edit::Reported)
.decided_by(&["data.target"]);

/// The key of the losses.
pub(in crate::task) const KEYS: Keys = &[&CHANNEL_LOSSES];

/// More are a mistake.
const MOST: usize = 64;

/// The loss of one channel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChannelLoss {
    loss: ImageLoss,
    #[serde(default = "one")]
    weight: f64,
}

const fn one() -> f64 {
    1.0
}

/// A loss with a weight for each channel of target images.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::task) struct ChannelLosses(Arc<[ChannelLoss]>);

impl ChannelLosses {
    /// The losses of a configuration that has them.
    pub(in crate::task) fn read(
        settings: &Settings,
        data: &DataPlan,
    ) -> Result<Option<Self>, ConfigError> {
        if data.target != TargetKind::Image {
            return Ok(None);
        }
        let Some(losses) = settings.option(&CHANNEL_LOSSES)? else { return Ok(None) };
        let refuse = |at: usize, expected: &str| {
            let expected = format!("with {expected} for channel {}", at + 1);
            Err(settings.refuse_given(NAME, &expected))
        };
        if losses.is_empty() || losses.len() > MOST {
            let expected = format!("a list of 1 to {MOST} losses, one for each target channel");
            return Err(settings.refuse_given(NAME, &expected));
        }
        for (at, ChannelLoss { loss, weight }) in losses.iter().enumerate() {
            if loss.is_of_labels() {
                return refuse(at, "a loss of images");
            }
            if loss.number_out_of_range().is_some() {
                return refuse(at, "numbers above 0 and at most 1000000");
            }
            if !(*weight > 0.0 && *weight <= 1e6) {
                return refuse(at, "a weight above 0 and at most 1000000");
            }
        }
        Ok(Some(Self(losses.into())))
    }

    /// Returns an error for targets with another number of channels.
    pub(in crate::task) fn check(&self, channels: usize) -> Result<(), RunError> {
        if self.0.len() == channels {
            return Ok(());
        }
        let reason = format!(
            "`{NAME}` is a list of {}, and the target images have {channels} channels; list one for \
             each",
            self.0.len()
        );
        Err(RunError::Unusable { reason })
    }

    /// The names of the losses.
    pub(in crate::task) fn parts(&self) -> impl Iterator<Item = String> {
        (1..=self.0.len()).map(|channel| format!("channel-{channel}"))
    }

    /// The weighted sum, and the loss of each channel without its weight, each `[1]`.
    pub(in crate::task) fn of_image<const D: usize>(
        &self,
        predictions: &Tensor<D>,
        targets: &Tensor<D>,
        data_range: f64,
    ) -> (Tensor<1>, Vec<Tensor<1>>) {
        let channel = |tensor: &Tensor<D>, at| tensor.clone().narrow(1, at, 1);
        let of = |(at, own): (usize, &ChannelLoss)| {
            own.loss.of_image(channel(predictions, at), channel(targets, at), data_range)
        };
        let parts: Vec<Tensor<1>> = self.0.iter().enumerate().map(of).collect();
        let weighted = parts.iter().zip(&*self.0);
        let sum = weighted
            .map(|(part, own)| part.clone().mul_scalar(own.weight))
            .reduce(|sum, part| sum + part)
            .expect("a list is not empty");
        let reported = |part: Tensor<1>| part.cast(FloatDType::F32);
        (sum, parts.into_iter().map(reported).collect())
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn each_channel_has_its_loss_and_the_sum_its_weight() {
        let device = Device::flex();
        let losses = ChannelLosses(Arc::new([
            ChannelLoss { loss: ImageLoss::MeanAbsoluteError, weight: 2.0 },
            ChannelLoss { loss: ImageLoss::MeanSquaredError, weight: 0.5 },
        ]));
        let predictions = Tensor::<4>::from_floats([[[[1.0, 3.0]], [[0.0, 4.0]]]], &device);
        let targets = Tensor::<4>::from_floats([[[[0.0, 0.0]], [[0.0, 0.0]]]], &device);
        let (sum, parts) = losses.of_image(&predictions, &targets, 1.0);
        let parts: Vec<f32> = parts.into_iter().map(Tensor::into_scalar).collect();
        assert_eq!((parts, sum.into_scalar::<f32>()), (vec![2.0, 8.0], 8.0));
        assert_eq!(losses.parts().collect::<Vec<_>>(), ["channel-1", "channel-2"]);
        assert!(losses.check(2).is_ok() && losses.check(1).is_err());
    }
}
