//! Elastic deformation of a sample.

use serde::{Deserialize, Serialize};

use crate::augment::augment_trait::check_range;
use crate::augment::{Augment, Canvas};
use crate::digest::Digest;
use crate::error::DataError;
use crate::random::Random;
use crate::raster::RasterSpec;

/// Moves the points of a coarse grid by up to `max_pixels` down and right, and everything between
/// them smoothly, with the target; all slices of a volume are moved in the same way.
///
/// Between the points, displacements follow a cubic B-spline, so no fold can appear as long as
/// `max_pixels` is below a third of `grid_pixels`, which is its limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elastic {
    /// The largest displacement of a point along either axis; 0 to a third of `grid_pixels`.
    pub max_pixels: f32,
    /// The distance between grid points; 4 to 1024.
    pub grid_pixels: f32,
}

impl Augment for Elastic {
    fn validate(&self, _: &RasterSpec) -> Result<(), DataError> {
        check_range("elastic.grid_pixels", self.grid_pixels, 4.0, 1024.0)?;
        check_range("elastic.max_pixels", self.max_pixels, 0.0, self.grid_pixels / 3.0)
    }

    fn describe(&self, digest: Digest) -> Digest {
        digest.text("elastic").float(self.max_pixels).float(self.grid_pixels)
    }

    fn apply(&self, random: &mut Random, canvas: &mut Canvas) {
        let (height, width) = (canvas.spec().height, canvas.spec().width);
        // One more interval on each side: a spline needs four points around a position.
        let points = |side: usize| (side as f32 / self.grid_pixels).ceil() as usize + 4;
        let (rows, columns) = (points(height), points(width));
        let mut draw = || random.between(-self.max_pixels, self.max_pixels);
        let moves: Vec<[f32; 2]> = (0..rows * columns).map(|_| [draw(), draw()]).collect();
        let (middle_row, middle_column) = ((height as f32 - 1.0) / 2.0, (width as f32 - 1.0) / 2.0);
        canvas.remap(|down, right| {
            let (row, down_weights) = spline((down + middle_row) / self.grid_pixels);
            let (column, right_weights) = spline((right + middle_column) / self.grid_pixels);
            let mut moved = [down, right];
            for (own, weight) in down_weights.into_iter().enumerate() {
                for (other, other_weight) in right_weights.into_iter().enumerate() {
                    let point = moves[(row + own) * columns + column + other];
                    moved[0] += weight * other_weight * point[0];
                    moved[1] += weight * other_weight * point[1];
                }
            }
            (moved[0], moved[1])
        });
    }
}

/// The first of the four points around a position, and the weights of the cubic B-spline.
fn spline(place: f32) -> (usize, [f32; 4]) {
    let first = place.max(0.0).floor();
    let t = place.max(0.0) - first;
    let weights = [
        (1.0 - t).powi(3),
        3.0 * t.powi(3) - 6.0 * t * t + 4.0,
        -3.0 * t.powi(3) + 3.0 * t * t + 3.0 * t + 1.0,
        t.powi(3),
    ];
    (first as usize, weights.map(|weight| weight / 6.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_sum_to_one() {
        for place in [0.0, 0.3, 1.0, 2.999, 7.5] {
            let (first, weights) = spline(place);
            assert_eq!(first, place as usize);
            assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn a_ramp_is_bent_and_never_folded() {
        // Neighbors of a ramp keep their order as long as nothing folds.
        let values: Vec<u8> = (0..40 * 40).map(|at| (at % 40 * 6) as u8).collect();
        let mut changed = 0;
        for item in 0..10 {
            let mut canvas = Canvas::gray(40, 40, &values);
            let elastic = Elastic { max_pixels: 3.0, grid_pixels: 10.0 };
            elastic.apply(&mut Random::for_augment(5, 0, item), &mut canvas);
            let bent = canvas.channel(0);
            changed += bent.iter().zip(&values).filter(|(new, old)| new != old).count();
            for row in bent.chunks(40) {
                let inside = &row[4..36];
                assert!(inside.windows(2).all(|pair| pair[0] <= pair[1]), "{row:?}");
            }
        }
        assert!(changed > 10 * 800, "{changed}");
    }
}
