//! The settings of batches of images.

use std::sync::Arc;

use crate::augment::{Augment, MixUp, Normalize};
use crate::digest::Digest;
use crate::error::DataError;
use crate::fault::FaultPolicy;
use crate::stream::{LastBatch, Order, StreamConfig, Workers};

/// The settings of a [`Loader`](crate::Loader) of images.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoaderConfig {
    /// Order, batches and threads.
    pub stream: StreamConfig,
    /// Random changes to each image, in this order.
    pub augment: Vec<Arc<dyn Augment>>,
    /// The normalization, after the augmentation.
    pub normalize: Normalize,
    /// Mixing of each image with another of its batch, at the end.
    pub mix_up: Option<MixUp>,
}

impl LoaderConfig {
    /// As [`StreamConfig::new`], without augmentation, and with bytes mapped to `[0, 1]`.
    #[must_use]
    pub fn new(batch: usize) -> Self {
        let stream = StreamConfig::new(batch);
        Self { stream, augment: Vec::new(), normalize: Normalize::default(), mix_up: None }
    }

    /// Sets the order of the samples.
    #[must_use]
    pub fn with_order(mut self, order: Order) -> Self {
        self.stream.order = order;
        self
    }

    /// Sets the seed of order and augmentation.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.stream.seed = seed;
        self
    }

    /// Sets what to do with an incomplete last batch.
    #[must_use]
    pub fn with_last(mut self, last: LastBatch) -> Self {
        self.stream.last = last;
        self
    }

    /// Sets the random changes to each image.
    #[must_use]
    pub fn with_augment(mut self, augment: Vec<Arc<dyn Augment>>) -> Self {
        self.augment = augment;
        self
    }

    /// Sets the normalization.
    #[must_use]
    pub fn with_normalize(mut self, normalize: Normalize) -> Self {
        self.normalize = normalize;
        self
    }

    /// Mixes each image with another of its batch; then train with
    /// [`soft_labels`](crate::ImageBatch::soft_labels).
    #[must_use]
    pub fn with_mix_up(mut self, mix_up: MixUp) -> Self {
        self.mix_up = Some(mix_up);
        self
    }

    /// Sets how many threads prepare batches.
    #[must_use]
    pub fn with_workers(mut self, workers: Workers) -> Self {
        self.stream.workers = workers;
        self
    }

    /// Sets the limit in bytes for batches in flight.
    #[must_use]
    pub fn with_prefetch_bytes(mut self, bytes: usize) -> Self {
        self.stream.prefetch_bytes = bytes;
        self
    }

    /// Sets the policy for images that cannot be delivered.
    #[must_use]
    pub fn with_faults(mut self, faults: FaultPolicy) -> Self {
        self.stream.faults = faults;
        self
    }

    /// Checks the ranges of all settings.
    ///
    /// # Errors
    /// [`DataError::Setting`] naming the setting that is out of range.
    pub fn validate(&self) -> Result<(), DataError> {
        self.stream.validate()?;
        self.mix_up.map_or(Ok(()), MixUp::validate)?;
        self.normalize.validate()
    }

    /// Every setting that an image in a batch depends on.
    pub(super) fn describe_images(&self, digest: Digest) -> Digest {
        let digest = digest.number(self.augment.len());
        let digest = self.augment.iter().fold(digest, |digest, augment| augment.describe(digest));
        let digest = self.normalize.describe(digest);
        match self.mix_up {
            Some(mix_up) => mix_up.describe(digest),
            None => digest.text("no mix up"),
        }
    }
}
