//! The settings of batches of images, and of samples with rasters.

use std::sync::Arc;

use crate::augment::{Augment, Canvas, MixUp, Normalize, NormalizeChannels, PictureCrop};
use crate::digest::Digest;
use crate::error::DataError;
use crate::fault::FaultPolicy;
use crate::random::Random;
use crate::raster::RasterSpec;
use crate::stream::{LastBatch, Order, Part, StreamConfig, Workers};

/// The settings of a [`Loader`](crate::Loader) whose samples are augmented: [`LoaderConfig`] or
/// [`SampleConfig`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BatchConfig<F> {
    /// Order, batches, threads and faults.
    pub stream: StreamConfig,
    /// Random changes to each sample and its target, in this order.
    pub augment: Vec<Arc<dyn Augment>>,
    /// What follows the augmentation.
    pub finish: F,
}

/// The settings of a loader of images.
pub type LoaderConfig = BatchConfig<ImageFinish>;

/// The settings of a loader of samples with rasters.
pub type SampleConfig = BatchConfig<RasterFinish>;

/// What precedes and what follows the augmentation of images; the default maps bytes to `[0, 1]`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ImageFinish {
    /// A random part of every picture, before the augmentation: the pictures may have any sizes.
    pub crop: Option<PictureCrop>,
    /// The normalization.
    pub normalize: Normalize,
    /// Mixing of each image with another of its batch, at the end.
    pub mix_up: Option<MixUp>,
}

/// What follows the augmentation of samples with rasters; the default divides values by
/// [`PixelType::one`](crate::PixelType::one).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RasterFinish {
    /// The normalization of inputs.
    pub normalize: NormalizeChannels,
    /// The normalization of targets that are images.
    pub normalize_target: NormalizeChannels,
}

impl<F: Default> BatchConfig<F> {
    /// As [`StreamConfig::new`], without augmentation.
    #[must_use]
    pub fn new(batch: usize) -> Self {
        Self { stream: StreamConfig::new(batch), augment: Vec::new(), finish: F::default() }
    }
}

impl<F> BatchConfig<F> {
    /// Sets order, batches, threads and faults.
    #[must_use]
    pub fn with_stream(self, stream: StreamConfig) -> Self {
        Self { stream, ..self }
    }

    /// Sets the order of the samples.
    #[must_use]
    pub fn with_order(self, order: Order) -> Self {
        Self { stream: self.stream.with_order(order), ..self }
    }

    /// Sets the seed of order and augmentation.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { stream: self.stream.with_seed(seed), ..self }
    }

    /// Sets what to do with an incomplete last batch.
    #[must_use]
    pub fn with_last(self, last: LastBatch) -> Self {
        Self { stream: self.stream.with_last(last), ..self }
    }

    /// Sets how many threads prepare batches.
    #[must_use]
    pub fn with_workers(self, workers: Workers) -> Self {
        Self { stream: self.stream.with_workers(workers), ..self }
    }

    /// Sets the limit in bytes for batches in flight.
    #[must_use]
    pub fn with_prefetch_bytes(self, bytes: usize) -> Self {
        Self { stream: self.stream.with_prefetch_bytes(bytes), ..self }
    }

    /// Sets the policy for samples that cannot be delivered.
    #[must_use]
    pub fn with_faults(self, faults: FaultPolicy) -> Self {
        Self { stream: self.stream.with_faults(faults), ..self }
    }

    /// Sets which part of every batch is delivered.
    #[must_use]
    pub fn with_part(self, part: Part) -> Self {
        Self { stream: self.stream.with_part(part), ..self }
    }

    /// Sets the random changes to each sample and its target.
    #[must_use]
    pub fn with_augment(self, augment: Vec<Arc<dyn Augment>>) -> Self {
        Self { augment, ..self }
    }

    /// Checks that samples of this kind can be augmented.
    pub(super) fn check_augment(&self, spec: &RasterSpec) -> Result<(), DataError> {
        self.augment.iter().try_for_each(|augment| augment.validate(spec))
    }

    /// Adds the augmentation to a fingerprint.
    fn describe_augment(&self, digest: Digest) -> Digest {
        let digest = digest.number(self.augment.len());
        self.augment.iter().fold(digest, |digest, augment| augment.describe(digest))
    }

    /// Changes the sample on a canvas by the random numbers of one delivery of it.
    pub(super) fn augment_sample(&self, random: &mut Random, canvas: &mut Canvas) {
        for augment in &self.augment {
            augment.apply(random, canvas);
        }
    }
}

impl LoaderConfig {
    /// Sets the normalization.
    #[must_use]
    pub fn with_normalize(mut self, normalize: Normalize) -> Self {
        self.finish.normalize = normalize;
        self
    }

    /// Takes a random part of every picture at one size, before the augmentation. The images of the
    /// source may have any sizes then, such as those of an [`ImageFolder`](crate::ImageFolder).
    #[must_use]
    pub fn with_crop(mut self, crop: PictureCrop) -> Self {
        self.finish.crop = Some(crop);
        self
    }

    /// Mixes each image with another of its batch; then train with
    /// [`soft_labels`](crate::ImageBatch::soft_labels).
    #[must_use]
    pub fn with_mix_up(mut self, mix_up: MixUp) -> Self {
        self.finish.mix_up = Some(mix_up);
        self
    }

    /// Checks the ranges of all settings.
    ///
    /// # Errors
    /// [`DataError::Setting`] naming the setting that is out of range.
    pub fn validate(&self) -> Result<(), DataError> {
        self.stream.validate()?;
        self.finish.crop.map_or(Ok(()), |crop| crop.validate())?;
        self.finish.mix_up.map_or(Ok(()), MixUp::validate)?;
        self.finish.normalize.validate()
    }

    /// Every setting that an image in a batch depends on.
    pub(super) fn describe(&self, digest: Digest) -> Digest {
        let digest = match self.finish.crop {
            Some(crop) => crop.describe(digest),
            None => digest,
        };
        let digest = self.finish.normalize.describe(self.describe_augment(digest));
        match self.finish.mix_up {
            Some(mix_up) => mix_up.describe(digest),
            None => digest.text("no mix up"),
        }
    }
}

impl SampleConfig {
    /// Sets the normalization of inputs.
    #[must_use]
    pub fn with_normalize(mut self, normalize: NormalizeChannels) -> Self {
        self.finish.normalize = normalize;
        self
    }

    /// Sets the normalization of targets that are images.
    #[must_use]
    pub fn with_normalize_target(mut self, normalize: NormalizeChannels) -> Self {
        self.finish.normalize_target = normalize;
        self
    }

    /// Every setting that a sample in a batch depends on.
    pub(super) fn describe(&self, digest: Digest) -> Digest {
        let digest = self.finish.normalize.describe(self.describe_augment(digest));
        self.finish.normalize_target.describe(digest)
    }
}
