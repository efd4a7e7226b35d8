//! A source whose images are the centers of another one's.

use std::sync::Arc;

use crate::center_crop::least_size;
use crate::digest::Digest;
use crate::error::DataError;
use crate::image::Image;
use crate::known_contents::KnownContents;
use crate::source::{ImageSource, check_size, derived_state};

/// A source whose images are resized without changing the ratio of their sides and cut to one size,
/// as [`Image::center_crop`] does: the usual evaluation of photographs.
///
/// A cache that reads it keeps the result: [`CachedImages`](crate::CachedImages) of the same size,
/// or [`InMemoryImages`](crate::InMemoryImages).
pub struct CenterCropped {
    source: Arc<dyn ImageSource>,
    size: (usize, usize),
    factor: f64,
}

impl CenterCropped {
    /// The largest factor between a resized image and its center.
    pub const MOST_FACTOR: f64 = 16.0;

    /// Resizes every image of `source` to cover `factor` times `height` rows of `width` pixels, and
    /// cuts out that center.
    ///
    /// # Errors
    /// [`DataError::Setting`] for a side that is not from 1 to 65,535, and for a factor that is not
    /// from 1 to [`MOST_FACTOR`](Self::MOST_FACTOR).
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use updraft_data::{CenterCropped, Cue, GeneratedConfig, GeneratedImages, ImageSource};
    ///
    /// let images = GeneratedImages::try_new(GeneratedConfig::new(Cue::Both, 16))?;
    /// let images = CenterCropped::try_new(Arc::new(images), 20, 24, 1.143)?;
    /// assert_eq!(images.read(3)?.size(), (20, 24));
    /// # Ok::<(), updraft_data::DataError>(())
    /// ```
    pub fn try_new(
        source: Arc<dyn ImageSource>,
        height: usize,
        width: usize,
        factor: f64,
    ) -> Result<Self, DataError> {
        check_size((height, width))?;
        if !(1.0..=Self::MOST_FACTOR).contains(&factor) {
            let expected = format!("1 to {}", Self::MOST_FACTOR);
            return Err(DataError::Setting { name: "factor", value: factor.to_string(), expected });
        }
        Ok(Self { source, size: (height, width), factor })
    }
}

impl ImageSource for CenterCropped {
    fn len(&self) -> usize {
        self.source.len()
    }

    fn classes(&self) -> &[String] {
        self.source.classes()
    }

    fn label(&self, index: usize) -> usize {
        self.source.label(index)
    }

    fn name(&self, index: usize) -> String {
        self.source.name(index)
    }

    fn read(&self, index: usize) -> Result<Image<'_>, DataError> {
        let (height, width) = self.size;
        let image = self.source.read_for(index, least_size(self.size, self.factor))?;
        Ok(image.center_crop(height, width, self.factor))
    }

    fn fingerprint(&self) -> String {
        let (height, width) = self.size;
        let digest = Digest::new("updraft centers of images").text(&self.source.fingerprint());
        digest.number(height).number(width).text(&self.factor.to_string()).hex()
    }

    fn stored_state(&self) -> String {
        derived_state(&self.fingerprint(), &self.source.stored_state())
    }

    fn known_contents(&self) -> Option<KnownContents> {
        self.source.known_contents()
    }
}
