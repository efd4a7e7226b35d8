//! Collating samples with rasters: read, augmented with their targets, normalized.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use crate::augment::{Canvas, append_raster, check_sides};
use crate::digest::Digest;
use crate::error::DataError;
use crate::kernels::Affine;
use crate::pixels::{PixelType, Pixels};
use crate::random::Random;
use crate::raster::{Raster, RasterSpec};
use crate::sample::SampleTarget;
use crate::source::{SampleSource, sample_place};
use crate::stream::batch_config::SampleConfig;
use crate::stream::collate::{Collate, Draw};
use crate::stream::first::first_readable;
use crate::tensor_batch::{TargetBatch, TensorBatch};

/// Collates samples of one kind, for [`Loader::from_samples`](crate::Loader::from_samples).
///
/// The input of a batch is `[samples, channels, height, width]` or `[samples, channels, depth,
/// height, width]`, in f32. The targets are absent, classes, values, images of such a shape, or
/// labels without a channel axis.
pub struct SampleCollate {
    source: Arc<dyn SampleSource>,
    config: SampleConfig,
    spec: RasterSpec,
    affine: Vec<Affine>,
    target: TargetSpec,
    target_affine: Vec<Affine>,
}

/// The kind and shape of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetSpec {
    None,
    Class,
    Values(usize),
    Image(RasterSpec),
    Labels(RasterSpec),
}

impl SampleCollate {
    /// Determines the kind of all samples and targets from the first one that can be read.
    ///
    /// # Errors
    /// [`DataError::Setting`] naming a setting that is out of range, [`DataError::Augment`] for a
    /// transform that cannot serve such samples, [`DataError::TargetSides`] for targets that cannot
    /// be augmented with their samples, [`DataError::Sample`] for labels that are not a mask;
    /// [`DataError::Empty`]; the error of the first sample, unless the policy allows to skip it.
    pub fn try_new(source: Arc<dyn SampleSource>, config: SampleConfig) -> Result<Self, DataError> {
        config.stream.validate()?;
        let (first, at_most) = (0..source.len(), config.stream.faults.at_most());
        let (spec, target) = first_readable(
            first,
            at_most,
            |index| sample_place(&*source, index),
            |index| {
                let sample = source.read(index)?;
                let target = TargetSpec::of(&sample.target);
                if let TargetSpec::Labels(labels) = target
                    && (labels.channels != 1 || labels.pixel_type == PixelType::F32)
                {
                    let (place, got) = (sample_place(&*source, index), target.to_string());
                    let expected = "labels of 1 channel of u8 or u16".to_owned();
                    return Err(DataError::Sample { place, expected, got });
                }
                Ok((*sample.raster.spec(), target))
            },
        )?;
        let finish = &config.finish;
        finish.normalize.validate(spec.channels)?;
        config.check_augment(&spec)?;
        if let Some(target) = target.raster()
            && !config.augment.is_empty()
        {
            check_sides(&spec, target)?;
        }
        let mut target_affine = Vec::new();
        if let TargetSpec::Image(image) = &target {
            finish.normalize_target.validate(image.channels)?;
            target_affine = finish.normalize_target.affine(image);
        }
        let affine = finish.normalize.affine(&spec);
        Ok(Self { source, config, spec, affine, target, target_affine })
    }

    /// The common pixel type, channels and sides of all samples.
    #[must_use]
    pub const fn spec(&self) -> &RasterSpec {
        &self.spec
    }

    /// Whether a sample has the kind of the first one.
    fn check(
        &self,
        index: usize,
        raster: &Raster<'_>,
        target: &SampleTarget<'_>,
    ) -> Result<(), DataError> {
        let fault = |expected: String, got: String| {
            let place = sample_place(&*self.source, index);
            Err(DataError::Sample { place, expected: expected + ", as the first sample has", got })
        };
        let target = TargetSpec::of(target);
        if *raster.spec() != self.spec {
            return fault(self.spec.to_string(), raster.spec().to_string());
        }
        if target != self.target {
            return fault(self.target.to_string(), target.to_string());
        }
        Ok(())
    }

