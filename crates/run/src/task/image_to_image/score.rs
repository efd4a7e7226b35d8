//! Scores of masks or of images.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};
use updraft_trainer::{Direction, ImageScores, MaskScores, MetricSpec, Score, Unit};

use crate::task::image_pairs::objective::Objective;

/// Scores of masks or of images: the first number of a batch distinguishes them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ConversionScore {
    /// No sample yet.
    #[default]
    Nothing,
    Masks(MaskScores),
    Images(ImageScores),
}

const MASKS: f64 = 0.0;
const IMAGES: f64 = 1.0;

/// The numbers of a batch of masks, after the number that marks them.
pub(super) fn of_masks(numbers: Tensor<1>) -> Tensor<1> {
    behind(MASKS, numbers)
}

/// The same of images.
pub(super) fn of_images(numbers: Tensor<1>) -> Tensor<1> {
    behind(IMAGES, numbers)
}

fn behind(kind: f64, numbers: Tensor<1>) -> Tensor<1> {
    let kind = Tensor::full([1], kind, (&numbers.device(), numbers.dtype()));
    Tensor::cat(vec![kind, numbers], 0)
}

impl Score for ConversionScore {
    fn add(&mut self, numbers: &[f64], samples: usize) {
        let Some((kind, numbers)) = numbers.split_first() else { return };
        if *self == Self::Nothing {
            *self = match *kind == MASKS {
                true => Self::Masks(MaskScores::default()),
                false => Self::Images(ImageScores::default()),
            };
        }
        match self {
            Self::Nothing => {}
            Self::Masks(score) => score.add(numbers, samples),
            Self::Images(score) => score.add(numbers, samples),
        }
    }

    fn merge(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Masks(own), Self::Masks(other)) => own.merge(other),
            (Self::Images(own), Self::Images(other)) => own.merge(other),
            (Self::Nothing, other) => *self = other.clone(),
            _ => {}
        }
    }
}

/// The metrics of an objective.
pub(super) fn metrics(objective: &Objective) -> Vec<MetricSpec> {
    let higher = |name: String, unit| MetricSpec::new(name, unit, Direction::HigherIsBetter);
    let share = |name: &str| higher(name.to_owned(), Unit::Share);
    match objective {
        Objective::Masks { classes, .. } => {
            let mut metrics = vec![
                share("dice").with_long_name("Dice coefficient, mean of the classes"),
                share("iou").with_long_name("intersection over union, mean of the classes"),
            ];
            if *classes > 2 {
                metrics.extend((1..*classes).map(|class| share(&format!("dice-{class}"))));
            }
            metrics
        }
        Objective::Images { .. } => vec![
            higher("pearson".to_owned(), Unit::None).with_long_name("Pearson correlation"),
            higher("psnr".to_owned(), Unit::Of("dB".into()))
                .with_long_name("peak signal-to-noise ratio"),
            higher("ssim".to_owned(), Unit::None).with_long_name("structural similarity"),
            MetricSpec::new("mean-absolute-error", Unit::None, Direction::LowerIsBetter),
        ],
    }
}

/// Their values, in the same order.
pub(super) fn values(objective: &Objective, score: &ConversionScore) -> Vec<Option<f64>> {
    match (objective, score) {
        (Objective::Masks { classes, .. }, ConversionScore::Masks(score)) => {
            let mut values = vec![score.mean_dice(), score.mean_iou()];
            if *classes > 2 {
                values.extend((1..*classes).map(|class| score.dice(class)));
            }
            values
        }
        (Objective::Images { .. }, ConversionScore::Images(score)) => {
            vec![score.pearson(), score.psnr(), score.ssim(), score.mean_absolute_error()]
        }
        _ => vec![None; metrics(objective).len()],
    }
}
