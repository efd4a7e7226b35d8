//! The trait of a set of samples that can be collated into batches.

use crate::error::{DataError, Place};

/// A set of samples that can be collated into batches, by several threads at once.
///
/// What [`add`](Self::add) does is a function of its [`Draw`]: the same for every call and thread.
/// An implementation that panics is reported as an error that names the sample.
pub trait Collate: Send + Sync + 'static {
    /// A batch of images.
    type Batch: Send + 'static;

    /// Buffers that a thread reuses from sample to sample.
    type Scratch: Default;

    /// The number of samples.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of a sample in a message: its file, or how it was made.
    fn name(&self, index: usize) -> String;

    /// A SHA-256, as 64 hexadecimal digits, of the set: equal for equal sets.
    fn fingerprint(&self) -> String;

    /// A SHA-256, as 64 hexadecimal digits, of every setting that a batch depends on besides order,
    /// seed and size: augmentation, normalization. Empty if there are none.
    fn settings_fingerprint(&self) -> String {
        String::new()
    }

    /// Whether a sample depends on seed or epoch, as with augmentation; it does not by default.
    fn is_random(&self) -> bool {
        false
    }

    /// The same samples before anything is drawn for an epoch. Samples that stay on a device are
    /// placed there in this form, and `DeviceSamples::select` applies what is drawn.
    ///
    /// `None`, the default, if only [`add`](Self::add) can draw: random samples cannot stay on a
    /// device then.
    fn undrawn(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// The size of one sample in a batch, in bytes.
    fn sample_bytes(&self) -> usize;

    /// An empty batch with capacity for `samples`.
    fn begin(&self, samples: usize) -> Self::Batch;

    /// Appends one sample.
    ///
    /// # Errors
    /// The error of this sample; [`truncate`](Self::truncate) removes what was written.
    fn add(
        &self,
        draw: Draw,
        scratch: &mut Self::Scratch,
        batch: &mut Self::Batch,
    ) -> Result<(), DataError>;

    /// Called with the sample that is added after the current one, to prefetch its memory. Does
    /// nothing by default; useful if reading memory dominates the cost of a sample.
    fn announce(&self, next: usize) {
        let _ = next;
    }

    /// Truncates a batch to its first samples, after an [`add`](Self::add) that failed or panicked.
    fn truncate(&self, batch: &mut Self::Batch, samples: usize);

    /// Completes a batch after all samples are added, for changes across samples; does nothing by
    /// default.
    fn finish(&self, seed: u64, epoch: u64, batch: &mut Self::Batch) {
        let _ = (seed, epoch, batch);
    }
}

/// One delivery of one sample; all randomness is a function of these three values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// The seed of the stream.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// The sample's index in its set.
    pub index: usize,
}

/// A sample, as a message names it.
pub(super) fn place(samples: &impl Collate, index: usize) -> Place {
    Place { name: samples.name(index), index: Some(index) }
}
