//! A source whose images all have one size.

use std::sync::Arc;

use crate::error::DataError;
use crate::image::Image;
use crate::known_contents::KnownContents;
use crate::source::{ImageSource, check_size, derived_state, sized_fingerprint};

/// A source whose images are resized to one size when they are read, as [`Image::resize`] does:
/// photographs of many sizes for a network of one.
///
/// [`CachedImages`](crate::CachedImages) and [`FileImages`](crate::FileImages) resize once and keep
/// the result; this is for sets that are too large for both.
pub struct Resized {
    source: Arc<dyn ImageSource>,
    size: (usize, usize),
}

impl Resized {
    /// Resizes every image of `source` to `height` rows of `width` pixels.
    ///
    /// # Errors
    /// [`DataError::Setting`] for a side that is not from 1 to 65,535.
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use updraft_data::{Cue, GeneratedConfig, GeneratedImages, ImageSource, Resized};
    ///
    /// let images = GeneratedImages::try_new(GeneratedConfig::new(Cue::Both, 16))?;
    /// let images = Resized::try_new(Arc::new(images), 20, 24)?;
    /// assert_eq!(images.read(3)?.size(), (20, 24));
    /// # Ok::<(), updraft_data::DataError>(())
    /// ```
    pub fn try_new(
        source: Arc<dyn ImageSource>,
        height: usize,
        width: usize,
    ) -> Result<Self, DataError> {
        check_size((height, width))?;
        Ok(Self { source, size: (height, width) })
    }
}

impl ImageSource for Resized {
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
        Ok(self.source.read_for(index, self.size)?.resize(height, width))
    }

    fn fingerprint(&self) -> String {
        sized_fingerprint(self.source.as_ref(), Some(self.size))
    }

    fn stored_state(&self) -> String {
        derived_state(&self.fingerprint(), &self.source.stored_state())
    }

    fn known_contents(&self) -> Option<KnownContents> {
        self.source.known_contents()
    }
}
