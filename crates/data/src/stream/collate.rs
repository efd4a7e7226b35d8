//! What a loader asks of a set of samples to make batches of them.

use crate::error::{DataError, Place};

/// A set of samples and how they become batches, by several threads at once.
///
/// What [`add`](Self::add) does is a function of its [`Draw`]: the same for every call and thread.
/// An implementation that panics is reported as an error that names the sample.
pub trait Collate: Send + Sync + 'static {
    /// Some samples, ready for a model.
    type Batch: Send + 'static;

    /// Working memory that a thread keeps from sample to sample.
    type Scratch: Default;

    /// How many samples there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a message calls a sample: its file, or how it was made.
    fn name(&self, index: usize) -> String;

    /// A SHA-256, as 64 hexadecimal digits, of the set: equal for equal sets.
    fn fingerprint(&self) -> String;

    /// A SHA-256, as 64 hexadecimal digits, of every setting that a batch depends on besides
    /// order, seed and size: augmentation, normalization. Nothing where there are none.
    fn settings_fingerprint(&self) -> String {
        String::new()
    }

    /// The bytes that one sample takes in a batch.
    fn sample_bytes(&self) -> usize;

    /// A batch without samples, with room for `samples`.
    fn begin(&self, samples: usize) -> Self::Batch;

    /// Appends one sample.
    ///
    /// # Errors
    /// What is wrong with this sample; [`truncate`](Self::truncate) undoes what was written.
    fn add(
        &self,
        draw: Draw,
        scratch: &mut Self::Scratch,
        batch: &mut Self::Batch,
    ) -> Result<(), DataError>;

    /// Receives the sample that is added after the current one: its memory may be asked for, so that it
    /// is there in time. Nothing, unless reading it is what a sample costs.
    fn announce(&self, next: usize) {
        let _ = next;
    }

    /// Cuts a batch back to its first samples, after an [`add`](Self::add) that failed or
    /// panicked.
    fn truncate(&self, batch: &mut Self::Batch, samples: usize);

    /// Completes a batch when all its samples are in: nothing, unless samples change each other.
    fn finish(&self, seed: u64, epoch: u64, batch: &mut Self::Batch) {
        let _ = (seed, epoch, batch);
    }
}

/// One delivery of one sample; whatever is random about it is a function of these three.
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
