//! A cache of decoded images in memory, within a budget of bytes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::digest::Digest;
use crate::error::DataError;
use crate::image::Image;
use crate::source::{ImageSource, check_size};

/// Images of another source that are decoded when first read and kept until a budget is used up.
///
/// Images are never evicted: in epochs that visit every image once, each would be lost before it is
/// needed again. Images beyond the budget are decoded again each time, to the same bytes.
pub struct CachedImages {
    source: Arc<dyn ImageSource>,
    size: Option<(usize, usize)>,
    budget_bytes: usize,
    used_bytes: AtomicUsize,
    kept: Vec<OnceLock<Image<'static>>>,
}

impl CachedImages {
    /// Keeps at most `budget_bytes` bytes of pixels of `source`, resized to `size` (height, width)
    /// if it is given.
    ///
    /// # Errors
    /// [`DataError::Setting`] for a size without pixels.
    pub fn try_new(
        source: Arc<dyn ImageSource>,
        size: Option<(usize, usize)>,
        budget_bytes: usize,
    ) -> Result<Self, DataError> {
        if let Some(size) = size {
            check_size(size)?;
        }
        let kept = (0..source.len()).map(|_| OnceLock::new()).collect();
        Ok(Self { source, size, budget_bytes, used_bytes: AtomicUsize::new(0), kept })
    }

    /// The bytes of pixels that are kept now; never above the budget.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Reserves a part of the budget, if that much is left.
    fn reserve(&self, bytes: usize) -> bool {
        let take = |used: usize| used.checked_add(bytes).filter(|&used| used <= self.budget_bytes);
        self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

impl ImageSource for CachedImages {
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
        let slot = &self.kept[index];
        if let Some(image) = slot.get() {
            return Image::try_new(image.height(), image.width(), image.pixels());
        }
        let image = match self.size {
            Some(size) => self.source.read_for(index, size)?.resize(size.0, size.1),
            None => self.source.read(index)?,
        };
        let bytes = image.pixels().len();
        if !self.reserve(bytes) {
            return Ok(image);
        }
        if slot.set(image.into_owned()).is_err() {
            // Another thread has cached the same image in the meantime.
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        let image = slot.get().expect("set by this thread or by the one before it");
        Image::try_new(image.height(), image.width(), image.pixels())
    }

    fn fingerprint(&self) -> String {
        match self.size {
            None => self.source.fingerprint(),
            Some((height, width)) => Digest::new("updraft resized images")
                .text(&self.source.fingerprint())
                .number(height)
                .number(width)
                .hex(),
        }
    }
}
