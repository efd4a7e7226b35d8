//! Collating images: read, augmented, normalized.

use std::sync::Arc;

use updraft_simd::Isa;

use crate::augment::{Canvas, MixUp};
use crate::batch::{ImageBatch, Mix};
use crate::digest::Digest;
use crate::error::DataError;
use crate::image::Image;
use crate::kernels::{Affine, append_planes};
use crate::random::Random;
use crate::raster::RasterSpec;
use crate::source::{ImageSource, place};
use crate::stream::batch_config::LoaderConfig;
use crate::stream::collate::{Collate, Draw};
use crate::stream::first::first_readable;

/// Collates images of one size, for [`Loader::try_new`](crate::Loader::try_new).
pub struct ImageCollate {
    source: Arc<dyn ImageSource>,
    config: LoaderConfig,
    affine: [Affine; Image::CHANNELS],
    size: (usize, usize),
}

impl ImageCollate {
    /// Learns the size of all images from the first one that can be read, or from
    /// [`LoaderConfig::with_crop`].
    ///
    /// # Errors
    /// As [`LoaderConfig::validate`]; the error of the first image, unless the policy allows to
    /// skip it.
    pub fn try_new(source: Arc<dyn ImageSource>, config: LoaderConfig) -> Result<Self, DataError> {
        config.validate()?;
        let (samples, at_most) = (0..source.len(), config.stream.faults.at_most());
        let first = first_readable(
            samples,
            at_most,
            |index| place(&*source, index),
            |index| source.read(index).map(|image| image.size()),
        )?;
        let size = config.finish.crop.map_or(first, |crop| (crop.height, crop.width));
        config.check_augment(&RasterSpec::rgb8(size.0, size.1))?;
        let affine = config.finish.normalize.affine();
        Ok(Self { source, config, affine, size })
    }

    const fn values(&self) -> usize {
        Image::CHANNELS * self.size.0 * self.size.1
    }
}

impl Collate for ImageCollate {
    type Batch = ImageBatch;
    type Scratch = Canvas;

    fn len(&self) -> usize {
        self.source.len()
    }

    fn name(&self, index: usize) -> String {
        self.source.name(index)
    }

    fn fingerprint(&self) -> String {
        self.source.fingerprint()
    }

    fn settings_fingerprint(&self) -> String {
        self.config.describe(Digest::new("updraft images in batches")).hex()
    }

    fn is_random(&self) -> bool {
        let finish = &self.config.finish;
        !self.config.augment.is_empty() || finish.crop.is_some() || finish.mix_up.is_some()
    }

    fn sample_bytes(&self) -> usize {
        size_of::<f32>() * self.values()
    }

    fn begin(&self, samples: usize) -> ImageBatch {
        let (height, width) = self.size;
        ImageBatch {
            height,
            width,
            planes: Vec::with_capacity(self.values() * samples),
            labels: Vec::with_capacity(samples),
            indices: Vec::with_capacity(samples),
            mix: None,
        }
    }

    fn add(
        &self,
        draw: Draw,
        canvas: &mut Canvas,
        batch: &mut ImageBatch,
    ) -> Result<(), DataError> {
        let index = draw.index;
        let mut random = Random::for_augment(draw.seed, draw.epoch, index);
        let mut image = self.source.read(index)?;
        if let Some(crop) = self.config.finish.crop {
            image = crop.apply(&mut random, image);
        }
        if image.size() != self.size {
            let (place, got) = (place(&*self.source, index), image.size());
            return Err(DataError::ImageSize { place, expected: self.size, got });
        }
        let (label, classes) = (self.source.label(index), self.source.classes().len());
        if label >= classes {
            let place = place(&*self.source, index);
            return Err(DataError::Label { place, label, classes });
        }
        let mut bytes = image.pixels();
        if !self.config.augment.is_empty() {
            canvas.load_image(&image);
            self.config.augment_sample(&mut random, canvas);
            bytes = canvas.bytes();
        }
        append_planes(Isa::detect().vectors(), bytes, &self.affine, &mut batch.planes);
        batch.labels.push(label);
        batch.indices.push(index);
        Ok(())
    }

    fn truncate(&self, batch: &mut ImageBatch, samples: usize) {
        batch.planes.truncate(self.values() * samples);
        batch.labels.truncate(samples);
        batch.indices.truncate(samples);
    }

    fn finish(&self, seed: u64, epoch: u64, batch: &mut ImageBatch) {
        let Some(mix_up) = self.config.finish.mix_up else { return };
        let share = |&index: &usize| mix_up.share(seed, epoch, index);
        let shares: Vec<f32> = batch.indices.iter().map(share).collect();
        MixUp::mix(&mut batch.planes, &shares);
        let mut partner_labels = batch.labels.clone();
        partner_labels.rotate_left(1);
        batch.mix = Some(Mix { shares, partner_labels });
    }
}
