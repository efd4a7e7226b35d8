//! An 8-bit RGB image in memory.

use std::borrow::Cow;

use crate::augment::Crop;
use crate::buffer_pool;
use crate::center_crop::center_part;
use crate::error::DataError;
use crate::resample::{Part, resample};

/// An 8-bit RGB image: rows from top to bottom, pixels from left to right, red before green
/// before blue.
///
/// Its bytes may be borrowed from the source, so reading an image that is already in memory copies
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image<'a> {
    height: usize,
    width: usize,
    pixels: Cow<'a, [u8]>,
}

impl<'a> Image<'a> {
    /// Bytes per pixel: red, green and blue.
    pub const CHANNELS: usize = 3;

    /// Creates an image from bytes in the order stated above.
    ///
    /// # Errors
    /// [`DataError::ImageBytes`] if either side is 0, or the number of bytes is not
    /// `3 · height · width`.
    pub fn try_new(
        height: usize,
        width: usize,
        pixels: impl Into<Cow<'a, [u8]>>,
    ) -> Result<Self, DataError> {
        let pixels = pixels.into();
        let expected = height.checked_mul(width).and_then(|area| area.checked_mul(Self::CHANNELS));
        match expected {
            Some(expected) if expected > 0 && expected == pixels.len() => {
                Ok(Self { height, width, pixels })
            }
            expected => Err(DataError::ImageBytes {
                height,
                width,
                expected: expected.unwrap_or(0),
                got: pixels.len(),
            }),
        }
    }

    /// Rows.
    #[must_use]
    pub const fn height(&self) -> usize {
        self.height
    }

    /// Pixels in a row.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Height and width.
    #[must_use]
    pub const fn size(&self) -> (usize, usize) {
        (self.height, self.width)
    }

    /// The bytes: `[height, width, 3]`.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The bytes, copied only if they were borrowed.
    #[must_use]
    pub fn into_pixels(self) -> Vec<u8> {
        self.pixels.into_owned()
    }

