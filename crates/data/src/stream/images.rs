//! From images to batches: read, augmented, normalized.

use std::sync::Arc;

use crate::augment::{Canvas, MixUp};
use crate::batch::{ImageBatch, Mix};
use crate::digest::Digest;
use crate::error::DataError;
use crate::guard::guarded;
use crate::image::Image;
use crate::kernels::{Affine, Path, append_planes};
use crate::random::{Purpose, Random};
use crate::source::{ImageSource, place};
use crate::stream::collate::{Collate, Draw};
use crate::stream::image_config::LoaderConfig;

/// Images of one size in batches: what [`Loader::try_new`](crate::Loader::try_new) collates.
pub struct ImageCollate {
    source: Arc<dyn ImageSource>,
    config: LoaderConfig,
    affine: [Affine; Image::CHANNELS],
    size: (usize, usize),
}

impl ImageCollate {
    /// Learns the size of all images from the first one that can be read.
    ///
    /// # Errors
    /// As [`LoaderConfig::validate`]; what is wrong with the first image, unless the policy allows
    /// for it to be left out.
    pub fn try_new(source: Arc<dyn ImageSource>, config: LoaderConfig) -> Result<Self, DataError> {
        config.validate()?;
        let size = first_size(&*source, config.stream.faults.at_most())?;
        let (height, width) = size;
        for augment in &config.augment {
            augment.validate(height.min(width))?;
        }
        let affine = config.normalize.affine();
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
        let digest = Digest::new("updraft images in batches").text(&self.source.fingerprint());
        self.config.describe_images(digest).hex()
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
        let Draw { seed, epoch, index } = draw;
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
            append_planes(Path::detect(), image.pixels(), &self.affine, &mut batch.planes);
        } else {
            canvas.load(&image);
            let mut random = Random::new(Purpose::Augment, seed, epoch, index as u64);
            for augment in &self.config.augment {
                augment.apply(&mut random, canvas);
            }
            append_planes(Path::detect(), canvas.pixels(), &self.affine, &mut batch.planes);
        }
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
        let Some(mix_up) = self.config.mix_up else { return };
        let share = |&index: &usize| mix_up.share(seed, epoch, index);
        let shares: Vec<f32> = batch.indices.iter().map(share).collect();
        MixUp::mix(&mut batch.planes, &shares);
        let mut partner_labels = batch.labels.clone();
        partner_labels.rotate_left(1);
        batch.mix = Some(Mix { shares, partner_labels });
    }
}

/// The size of the first readable image; unreadable ones before it count as left out.
fn first_size(source: &dyn ImageSource, at_most: u64) -> Result<(usize, usize), DataError> {
    let mut first = Err(DataError::Empty);
    for (index, skipped) in (0..source.len()).zip(0..=at_most) {
        let sample = || place(source, index);
        first = match guarded(sample, || source.read(index).map(|image| image.size())) {
            Ok(size) => return Ok(size),
            Err(error) if at_most == 0 => Err(error),
            Err(error) => {
                let (at_most, source) = (skipped, Box::new(error));
                Err(DataError::TooManyFaults { at_most, source })
            }
        };
    }
    first
}
