//! Caches in memory, within a budget of bytes: of decoded images, and of samples.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::DataError;
use crate::image::Image;
use crate::known_contents::KnownContents;
use crate::sample::Sample;
use crate::source::{ImageSource, SampleSource, check_size, derived_state, sized_fingerprint};

/// Items that are kept when first read, until a budget is used up.
///
/// They are never evicted: in epochs that visit every item once, each would be lost before it is
/// needed again. Items beyond the budget are read again each time, to the same bytes.
struct Kept<T> {
    budget_bytes: usize,
    used_bytes: AtomicUsize,
    slots: Vec<OnceLock<T>>,
}

impl<T> Kept<T> {
    fn new(items: usize, budget_bytes: usize) -> Self {
        let slots = (0..items).map(|_| OnceLock::new()).collect();
        Self { budget_bytes, used_bytes: AtomicUsize::new(0), slots }
    }

    fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    fn get(&self, index: usize) -> Option<&T> {
        self.slots[index].get()
    }

    /// Keeps an item of so many bytes; gives it back if that much of the budget is not left.
    fn keep<G>(&self, index: usize, bytes: usize, item: G, owned: fn(G) -> T) -> Result<&T, G> {
        let take = |used: usize| used.checked_add(bytes).filter(|&used| used <= self.budget_bytes);
        if self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return Err(item);
        }
        if self.slots[index].set(owned(item)).is_err() {
            // Another thread has kept the same item in the meantime.
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        Ok(self.get(index).expect("set by this thread or by the one before it"))
    }
}

/// Images of another source that are decoded when first read and kept until a budget is used up.
///
/// Images are never evicted, and those beyond the budget are decoded again each time.
pub struct CachedImages {
    source: Arc<dyn ImageSource>,
    size: Option<(usize, usize)>,
    kept: Kept<Image<'static>>,
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
        size.map_or(Ok(()), check_size)?;
        let kept = Kept::new(source.len(), budget_bytes);
        Ok(Self { source, size, kept })
    }

    /// The bytes of pixels that are kept now; never above the budget.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.kept.used_bytes()
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
        let kept = match self.kept.get(index) {
            Some(image) => image,
            None => {
                let image = match self.size {
                    Some(size) => self.source.read_for(index, size)?.resize(size.0, size.1),
                    None => self.source.read(index)?,
                };
                match self.kept.keep(index, image.pixels().len(), image, Image::into_owned) {
                    Ok(kept) => kept,
                    Err(image) => return Ok(image),
                }
            }
        };
        Image::try_new(kept.height(), kept.width(), kept.pixels())
    }

    fn fingerprint(&self) -> String {
        sized_fingerprint(self.source.as_ref(), self.size)
    }

    fn stored_state(&self) -> String {
        derived_state(&self.fingerprint(), &self.source.stored_state())
    }

    fn known_contents(&self) -> Option<KnownContents> {
        self.source.known_contents()
    }
}

/// Samples of another set, with their targets, that are kept when first read until a budget is used
/// up, as with [`CachedImages`]. The fingerprint is that of the other set.
pub struct CachedSamples {
    source: Arc<dyn SampleSource>,
    kept: Kept<Sample<'static>>,
}

impl CachedSamples {
    /// Keeps at most `budget_bytes` bytes of rasters and targets.
    #[must_use]
    pub fn new(source: Arc<dyn SampleSource>, budget_bytes: usize) -> Self {
        let kept = Kept::new(source.len(), budget_bytes);
        Self { source, kept }
    }

    /// The bytes that are kept now; never above the budget.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.kept.used_bytes()
    }
}

impl SampleSource for CachedSamples {
    fn len(&self) -> usize {
        self.source.len()
    }

    fn name(&self, index: usize) -> String {
        self.source.name(index)
    }

    fn read(&self, index: usize) -> Result<Sample<'_>, DataError> {
        if let Some(sample) = self.kept.get(index) {
            return Ok(sample.borrowed());
        }
        let sample = self.source.read(index)?;
        match self.kept.keep(index, sample.bytes(), sample, Sample::into_owned) {
            Ok(kept) => Ok(kept.borrowed()),
            Err(sample) => Ok(sample),
        }
    }

    fn fingerprint(&self) -> String {
        self.source.fingerprint()
    }

    fn stored_state(&self) -> String {
        self.source.stored_state()
    }
}