    /// The bytes, borrowed or owned as they are.
    pub(crate) fn into_values(self) -> Cow<'a, [u8]> {
        self.pixels
    }

    /// The same image with owned bytes.
    #[must_use]
    pub fn into_owned(self) -> Image<'static> {
        Image { height: self.height, width: self.width, pixels: self.into_pixels().into() }
    }

    /// Resizes the image by bilinear interpolation, antialiased when it shrinks (each output pixel
    /// averages the area it covers).
    ///
    /// An image that already has this size is returned unchanged.
    ///
    /// # Accuracy
    /// Within one of 255 levels of the f64 triangle filter for a halved image; see the tests.
    ///
    /// # Panics
    /// If `height` or `width` is 0 or does not fit 32 bits.
    ///
    /// # Example
    /// ```
    /// use updraft_data::Image;
    ///
    /// let image = Image::try_new(8, 8, vec![200; 8 * 8 * 3])?.resize(4, 2);
    /// assert_eq!(image.size(), (4, 2));
    /// assert!(image.pixels().iter().all(|&level| level == 200));
    /// # Ok::<(), updraft_data::DataError>(())
    /// ```
    #[must_use]
    pub fn resize(self, height: usize, width: usize) -> Image<'a> {
        assert!(height > 0 && width > 0, "an image cannot be resized to {width}x{height}");
        if (height, width) == self.size() {
            return self;
        }
        self.resampled(None, height, width)
    }

    /// Resizes the image, as [`resize`](Self::resize) does, without changing the ratio of its sides,
    /// and cuts out the center.
    ///
    /// The resized image is the smallest of at least `factor · height` rows and `factor · width`
    /// columns. For 224 × 224 and a factor of 1.143, its shorter side has 256 pixels.
    ///
    /// # Accuracy
    /// Within one of 255 levels of resizing first and cutting then; see the tests.
    ///
    /// # Panics
    /// If `height` or `width` is 0 or does not fit 32 bits, or `factor` is not a finite number of at
    /// least 1.
    ///
    /// # Source
    /// The evaluation of torchvision's references: `Resize(256)`, then `CenterCrop(224)`, with the
    /// same rounding of sides and places.
    ///
    /// # Example
    /// ```
    /// use updraft_data::Image;
    ///
    /// // Four columns of 10, eight of 200, four of 10.
    /// let row = [[10_u8; 12].as_slice(), &[200; 24], &[10; 12]].concat();
    /// let image = Image::try_new(8, 16, row.repeat(8))?.center_crop(8, 8, 1.0);
    /// assert_eq!(image.size(), (8, 8));
    /// assert!(image.pixels().iter().all(|&level| level == 200));
    /// # Ok::<(), updraft_data::DataError>(())
    /// ```
    #[must_use]
    pub fn center_crop(self, height: usize, width: usize, factor: f64) -> Image<'a> {
        assert!(height > 0 && width > 0, "an image cannot be cut to {width}x{height}");
        assert!(factor >= 1.0 && factor.is_finite(), "an image cannot be cut with factor {factor}");
        match center_part(self.size(), (height, width), factor) {
            None => self.resize(height, width),
            Some(part) => self.resampled(Some(part), height, width),
        }
    }

    /// A part of the image at another size.
    ///
    /// # Panics
    /// If the part is empty or does not lie in the image, or the size is 0.
    pub(crate) fn crop_resized(self, crop: Crop, height: usize, width: usize) -> Image<'a> {
        self.resampled(Some(crop.part()), height, width)
    }

    fn resampled(self, part: Option<Part>, height: usize, width: usize) -> Image<'a> {
        let mut pixels = vec![0; height * width * Self::CHANNELS];
        buffer_pool::with_resizer(|resizer| {
            resample(resizer, (&self.pixels, self.size()), part, (&mut pixels, (height, width)));
        });
        if let Cow::Owned(old) = self.pixels {
            buffer_pool::keep(old);
        }
        Image { height, width, pixels: pixels.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_number_of_bytes_is_refused() {
        for (height, width, bytes) in [(2, 2, 11), (0, 4, 0), (usize::MAX, 2, 6)] {
            let result = Image::try_new(height, width, vec![0; bytes]);
            assert!(matches!(result, Err(DataError::ImageBytes { .. })), "{height}x{width}");
        }
        assert!(Image::try_new(2, 2, vec![0; 12]).is_ok());
    }

    #[test]
    fn resizing_to_the_same_size_copies_nothing() {
        let bytes = [7; 12];
        let image = Image::try_new(2, 2, &bytes[..]).unwrap().resize(2, 2);
        assert_eq!(image.pixels().as_ptr(), bytes.as_ptr());
    }

    /// The triangle filter of twice the source pixel's width, normalized, in f64.
    fn halved(row: &[f64]) -> Vec<f64> {
        (0..row.len() / 2)
            .map(|out| {
                let center = 2.0 * out as f64 + 1.0;
                let (mut sum, mut weights) = (0.0, 0.0);
                for (at, value) in row.iter().enumerate() {
                    let weight = (1.0 - (at as f64 + 0.5 - center).abs() / 2.0).max(0.0);
                    sum += weight * value;
                    weights += weight;
                }
                sum / weights
            })
            .collect()
    }

    #[test]
    fn halving_averages_the_area_under_a_triangle() {
        let row: Vec<u8> = (0..16_u32).map(|at| (at * at * 37 % 251) as u8).collect();
        let pixels: Vec<u8> = (0..16).flat_map(|_| row.iter().flat_map(|&v| [v, v, v])).collect();
        let image = Image::try_new(16, 16, pixels).unwrap().resize(8, 8);
        let expected = halved(&row.iter().map(|&v| f64::from(v)).collect::<Vec<_>>());
        for (pixel, expected) in image.pixels()[..8 * 3].chunks(3).zip(expected) {
            assert!((f64::from(pixel[1]) - expected).abs() <= 1.0, "{pixel:?} {expected}");
        }
    }
}
