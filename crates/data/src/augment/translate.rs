//! Moving the picture.

use crate::augment::{Augment, Canvas};
use crate::digest::Digest;
use crate::error::DataError;
use crate::random::Random;
use crate::raster::RasterSpec;

/// Moves the picture by up to `max_pixels` in each direction, and mirrors it at its edges to fill
/// the uncovered area (the edge pixel itself is not repeated).
///
/// Each of the `2 · max_pixels + 1` moves is equally likely, in both directions. All slices of a
/// volume are moved in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translate {
    /// The largest move; below both sides of the image.
    pub max_pixels: usize,
}

impl Augment for Translate {
    fn validate(&self, sample: &RasterSpec) -> Result<(), DataError> {
        let smallest = sample.height.min(sample.width);
        if self.max_pixels < smallest {
            return Ok(());
        }
        Err(DataError::Setting {
            name: "translate.max_pixels",
            value: self.max_pixels.to_string(),
            expected: format!("less than the shorter side, {smallest}"),
        })
    }

    fn describe(&self, digest: Digest) -> Digest {
        digest.text("translate").number(self.max_pixels)
    }

    fn apply(&self, random: &mut Random, canvas: &mut Canvas) {
        let moves = 2 * self.max_pixels as u64 + 1;
        let mut draw = || random.below(moves) as isize - self.max_pixels as isize;
        let (down, right) = (draw(), draw());
        canvas.translate(0, down, right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    #[test]
    fn what_a_move_uncovers_mirrors_the_picture_without_its_edge() {
        let cases = [
            (0, 0, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
            (0, 1, [2, 1, 2, 5, 4, 5, 8, 7, 8]),
            (0, -1, [2, 3, 2, 5, 6, 5, 8, 9, 8]),
            (0, 2, [3, 2, 1, 6, 5, 4, 9, 8, 7]),
            (1, 0, [4, 5, 6, 1, 2, 3, 4, 5, 6]),
            (-2, 0, [7, 8, 9, 4, 5, 6, 1, 2, 3]),
            (-1, 1, [5, 4, 5, 8, 7, 8, 5, 4, 5]),
        ];
        for (down, right, expected) in cases {
            let mut canvas = Canvas::gray(3, 3, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
            canvas.translate(0, down, right);
            for channel in 0..3 {
                assert_eq!(canvas.channel(channel), expected, "{down} {right}");
            }
        }
    }

    #[test]
    fn every_move_is_drawn_equally_often() {
        // The center pixel's value names the move; max_pixels 1 leaves all nine inside.
        let mut seen = [0; 9];
        for item in 0..9000 {
            let mut canvas = Canvas::gray(3, 3, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
            let mut random = Random::new(Purpose::Augment, 2, 1, item);
            Translate { max_pixels: 1 }.apply(&mut random, &mut canvas);
            seen[usize::from(canvas.channel(0)[4])] += 1;
        }
        // Four standard deviations of 9000 draws with chance 1/9 are 119.
        assert!(seen.iter().all(|&count: &i32| (count - 1000).abs() < 119), "{seen:?}");
    }

    #[test]
    fn the_first_moves_are_golden() {
        let centers: Vec<u8> = (0..6)
            .map(|item| {
                let values: Vec<u8> = (0..25).collect();
                let mut canvas = Canvas::gray(5, 5, &values);
                let mut random = Random::new(Purpose::Augment, 7, 0, item);
                Translate { max_pixels: 2 }.apply(&mut random, &mut canvas);
                canvas.channel(0)[12]
            })
            .collect();
        assert_eq!(centers, [19, 7, 0, 12, 22, 18]);
    }
}
