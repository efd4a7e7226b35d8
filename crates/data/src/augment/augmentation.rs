//! Any one of the random transforms.

use crate::augment::{Canvas, HorizontalFlip, Translate};
use crate::digest::Digest;
use crate::error::DataError;
use crate::random::Random;

/// A random change to training images.
///
/// What it does to a sample is a function of (seed, epoch, sample index) and of the transforms
/// listed before it, whoever does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Augment {
    /// Mirrors left and right.
    HorizontalFlip(HorizontalFlip),
    /// Moves the picture.
    Translate(Translate),
}

impl Augment {
    pub(crate) fn apply(self, random: &mut Random, canvas: &mut Canvas) {
        match self {
            Self::HorizontalFlip(flip) => flip.apply(random, canvas),
            Self::Translate(translate) => translate.apply(random, canvas),
        }
    }

    /// Whether images can be changed so whose shorter side has `smallest` pixels.
    pub(crate) fn validate(self, smallest: usize) -> Result<(), DataError> {
        match self {
            Self::Translate(Translate { max_pixels }) if max_pixels >= smallest => {
                Err(DataError::Setting {
                    name: "translate.max_pixels",
                    value: max_pixels.to_string(),
                    expected: format!("less than the shorter side, {smallest}"),
                })
            }
            Self::Translate(_) | Self::HorizontalFlip(_) => Ok(()),
        }
    }

    pub(crate) fn describe(self, digest: Digest) -> Digest {
        match self {
            Self::HorizontalFlip(HorizontalFlip) => digest.text("horizontal flip"),
            Self::Translate(Translate { max_pixels }) => {
                digest.text("translate").number(max_pixels)
            }
        }
    }
}
