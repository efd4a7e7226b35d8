//! A random part of a picture of any size, resized to one size.

use crate::augment::{Augment, RandomResizedCrop};
use crate::digest::Digest;
use crate::error::DataError;
use crate::image::Image;
use crate::random::Random;
use crate::raster::RasterSpec;
use crate::source::check_size;

/// Resizes a random part of every picture, of whatever size that is, to `height` rows of `width`
/// pixels, antialiased.
///
/// Parts are drawn as by [`RandomResizedCrop`], but the ratio of their sides around that of the
/// result: with a `max_stretch` of 4/3, no result is stretched by more than that, whatever the
/// picture's sides are. Only a part that does not fit is cut to the picture's side.
///
/// # Source
/// The training crop of C. Szegedy et al., "Going deeper with convolutions", 2015, section 6, as in
/// torchvision's `RandomResizedCrop`; that draws again if a part does not fit.
///
/// # Example
/// ```
/// use updraft_data::{Image, PictureCrop, Random, RandomResizedCrop};
///
/// let crop = PictureCrop { crop: RandomResizedCrop::default(), height: 8, width: 8 };
/// let picture = Image::try_new(30, 40, vec![200; 30 * 40 * 3])?;
/// let part = crop.apply(&mut Random::for_augment(7, 0, 0), picture);
/// assert_eq!(part.size(), (8, 8));
/// # Ok::<(), updraft_data::DataError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PictureCrop {
    /// Which parts are drawn.
    pub crop: RandomResizedCrop,
    /// Rows of the result; 1 to 65,535.
    pub height: usize,
    /// Pixels in a row of the result; 1 to 65,535.
    pub width: usize,
}

impl PictureCrop {
    /// Checks the ranges of all settings.
    ///
    /// # Errors
    /// [`DataError::Setting`] naming the setting that is out of range.
    pub fn validate(&self) -> Result<(), DataError> {
        check_size((self.height, self.width))?;
        self.crop.validate(&RasterSpec::rgb8(self.height, self.width))
    }

    /// A random part of a picture at the size of the result.
    ///
    /// # Panics
    /// If `height` or `width` is 0 or does not fit 32 bits.
    #[must_use]
    pub fn apply<'a>(&self, random: &mut Random, picture: Image<'a>) -> Image<'a> {
        let own = picture.width() as f64 / picture.height() as f64;
        let ratio = self.width as f64 / self.height as f64 / own;
        let part = self.crop.draw(random, picture.size(), ratio);
        picture.crop_resized(part, self.height, self.width)
    }

    /// Adds the settings to the fingerprint of a loader's settings.
    pub(crate) fn describe(&self, digest: Digest) -> Digest {
        let digest = digest.text("of whole pictures").number(self.height).number(self.width);
        self.crop.describe(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture whose red is the row and whose green is the column.
    fn places(height: usize, width: usize) -> Image<'static> {
        let row = |row: usize| (0..width).flat_map(move |column| [row as u8, column as u8, 0]);
        Image::try_new(height, width, (0..height).flat_map(row).collect::<Vec<u8>>()).unwrap()
    }

    #[test]
    fn parts_have_the_sides_of_the_result_and_not_those_of_the_picture() {
        let unstretched = RandomResizedCrop { min_area: 0.25, max_stretch: 1.0 };
        let crop = PictureCrop { crop: unstretched, height: 50, width: 50 };
        let mut corners = Vec::new();
        for item in 0..40 {
            let mut random = Random::for_augment(3, 0, item);
            let part = crop.apply(&mut random, places(100, 200));
            let at = |row: usize, column: usize, channel: usize| {
                f64::from(part.pixels()[3 * (50 * row + column) + channel])
            };
            // From the first to the last pixel, of which there are 50.
            let rows = (at(49, 25, 0) - at(0, 25, 0)) * 50.0 / 49.0;
            let columns = (at(25, 49, 1) - at(25, 0, 1)) * 50.0 / 49.0;
            // A square of a quarter of the area has 70.7 pixels; above half of it, it does not fit
            // and has all 100 rows.
            assert!((68.0..=102.0).contains(&rows), "{rows}");
            assert!(columns >= rows - 3.0, "{columns} {rows}");
            if rows < 97.0 {
                assert!((columns - rows).abs() < 4.0, "{columns} {rows}");
            }
            corners.push((at(0, 0, 0) as u8, at(0, 0, 1) as u8));
        }
        corners.sort_unstable();
        corners.dedup();
        assert!(corners.len() > 20, "{corners:?}");
    }

    #[test]
    fn a_picture_of_the_ratio_of_the_result_gives_what_the_transform_gives() {
        let crop = RandomResizedCrop { min_area: 0.3, max_stretch: 1.33 };
        for item in 0..20 {
            let picture = places(40, 60);
            let mut canvas = crate::augment::Canvas::default();
            canvas.load_image(&picture);
            crop.apply(&mut Random::for_augment(3, 1, item), &mut canvas);
            let sized = PictureCrop { crop, height: 40, width: 60 };
            let part = sized.apply(&mut Random::for_augment(3, 1, item), picture);
            assert_eq!(part.pixels(), canvas.bytes());
        }
    }
}
