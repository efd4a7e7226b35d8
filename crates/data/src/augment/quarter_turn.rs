//! Turning by right angles.

use serde::{Deserialize, Serialize};

use crate::augment::{Augment, Axis, Canvas};
use crate::digest::Digest;
use crate::error::DataError;
use crate::random::Random;
use crate::raster::RasterSpec;

/// Rotates the picture, or every slice of a volume, by 0, 90, 180 or 270 degrees, all equally
/// likely; values are moved, not interpolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuarterTurn;

impl Augment for QuarterTurn {
    fn validate(&self, sample: &RasterSpec) -> Result<(), DataError> {
        if sample.height == sample.width {
            return Ok(());
        }
        let (transform, expected) = ("quarter_turn", "as many rows as columns");
        Err(DataError::Augment { transform, expected, got: sample.to_string() })
    }

    fn describe(&self, digest: Digest) -> Digest {
        digest.text("quarter turn")
    }

    fn apply(&self, random: &mut Random, canvas: &mut Canvas) {
        let turns = random.below(4);
        if turns % 2 == 1 {
            canvas.transpose();
        }
        if turns == 1 || turns == 2 {
            canvas.flip(Axis::Height);
        }
        if turns == 2 || turns == 3 {
            canvas.flip(Axis::Width);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_turns_are_as_by_hand() {
        let mut seen = std::collections::BTreeSet::new();
        for item in 0..40 {
            let mut canvas = Canvas::gray(3, 3, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
            QuarterTurn.apply(&mut Random::for_augment(1, 0, item), &mut canvas);
            seen.insert(canvas.channel(1));
        }
        let expected = [
            [1, 2, 3, 4, 5, 6, 7, 8, 9],
            [3, 6, 9, 2, 5, 8, 1, 4, 7],
            [7, 4, 1, 8, 5, 2, 9, 6, 3],
            [9, 8, 7, 6, 5, 4, 3, 2, 1],
        ];
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
    }
}
