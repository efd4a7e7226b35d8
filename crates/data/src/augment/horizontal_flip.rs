//! Mirroring left and right.

use crate::augment::{Augment, Axis, Canvas};
use crate::digest::Digest;
use crate::error::DataError;
use crate::random::Random;
use crate::raster::RasterSpec;

/// Mirrors half of the samples, left and right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HorizontalFlip;

impl Augment for HorizontalFlip {
    fn validate(&self, _: &RasterSpec) -> Result<(), DataError> {
        Ok(())
    }

    fn describe(&self, digest: Digest) -> Digest {
        digest.text("horizontal flip")
    }

    fn apply(&self, random: &mut Random, canvas: &mut Canvas) {
        if random.coin() {
            canvas.flip(Axis::Width);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    #[test]
    fn half_of_the_images_are_mirrored_row_by_row() {
        let mut mirrored = 0;
        for item in 0..1000 {
            let mut canvas = Canvas::gray(2, 3, &[1, 2, 3, 4, 5, 6]);
            HorizontalFlip.apply(&mut Random::new(Purpose::Augment, 1, 0, item), &mut canvas);
            for channel in 0..3 {
                let values = canvas.channel(channel);
                assert!(values == [1, 2, 3, 4, 5, 6] || values == [3, 2, 1, 6, 5, 4]);
            }
            mirrored += usize::from(canvas.channel(0)[0] == 3);
        }
        // Four standard deviations of 1000 coins are 63.
        assert!((437..=563).contains(&mirrored), "{mirrored}");
    }

    #[test]
    fn the_first_choices_are_golden() {
        let choices: Vec<bool> = (0..8)
            .map(|item| {
                let mut canvas = Canvas::gray(1, 2, &[0, 1]);
                HorizontalFlip.apply(&mut Random::new(Purpose::Augment, 7, 0, item), &mut canvas);
                canvas.channel(0)[0] == 1
            })
            .collect();
        assert_eq!(choices, [true, true, false, true, true, false, true, false]);
    }
}
