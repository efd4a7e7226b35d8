//! How samples become batches.

use crate::augment::{Augment, Normalize};
use crate::digest::Digest;
use crate::error::DataError;

/// The order of the samples in an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As in the source, in every epoch.
    #[default]
    Sequential,
    /// Another random order in every epoch.
    Shuffled,
}

/// What becomes of samples that do not fill the last batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastBatch {
    /// A smaller batch.
    #[default]
    Keep,
    /// They are left out of this epoch.
    Drop,
}

/// How many threads prepare batches; the batches are the same for any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Workers {
    /// None if an item takes less than 50 µs on this machine, else one per core.
    #[default]
    Auto,
    /// This many; 0 prepares each batch on the thread that takes it.
    Count(usize),
}

/// The settings of a [`Loader`](crate::Loader).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LoaderConfig {
    /// Samples in a batch, at least 1.
    pub batch: usize,
    /// The order of the samples.
    pub order: Order,
    /// Seeds the order and the augmentation.
    pub seed: u64,
    /// What becomes of an incomplete last batch.
    pub last: LastBatch,
    /// Random changes to each image, in this order.
    pub augment: Vec<Augment>,
    /// From bytes to numbers, after the augmentation.
    pub normalize: Normalize,
    /// Threads that prepare batches.
    pub workers: Workers,
    /// The most bytes of batches that wait to be taken or are in preparation; one batch always
    /// may.
    pub prefetch_bytes: usize,
}

impl LoaderConfig {
    /// Batches of the given size: sequential, nothing dropped or changed, bytes mapped to
    /// `[0, 1]`, workers chosen by measurement, 64 MiB in flight.
    #[must_use]
    pub fn new(batch: usize) -> Self {
        Self {
            batch,
            order: Order::default(),
            seed: 0,
            last: LastBatch::default(),
            augment: Vec::new(),
            normalize: Normalize::default(),
            workers: Workers::default(),
            prefetch_bytes: 64 << 20,
        }
    }

    /// Sets the order of the samples.
    #[must_use]
    pub fn with_order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Sets the seed of order and augmentation.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets what becomes of an incomplete last batch.
    #[must_use]
    pub fn with_last(mut self, last: LastBatch) -> Self {
        self.last = last;
        self
    }

    /// Sets the random changes to each image.
    #[must_use]
    pub fn with_augment(mut self, augment: Vec<Augment>) -> Self {
        self.augment = augment;
        self
    }

    /// Sets the map from bytes to numbers.
    #[must_use]
    pub fn with_normalize(mut self, normalize: Normalize) -> Self {
        self.normalize = normalize;
        self
    }

    /// Sets how many threads prepare batches.
    #[must_use]
    pub fn with_workers(mut self, workers: Workers) -> Self {
        self.workers = workers;
        self
    }

    /// Sets the most bytes of batches in flight.
    #[must_use]
    pub fn with_prefetch_bytes(mut self, bytes: usize) -> Self {
        self.prefetch_bytes = bytes;
        self
    }

    /// Checks every number that has a range.
    ///
    /// # Errors
    /// [`DataError::Setting`] naming the setting that is out of range.
    pub fn validate(&self) -> Result<(), DataError> {
        let at_most = |name, value: usize, most: usize, least: usize| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            let expected = format!("{least} to {most}");
            Err(DataError::Setting { name, value: value.to_string(), expected })
        };
        at_most("batch", self.batch, 1 << 24, 1)?;
        if let Workers::Count(count) = self.workers {
            at_most("workers", count, 1024, 0)?;
        }
        self.normalize.validate()
    }

    /// Everything that the stream of batches depends on; the seed is told apart.
    pub(super) fn describe(&self, digest: Digest) -> Digest {
        let digest = digest
            .number(self.batch)
            .number(self.order as usize)
            .number(self.last as usize)
            .number(self.augment.len());
        let digest = self.augment.iter().fold(digest, |digest, augment| augment.describe(digest));
        self.normalize.describe(digest)
    }
}
