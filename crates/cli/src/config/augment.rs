//! The augmentation part of a plan.

use serde::{Deserialize, Serialize};
use updraft_data::{
    Augment, ColorJitter, DataError, HorizontalFlip, MixUp, RandomResizedCrop, Rotate, Translate,
    Zoom,
};

use super::error::ConfigError;
use super::plan::value;
use super::raw::RawAugment;

/// What happens to training images at random.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AugmentPlan {
    pub(crate) flip: bool,
    /// In pixels.
    pub(crate) translate: usize,
    /// In degrees.
    #[serde(default)]
    pub(crate) rotate: f32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) random_resized_crop: Option<RandomResizedCrop>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) zoom: Option<Zoom>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) color_jitter: Option<ColorJitter>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mix_up: Option<MixUp>,
}

/// Decides what the configuration left open.
pub(super) fn decide_augment(raw: RawAugment) -> AugmentPlan {
    AugmentPlan {
        flip: raw.flip.unwrap_or(false),
        translate: raw.translate.unwrap_or(0),
        rotate: raw.rotate.unwrap_or(0.0),
        random_resized_crop: raw.random_resized_crop,
        zoom: raw.zoom,
        color_jitter: raw.color_jitter,
        mix_up: raw.mix_up,
    }
}

impl AugmentPlan {
    /// The transforms in the order in which they are applied.
    pub(crate) fn transforms(&self) -> Vec<Augment> {
        self.keyed().into_iter().map(|(_, transform)| transform).collect()
    }

    /// Whether images of that size can be changed so.
    pub(super) fn validate(&self, (height, width): (usize, usize)) -> Result<(), ConfigError> {
        let side = height.min(width);
        if 2 * self.translate >= side {
            return value(
                "augment.translate",
                self.translate.to_string(),
                "less than half of the image's shorter side",
            );
        }
        let transforms = self.keyed().into_iter();
        let checked = transforms.map(|(key, transform)| (key, transform.validate(side)));
        let mixed = self.mix_up.map(|mix_up| ("augment.mix_up", mix_up.validate()));
        for (key, checked) in checked.chain(mixed) {
            match checked {
                Ok(()) => {}
                Err(DataError::Setting { name, value: given, expected }) => {
                    let name = name.rsplit('.').next().unwrap_or(name);
                    return value(key, format!("{given} for `{name}`"), &expected);
                }
                Err(other) => return value(key, "not usable".to_owned(), &other.to_string()),
            }
        }
        Ok(())
    }

    /// What is cut comes first, what changes only colors last.
    fn keyed(&self) -> Vec<(&'static str, Augment)> {
        let mut all = Vec::new();
        if let Some(crop) = self.random_resized_crop {
            all.push(("augment.random_resized_crop", Augment::RandomResizedCrop(crop)));
        }
        if self.flip {
            all.push(("augment.flip", Augment::HorizontalFlip(HorizontalFlip)));
        }
        if self.translate > 0 {
            let translate = Translate { max_pixels: self.translate };
            all.push(("augment.translate", Augment::Translate(translate)));
        }
        // Also what is no number at all, so that it is refused.
        if self.rotate != 0.0 {
            all.push(("augment.rotate", Augment::Rotate(Rotate { max_degrees: self.rotate })));
        }
        if let Some(zoom) = self.zoom {
            all.push(("augment.zoom", Augment::Zoom(zoom)));
        }
        if let Some(jitter) = self.color_jitter {
            all.push(("augment.color_jitter", Augment::ColorJitter(jitter)));
        }
        all
    }
}
