//! Turning the picture.

use crate::augment::augment_trait::check_range;
use crate::augment::{Augment, Canvas};
use crate::digest::Digest;
use crate::error::DataError;
use crate::random::Random;
use crate::raster::RasterSpec;

/// Rotates the picture about its center by an angle drawn evenly from `−max_degrees` to
/// `max_degrees`, and mirrors it at its edges to fill the uncovered area.
///
/// Pixels are interpolated bilinearly; all slices of a volume are rotated in the same way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rotate {
    /// The largest angle in degrees, either way; 0 to 180.
    pub max_degrees: f32,
}

impl Augment for Rotate {
    fn validate(&self, _: &RasterSpec) -> Result<(), DataError> {
        check_range("rotate.max_degrees", self.max_degrees, 0.0, 180.0)
    }

    fn describe(&self, digest: Digest) -> Digest {
        digest.text("rotate").float(self.max_degrees)
    }

    fn apply(&self, random: &mut Random, canvas: &mut Canvas) {
        turn(canvas, random.between(-self.max_degrees, self.max_degrees));
    }
}

/// Rotates by an angle in degrees, counterclockwise.
fn turn(canvas: &mut Canvas, degrees: f32) {
    // Sine and cosine in f64, rounded once: the last bit of f32 functions differs between machines.
    let (sin, cos) = f64::from(degrees).to_radians().sin_cos();
    let (sin, cos) = (sin as f32, cos as f32);
    canvas.remap(|down, right| (cos * down + sin * right, cos * right - sin * down));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    #[test]
    fn quarter_turns_permute_the_pixels() {
        let values = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        for (degrees, expected) in [
            (0.0, values),
            (90.0, [3, 6, 9, 2, 5, 8, 1, 4, 7]),
            (-90.0, [7, 4, 1, 8, 5, 2, 9, 6, 3]),
            (180.0, [9, 8, 7, 6, 5, 4, 3, 2, 1]),
        ] {
            let mut canvas = Canvas::gray(3, 3, &values);
            turn(&mut canvas, degrees);
            assert_eq!(canvas.channel(1), expected, "{degrees}");
        }
    }

    #[test]
    fn an_even_picture_stays_even() {
        let mut canvas = Canvas::gray(5, 8, &[77; 40]);
        turn(&mut canvas, 33.0);
        assert_eq!(canvas.channel(0), [77; 40]);
    }

    #[test]
    fn the_first_turns_are_golden() {
        let corners: Vec<u8> = (0..6)
            .map(|item| {
                let values: Vec<u8> = (0..25).map(|at| at * 10).collect();
                let mut canvas = Canvas::gray(5, 5, &values);
                let mut random = Random::new(Purpose::Augment, 7, 0, item);
                Rotate { max_degrees: 30.0 }.apply(&mut random, &mut canvas);
                canvas.channel(0)[4]
            })
            .collect();
        assert_eq!(corners, [44, 96, 61, 81, 83, 53]);
    }
}
