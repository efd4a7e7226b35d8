//! Any one of the random transforms.

use crate::augment::{
    Canvas, ColorJitter, HorizontalFlip, RandomResizedCrop, Rotate, Translate, Zoom,
};
use crate::digest::Digest;
use crate::error::DataError;
use crate::random::Random;

/// A random change to training images.
///
/// What it does to a sample is a function of (seed, epoch, sample index) and of the transforms
/// listed before it, whoever does the work.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Augment {
    /// Mirrors left and right.
    HorizontalFlip(HorizontalFlip),
    /// Moves the picture.
    Translate(Translate),
    /// Turns the picture.
    Rotate(Rotate),
    /// Makes the picture larger or smaller.
    Zoom(Zoom),
    /// Stretches a part of the picture over all of it.
    RandomResizedCrop(RandomResizedCrop),
    /// Changes brightness, contrast, saturation and hue.
    ColorJitter(ColorJitter),
}

impl Augment {
    pub(crate) fn apply(self, random: &mut Random, canvas: &mut Canvas) {
        match self {
            Self::HorizontalFlip(flip) => flip.apply(random, canvas),
            Self::Translate(translate) => translate.apply(random, canvas),
            Self::Rotate(rotate) => rotate.apply(random, canvas),
            Self::Zoom(zoom) => zoom.apply(random, canvas),
            Self::RandomResizedCrop(crop) => crop.apply(random, canvas),
            Self::ColorJitter(jitter) => jitter.apply(random, canvas),
        }
    }

    /// Whether images can be changed so whose shorter side has `smallest` pixels.
    ///
    /// # Errors
    /// [`DataError::Setting`] naming the number that is out of range.
    pub fn validate(self, smallest: usize) -> Result<(), DataError> {
        let check = |name, value: f32, low: f32, high: f32| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            let expected = format!("{low} to {high}");
            Err(DataError::Setting { name, value: value.to_string(), expected })
        };
        match self {
            Self::HorizontalFlip(HorizontalFlip) => Ok(()),
            Self::Translate(Translate { max_pixels }) if max_pixels >= smallest => {
                Err(DataError::Setting {
                    name: "translate.max_pixels",
                    value: max_pixels.to_string(),
                    expected: format!("less than the shorter side, {smallest}"),
                })
            }
            Self::Translate(_) => Ok(()),
            Self::Rotate(Rotate { max_degrees }) => {
                check("rotate.max_degrees", max_degrees, 0.0, 180.0)
            }
            Self::Zoom(Zoom { min_factor, max_factor }) => {
                check("zoom.max_factor", max_factor, 0.1, 10.0)?;
                check("zoom.min_factor", min_factor, 0.1, max_factor)
            }
            Self::RandomResizedCrop(RandomResizedCrop { min_area, max_stretch }) => {
                check("random_resized_crop.min_area", min_area, 0.001, 1.0)?;
                check("random_resized_crop.max_stretch", max_stretch, 1.0, 16.0)
            }
            Self::ColorJitter(ColorJitter { brightness, contrast, saturation, hue }) => {
                check("color_jitter.brightness", brightness, 0.0, 1.0)?;
                check("color_jitter.contrast", contrast, 0.0, 1.0)?;
                check("color_jitter.saturation", saturation, 0.0, 1.0)?;
                check("color_jitter.hue", hue, 0.0, 0.5)
            }
        }
    }

    pub(crate) fn describe(self, digest: Digest) -> Digest {
        match self {
            Self::HorizontalFlip(HorizontalFlip) => digest.text("horizontal flip"),
            Self::Translate(Translate { max_pixels }) => {
                digest.text("translate").number(max_pixels)
            }
            Self::Rotate(Rotate { max_degrees }) => digest.text("rotate").float(max_degrees),
            Self::Zoom(Zoom { min_factor, max_factor }) => {
                digest.text("zoom").float(min_factor).float(max_factor)
            }
            Self::RandomResizedCrop(RandomResizedCrop { min_area, max_stretch }) => {
                digest.text("random resized crop").float(min_area).float(max_stretch)
            }
            Self::ColorJitter(ColorJitter { brightness, contrast, saturation, hue }) => {
                let strengths = [brightness, contrast, saturation, hue];
                strengths.into_iter().fold(digest.text("color jitter"), Digest::float)
            }
        }
    }
}
