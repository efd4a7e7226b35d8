//! The target of a prediction, and the loss.

use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};
use updraft_trainer::{
    MaskActivation, dice_cross_entropy, dice_loss, huber, mask_cross_entropy, mean_absolute_error,
    mean_squared_error, ssim_loss, tversky_loss,
};

use super::data_plan::{DataPlan, TargetKind};
use crate::config::{ConfigError, Edit, Key, Keys, Settings};

const LOSS: Key<ImageLoss> = Key::new(
    "train.loss",
    "of labels: `dice-cross-entropy`, `dice`, `cross-entropy`, `tversky` with `alpha` and `beta`; of images: `mean-squared-error`, `mean-absolute-error`, `huber` with `delta`, `ssim`",
)
.depends("`dice-cross-entropy` for labels, `mean-squared-error` for images")
.edit(Edit::Reported)
.decided_by(&["train.channel_losses"]);
const ACTIVATION: Key<MaskActivation> = Key::new(
    "model.activation",
    "labels only: `softmax` over the classes, or `sigmoid` of one channel for two classes",
)
.default(r#""softmax""#)
.decided_by(&["data.target"]);

/// The keys of loss and activation.
pub(in crate::task) const KEYS: Keys = &[&LOSS, &ACTIVATION];

/// A loss, by its name in a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::task) enum ImageLoss {
    DiceCrossEntropy,
    Dice,
    CrossEntropy,
    Tversky { alpha: f64, beta: f64 },
    MeanSquaredError,
    MeanAbsoluteError,
    Huber { delta: f64 },
    Ssim,
}

impl ImageLoss {
    /// The loss of a configuration, with each of its numbers in its range.
    fn read(settings: &Settings, standard: impl FnOnce() -> Self) -> Result<Self, ConfigError> {
        let loss = settings.value_or(&LOSS, standard)?;
        match loss.number_out_of_range() {
            None => Ok(loss),
            Some((name, number)) => {
                let key = format!("train.loss.{name}");
                Err(settings.refuse(&key, number, "above 0 and at most 1000000"))
            }
        }
    }

    /// A number of the loss that is not above 0 and at most 1000000, with its name.
    pub(super) fn number_out_of_range(self) -> Option<(&'static str, f64)> {
        let numbers = match self {
            Self::Tversky { alpha, beta } => vec![("alpha", alpha), ("beta", beta)],
            Self::Huber { delta } => vec![("delta", delta)],
            _ => Vec::new(),
        };
        numbers.into_iter().find(|(_, number)| !(*number > 0.0 && *number <= 1e6))
    }

    pub(super) const fn is_of_labels(self) -> bool {
        matches!(
            self,
            Self::DiceCrossEntropy | Self::Dice | Self::CrossEntropy | Self::Tversky { .. }
        )
    }

    /// The loss of a mask, `[1]`, of logits `[batch, channels, positions]`.
    pub(in crate::task) fn of_mask(
        self,
        logits: Tensor<3>,
        labels: Tensor<2, Int>,
        activation: MaskActivation,
    ) -> Tensor<1> {
        match self {
            Self::Dice => dice_loss(logits, labels, activation),
            Self::CrossEntropy => mask_cross_entropy(logits, labels, activation),
            Self::Tversky { alpha, beta } => tversky_loss(logits, labels, activation, alpha, beta),
            _ => dice_cross_entropy(logits, labels, activation),
        }
    }

    /// The loss of an image or a volume, `[1]`.
    pub(in crate::task) fn of_image<const D: usize>(
        self,
        predictions: Tensor<D>,
        targets: Tensor<D>,
        data_range: f64,
    ) -> Tensor<1> {
        match self {
            Self::MeanAbsoluteError => mean_absolute_error(predictions, targets),
            Self::Huber { delta } => huber(predictions, targets, delta as f32),
            Self::Ssim => ssim_loss(predictions, targets, data_range),
            _ => mean_squared_error(predictions, targets),
        }
    }
}

/// The target of a prediction, and the loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::task) enum Objective {
    /// The class of every position.
    Masks { classes: usize, activation: MaskActivation, loss: ImageLoss },
    /// Values of every position; each channel has its own loss if there is none of all.
    Images { loss: Option<ImageLoss> },
}

impl Objective {
    /// The objective of a configuration, which may have a loss for each channel.
    pub(in crate::task) fn read(
        settings: &Settings,
        data: &DataPlan,
        has_channel_losses: bool,
    ) -> Result<Self, ConfigError> {
        if has_channel_losses {
            return Ok(Self::Images { loss: None });
        }
        let is_of_labels = data.target == TargetKind::Labels;
        let standard = || match is_of_labels {
            true => ImageLoss::DiceCrossEntropy,
            false => ImageLoss::MeanSquaredError,
        };
        let loss = ImageLoss::read(settings, standard)?;
        if loss.is_of_labels() != is_of_labels {
            let expected = if is_of_labels { "a loss of labels" } else { "a loss of images" };
            let target = if is_of_labels { "labels" } else { "image` or `input" };
            let expected = format!("{expected}, as `data.target` is `{target}`");
            return Err(settings.refuse_given("train.loss", &expected));
        }
        if !is_of_labels {
            return Ok(Self::Images { loss: Some(loss) });
        }
        let activation = settings.value(&ACTIVATION)?;
        if activation == MaskActivation::Sigmoid && data.classes != 2 {
            let expected = format!("softmax for {} classes", data.classes);
            return Err(settings.refuse("model.activation", "sigmoid", expected));
        }
        Ok(Self::Masks { classes: data.classes, activation, loss })
    }

    /// The number of output channels, for targets with this many channels.
    pub(in crate::task) const fn outputs(&self, channels: usize) -> usize {
        match *self {
            Self::Masks { activation: MaskActivation::Sigmoid, .. } => 1,
            Self::Masks { classes, .. } => classes,
            Self::Images { .. } => channels,
        }
    }
}