    /// Appends the raster of a sample and that of its target, if it has one.
    fn append(&self, raster: &Raster<'_>, target: Option<&Raster<'_>>, batch: &mut TensorBatch) {
        append_raster(raster, &self.affine, &mut batch.values);
        let Some(target) = target else { return };
        match &mut batch.targets {
            TargetBatch::Images { values, .. } => {
                append_raster(target, &self.target_affine, values);
            }
            TargetBatch::Labels { labels, .. } => match target.pixels() {
                Pixels::U8(values) => labels.extend(values.iter().map(|&label| u16::from(label))),
                Pixels::U16(values) => labels.extend_from_slice(values),
                Pixels::F32(_) => unreachable!("refused when the first sample was read"),
            },
            TargetBatch::None | TargetBatch::Classes(_) | TargetBatch::Values { .. } => {}
        }
    }
}

impl Collate for SampleCollate {
    type Batch = TensorBatch;
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
        self.config.describe(Digest::new("updraft samples in batches")).hex()
    }

    fn is_random(&self) -> bool {
        !self.config.augment.is_empty() || self.source.is_random()
    }

    fn sample_bytes(&self) -> usize {
        let target = match self.target {
            TargetSpec::None => 0,
            TargetSpec::Class => size_of::<usize>(),
            TargetSpec::Values(count) => size_of::<f32>() * count,
            TargetSpec::Image(spec) => size_of::<f32>() * count(&spec),
            TargetSpec::Labels(spec) => size_of::<u16>() * count(&spec),
        };
        size_of::<f32>() * count(&self.spec) + target
    }

    fn begin(&self, samples: usize) -> TensorBatch {
        let targets = match self.target {
            TargetSpec::None => TargetBatch::None,
            TargetSpec::Class => TargetBatch::Classes(Vec::with_capacity(samples)),
            TargetSpec::Values(count) => TargetBatch::Values {
                shape: vec![count],
                values: Vec::with_capacity(samples * count),
            },
            TargetSpec::Image(spec) => TargetBatch::Images {
                shape: spec.planar_shape(),
                values: Vec::with_capacity(samples * count(&spec)),
            },
            TargetSpec::Labels(spec) => TargetBatch::Labels {
                shape: spec.sides(),
                labels: Vec::with_capacity(samples * count(&spec)),
            },
        };
        TensorBatch {
            shape: self.spec.planar_shape(),
            values: Vec::with_capacity(samples * count(&self.spec)),
            targets,
            indices: Vec::with_capacity(samples),
        }
    }

    fn add(
        &self,
        draw: Draw,
        canvas: &mut Canvas,
        batch: &mut TensorBatch,
    ) -> Result<(), DataError> {
        let index = draw.index;
        let sample = self.source.draw(draw)?;
        self.check(index, &sample.raster, &sample.target)?;
        if self.config.augment.is_empty() {
            self.append(&sample.raster, sample.target.raster(), batch);
        } else {
            canvas.load(&sample.raster, &sample.target)?;
            let mut random = Random::for_augment(draw.seed, draw.epoch, index);
            self.config.augment_sample(&mut random, canvas);
            self.append(&canvas.raster(), canvas.target().as_ref(), batch);
        }
        match (&sample.target, &mut batch.targets) {
            (SampleTarget::Class(class), TargetBatch::Classes(classes)) => classes.push(*class),
            (SampleTarget::Values(own), TargetBatch::Values { values, .. }) => {
                values.extend_from_slice(own);
            }
            _ => {}
        }
        batch.indices.push(index);
        Ok(())
    }

    fn truncate(&self, batch: &mut TensorBatch, samples: usize) {
        batch.truncate(samples);
    }
}

impl TargetSpec {
    fn of(target: &SampleTarget<'_>) -> Self {
        match target {
            SampleTarget::None => Self::None,
            SampleTarget::Class(_) => Self::Class,
            SampleTarget::Values(values) => Self::Values(values.len()),
            SampleTarget::Image(raster) => Self::Image(*raster.spec()),
            SampleTarget::Labels(raster) => Self::Labels(*raster.spec()),
        }
    }

    const fn raster(&self) -> Option<&RasterSpec> {
        match self {
            Self::Image(spec) | Self::Labels(spec) => Some(spec),
            Self::None | Self::Class | Self::Values(_) => None,
        }
    }
}

impl Display for TargetSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "no target"),
            Self::Class => write!(f, "a class as target"),
            Self::Values(count) => write!(f, "a target of {count} values"),
            Self::Image(spec) => write!(f, "a target image of {spec}"),
            Self::Labels(spec) => write!(f, "target labels of {spec}"),
        }
    }
}

/// The values of an existing raster.
fn count(spec: &RasterSpec) -> usize {
    spec.values().expect("a raster of this kind was read")
}
