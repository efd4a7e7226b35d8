//! Making the picture larger or smaller about its center.

use serde::{Deserialize, Serialize};

use crate::augment::augment_trait::check_range;
use crate::augment::{Augment, Canvas};
use crate::digest::Digest;
use crate::error::DataError;
use crate::random::Random;
use crate::raster::RasterSpec;

/// Scales the picture about its center by a factor whose logarithm is drawn evenly, and mirrors it
/// at its edges to fill the area that a factor below 1 uncovers.
///
/// Pixels are interpolated bilinearly; factors below 1 are not antialiased, so keep them near 1.
/// All slices of a volume are scaled in the same way; the depth does not change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zoom {
    /// The smallest factor; at least 0.1, at most `max_factor`.
    pub min_factor: f32,
    /// The largest factor; at most 10.
    pub max_factor: f32,
}

impl Augment for Zoom {
    fn validate(&self, _: &RasterSpec) -> Result<(), DataError> {
        check_range("zoom.max_factor", self.max_factor, 0.1, 10.0)?;
        check_range("zoom.min_factor", self.min_factor, 0.1, self.max_factor)
    }

    fn describe(&self, digest: Digest) -> Digest {
        digest.text("zoom").float(self.min_factor).float(self.max_factor)
    }

    fn apply(&self, random: &mut Random, canvas: &mut Canvas) {
        let [low, high] =
            [self.min_factor, self.max_factor].map(|factor| f64::from(factor).ln() as f32);
        magnify(canvas, f64::from(random.between(low, high)).exp() as f32);
    }
}

fn magnify(canvas: &mut Canvas, factor: f32) {
    canvas.remap(|down, right| (down / factor, right / factor));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    #[test]
    fn a_doubled_picture_shows_its_middle_interpolated() {
        let mut canvas = Canvas::gray(1, 4, &[0, 40, 80, 120]);
        magnify(&mut canvas, 2.0);
        // Centers −1.5, −0.5, 0.5, 1.5 show the places −0.75, −0.25, 0.25, 0.75 of the old one.
        assert_eq!(canvas.channel(2), [30, 50, 70, 90]);
    }

    #[test]
    fn a_halved_picture_mirrors_its_edges() {
        let mut canvas = Canvas::gray(1, 4, &[0, 40, 80, 120]);
        magnify(&mut canvas, 0.5);
        // Places −3, −1, 1, 3 from the center: −1.5 mirrors to 1.5.
        assert_eq!(canvas.channel(2), [60, 20, 100, 60]);
    }

    #[test]
    fn the_first_factors_are_golden() {
        let corners: Vec<u8> = (0..6)
            .map(|item| {
                let values: Vec<u8> = (0..25).map(|at| at * 10).collect();
                let mut canvas = Canvas::gray(5, 5, &values);
                let mut random = Random::new(Purpose::Augment, 7, 0, item);
                Zoom { min_factor: 0.8, max_factor: 1.25 }.apply(&mut random, &mut canvas);
                canvas.channel(0)[0]
            })
            .collect();
        assert_eq!(corners, [2, 24, 22, 19, 20, 10]);
    }
}
