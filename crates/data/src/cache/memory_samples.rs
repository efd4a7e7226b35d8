//! A cache of samples in memory, within a budget of bytes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::DataError;
use crate::sample::Sample;
use crate::source::SampleSource;

/// Samples of another set, with their targets, that are kept when first read until a budget is used
/// up.
///
/// Samples are never evicted, and those beyond the budget are read again each time, as with
/// [`CachedImages`](crate::CachedImages). The fingerprint is that of the other set.
pub struct CachedSamples {
    source: Arc<dyn SampleSource>,
    budget_bytes: usize,
    used_bytes: AtomicUsize,
    kept: Vec<OnceLock<Sample<'static>>>,
}

impl CachedSamples {
    /// Keeps at most `budget_bytes` bytes of rasters and targets.
    #[must_use]
    pub fn new(source: Arc<dyn SampleSource>, budget_bytes: usize) -> Self {
        let kept = (0..source.len()).map(|_| OnceLock::new()).collect();
        Self { source, budget_bytes, used_bytes: AtomicUsize::new(0), kept }
    }

    /// The bytes that are kept now; never above the budget.
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

impl SampleSource for CachedSamples {
    fn len(&self) -> usize {
        self.source.len()
    }

    fn name(&self, index: usize) -> String {
        self.source.name(index)
    }

    fn read(&self, index: usize) -> Result<Sample<'_>, DataError> {
        let slot = &self.kept[index];
        if let Some(sample) = slot.get() {
            return Ok(sample.borrowed());
        }
        let sample = self.source.read(index)?;
        let bytes = sample.bytes();
        if !self.reserve(bytes) {
            return Ok(sample);
        }
        if slot.set(sample.into_owned()).is_err() {
            // Another thread has cached the same sample in the meantime.
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        Ok(slot.get().expect("set by this thread or by the one before it").borrowed())
    }

    fn fingerprint(&self) -> String {
        self.source.fingerprint()
    }
}
