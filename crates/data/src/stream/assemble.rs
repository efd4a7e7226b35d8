//! From sample indices to a batch.

use std::ops::Range;
use std::sync::Arc;

use crate::augment::{Affine, Canvas};
use crate::batch::ImageBatch;
use crate::error::DataError;
use crate::guard::guarded;
use crate::image::Image;
use crate::random::{Purpose, Random};
use crate::source::{ImageSource, place};
use crate::stream::{LastBatch, LoaderConfig, Order};

/// What every worker shares: the source and how its samples become batches.
pub(super) struct Assembler {
    source: Arc<dyn ImageSource>,
    config: LoaderConfig,
    affine: Affine,
    size: (usize, usize),
    samples: usize,
}

impl Assembler {
    pub(super) fn try_new(
        source: Arc<dyn ImageSource>,
        config: LoaderConfig,
    ) -> Result<Self, DataError> {
        let first = || place(&*source, 0);
        let size = guarded(first, || source.read(0).map(|image| image.size()))?;
        let (height, width) = size;
        let smallest = height.min(width);
        for augment in &config.augment {
            augment.validate(smallest)?;
        }
        let (affine, samples) = (Affine::new(&config.normalize), source.len());
        Ok(Self { source, config, affine, size, samples })
    }

    pub(super) const fn config(&self) -> &LoaderConfig {
        &self.config
    }

    pub(super) const fn samples(&self) -> usize {
        self.samples
    }

    pub(super) const fn batches(&self) -> usize {
        match self.config.last {
            LastBatch::Keep => self.samples.div_ceil(self.config.batch),
            LastBatch::Drop => self.samples / self.config.batch,
        }
    }

    /// The bytes of a full batch's images.
    pub(super) fn batch_bytes(&self) -> usize {
        let (height, width) = self.size;
        let samples = self.config.batch.min(self.samples);
        size_of::<f32>() * Image::CHANNELS * height * width * samples
    }

    /// Samples before a batch.
    pub(super) fn position_of(&self, batch: usize) -> u64 {
        (batch * self.config.batch).min(self.samples) as u64
    }

    /// The batch that starts at a position, if one does or if the epoch ends there.
    pub(super) fn batch_at(&self, position: u64) -> Option<usize> {
        let batch = usize::try_from(position).ok()?.div_ceil(self.config.batch);
        (batch <= self.batches() && self.position_of(batch) == position).then_some(batch)
    }

    /// The sample indices of an epoch, in the order of delivery.
    pub(super) fn order(&self, epoch: u64) -> EpochOrder {
        let mut indices: Vec<usize> = (0..self.samples).collect();
        if self.config.order == Order::Shuffled {
            Random::new(Purpose::Order, self.config.seed, epoch, 0).shuffle(&mut indices);
        }
        EpochOrder { epoch, indices }
    }

    /// The batch with the given number, counted from the start of the epoch.
    pub(super) fn batch(
        &self,
        order: &EpochOrder,
        batch: usize,
        canvas: &mut Canvas,
    ) -> Result<ImageBatch, DataError> {
        let samples: Range<usize> =
            batch * self.config.batch..((batch + 1) * self.config.batch).min(self.samples);
        self.assemble(order.epoch, &order.indices[samples], canvas)
    }

    pub(super) fn assemble(
        &self,
        epoch: u64,
        indices: &[usize],
        canvas: &mut Canvas,
    ) -> Result<ImageBatch, DataError> {
        let (height, width) = self.size;
        let per_image = Image::CHANNELS * height * width;
        let mut planes = vec![0.0; per_image * indices.len()];
        let mut labels = Vec::with_capacity(indices.len());
        for (&index, planes) in indices.iter().zip(planes.chunks_exact_mut(per_image)) {
            let sample = || place(&*self.source, index);
            labels.push(guarded(sample, || self.sample(epoch, index, canvas, planes))?);
        }
        Ok(ImageBatch { height, width, planes, labels, indices: indices.to_vec() })
    }

    /// Writes one sample and returns its label.
    fn sample(
        &self,
        epoch: u64,
        index: usize,
        canvas: &mut Canvas,
        planes: &mut [f32],
    ) -> Result<usize, DataError> {
        let image = self.source.read(index)?;
        if image.size() != self.size {
            let (place, got) = (place(&*self.source, index), image.size());
            return Err(DataError::ImageSize { place, expected: self.size, got });
        }
        let (label, classes) = (self.source.label(index), self.source.classes().len());
        if label >= classes {
            let place = place(&*self.source, index);
            return Err(DataError::Label { place, label, classes });
        }
        if self.config.augment.is_empty() {
            self.affine.write(image.pixels(), planes);
            return Ok(label);
        }
        canvas.load(&image);
        let mut random = Random::new(Purpose::Augment, self.config.seed, epoch, index as u64);
        for augment in &self.config.augment {
            augment.apply(&mut random, canvas);
        }
        self.affine.write(canvas.pixels(), planes);
        Ok(label)
    }
}

/// The samples of one epoch in the order of delivery.
pub(super) struct EpochOrder {
    epoch: u64,
    indices: Vec<usize>,
}
