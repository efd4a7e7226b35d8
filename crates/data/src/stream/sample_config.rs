//! The settings of batches of samples with rasters.

use std::sync::Arc;

use crate::augment::{Augment, NormalizeChannels};
use crate::digest::Digest;
use crate::stream::{LastBatch, Order, StreamConfig, Workers};

/// The settings of a [`Loader`](crate::Loader) of samples with rasters.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SampleConfig {
    /// Order, batches, threads and faults.
    pub stream: StreamConfig,
    /// Random changes to each sample and its target, in this order.
    pub augment: Vec<Arc<dyn Augment>>,
    /// The normalization of inputs, after the augmentation.
    pub normalize: NormalizeChannels,
    /// The normalization of targets that are images.
    pub normalize_target: NormalizeChannels,
}

impl SampleConfig {
    /// As [`StreamConfig::new`], without augmentation, and with values divided by
    /// [`PixelType::one`](crate::PixelType::one).
    #[must_use]
    pub fn new(batch: usize) -> Self {
        Self {
            stream: StreamConfig::new(batch),
            augment: Vec::new(),
            normalize: NormalizeChannels::default(),
            normalize_target: NormalizeChannels::default(),
        }
    }

    /// Sets order, batches, threads and faults.
    #[must_use]
    pub fn with_stream(mut self, stream: StreamConfig) -> Self {
        self.stream = stream;
        self
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

    /// Sets how many threads prepare batches.
    #[must_use]
    pub fn with_workers(mut self, workers: Workers) -> Self {
        self.stream.workers = workers;
        self
    }

    /// Sets the random changes to each sample and its target.
    #[must_use]
    pub fn with_augment(mut self, augment: Vec<Arc<dyn Augment>>) -> Self {
        self.augment = augment;
        self
    }

    /// Sets the normalization of inputs.
    #[must_use]
    pub fn with_normalize(mut self, normalize: NormalizeChannels) -> Self {
        self.normalize = normalize;
        self
    }

    /// Sets the normalization of targets that are images.
    #[must_use]
    pub fn with_normalize_target(mut self, normalize: NormalizeChannels) -> Self {
        self.normalize_target = normalize;
        self
    }

    /// Every setting that a sample in a batch depends on.
    pub(super) fn describe_samples(&self, digest: Digest) -> Digest {
        let digest = digest.number(self.augment.len());
        let digest = self.augment.iter().fold(digest, |digest, augment| augment.describe(digest));
        self.normalize_target.describe(self.normalize.describe(digest))
    }
}
