//! A random part of the picture, resized to the picture's size.

use serde::{Deserialize, Serialize};

use crate::augment::augment_trait::check_range;
use crate::augment::{Augment, Canvas, Crop};
use crate::digest::Digest;
use crate::error::DataError;
use crate::random::Random;
use crate::raster::RasterSpec;

/// Resizes a random part of the picture to the picture's size, antialiased.
///
/// The part's share of the area is drawn evenly from `min_area` to 1, the logarithm of its width
/// over height, relative to the picture's, evenly from `−ln max_stretch` to `ln max_stretch`. A
/// part larger than the picture is cut to the picture's side. The same part is taken from all
/// slices of a volume; the depth does not change.
///
/// # Source
/// The training crop of C. Szegedy et al., "Going deeper with convolutions", 2015, section 6.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomResizedCrop {
    /// The smallest share of the area; 0.001 to 1.
    pub min_area: f32,
    /// The strongest change of the ratio of sides; 1 to 16.
    pub max_stretch: f32,
}

/// The paper's ranges: from 8 % of the area, aspect ratios up to 4 : 3.
impl Default for RandomResizedCrop {
    fn default() -> Self {
        Self { min_area: 0.08, max_stretch: 4.0 / 3.0 }
    }
}

impl Augment for RandomResizedCrop {
    fn validate(&self, _: &RasterSpec) -> Result<(), DataError> {
        check_range("random_resized_crop.min_area", self.min_area, 0.001, 1.0)?;
        check_range("random_resized_crop.max_stretch", self.max_stretch, 1.0, 16.0)
    }

    fn describe(&self, digest: Digest) -> Digest {
        digest.text("random resized crop").float(self.min_area).float(self.max_stretch)
    }

    fn apply(&self, random: &mut Random, canvas: &mut Canvas) {
        let RasterSpec { height, width, .. } = *canvas.spec();
        canvas.crop_resized(self.draw(random, (height, width), 1.0));
    }
}

impl RandomResizedCrop {
    /// Draws the part of a picture of `height` and `width`; `ratio` is the width over height around
    /// which that of the part is drawn, relative to the picture's.
    pub(super) fn draw(
        &self,
        random: &mut Random,
        (height, width): (usize, usize),
        ratio: f64,
    ) -> Crop {
        let area = f64::from(random.between(self.min_area, 1.0));
        let most = f64::from(self.max_stretch).ln() as f32;
        let stretch = f64::from(random.between(-most, most)).exp() * ratio;
        let cut = |side: usize, share: f64| ((side as f64 * share).round() as usize).clamp(1, side);
        let rows = cut(height, (area / stretch).sqrt());
        let columns = cut(width, (area * stretch).sqrt());
        let top = random.below((height - rows) as u64 + 1) as usize;
        let left = random.below((width - columns) as u64 + 1) as usize;
        Crop { top, left, rows, columns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    #[test]
    fn the_whole_area_unstretched_changes_nothing() {
        let values: Vec<u8> = (0..30).collect();
        let mut canvas = Canvas::gray(5, 6, &values);
        let mut random = Random::new(Purpose::Augment, 1, 0, 0);
        RandomResizedCrop { min_area: 1.0, max_stretch: 1.0 }.apply(&mut random, &mut canvas);
        assert_eq!(canvas.channel(0), values);
    }

    #[test]
    fn a_part_keeps_its_order_and_its_range() {
        let values: Vec<u8> = (0..16).flat_map(|_| (0..16).map(|column| column * 15)).collect();
        for item in 0..100 {
            let mut canvas = Canvas::gray(16, 16, &values);
            let mut random = Random::new(Purpose::Augment, 3, 0, item);
            RandomResizedCrop { min_area: 0.1, max_stretch: 2.0 }.apply(&mut random, &mut canvas);
            let row = canvas.channel(1)[..16].to_vec();
            assert!(row.is_sorted(), "{row:?}");
            assert_eq!(*canvas.spec(), RasterSpec::rgb8(16, 16));
        }
    }

    #[test]
    fn the_first_parts_are_golden() {
        let corners: Vec<(u8, u8)> = (0..6)
            .map(|item| {
                let values: Vec<u8> = (0..64).map(|at| at * 4).collect();
                let mut canvas = Canvas::gray(8, 8, &values);
                let mut random = Random::new(Purpose::Augment, 7, 0, item);
                RandomResizedCrop { min_area: 0.3, max_stretch: 1.33 }
                    .apply(&mut random, &mut canvas);
                (canvas.channel(0)[0], canvas.channel(0)[63])
            })
            .collect();
        assert_eq!(corners, [(8, 222), (0, 252), (128, 252), (0, 252), (4, 252), (32, 221)]);
    }
}
