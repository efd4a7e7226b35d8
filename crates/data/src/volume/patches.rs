//! Random patches of volumes, as samples.

use std::sync::Arc;

use crate::digest::Digest;
use crate::error::{DataError, VolumeError};
use crate::progress::{Progress, ProgressUnit};
use crate::random::{Purpose, Random};
use crate::raster::Raster;
use crate::sample::{Sample, SampleTarget};
use crate::source::SampleSource;
use crate::stream::Draw;
use crate::volume::positions::Positions;
use crate::volume::source::are_labels;
use crate::volume::{
    Foreground, Region, ScaledVolume, Volume, VolumePair, VolumeScale, VolumeSource, VolumeTarget,
};

/// How patches are drawn.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PatchConfig {
    /// Rows and columns, or slices, rows and columns; a patch with two sides is taken from a slice
    /// of a volume.
    pub sides: Vec<usize>,
    /// Patches of each volume in an epoch, at least 1.
    pub per_volume: usize,
    /// Where patches are centered; `None` means anywhere with equal probability.
    pub foreground: Option<Foreground>,
    /// The normalization of inputs.
    pub scale: VolumeScale,
    /// The normalization of targets that are images.
    pub scale_target: VolumeScale,
    /// The number of classes of masks; `None` accepts any labels.
    pub classes: Option<usize>,
    /// The limit in bytes for volumes in memory; the others are read region by region.
    pub memory_bytes: u64,
}

impl PatchConfig {
    /// `per_volume` patches of the given sides: anywhere with equal probability, without
    /// normalization, 4 GiB of memory.
    #[must_use]
    pub fn new(sides: &[usize], per_volume: usize) -> Self {
        Self {
            sides: sides.to_vec(),
            per_volume,
            foreground: None,
            scale: VolumeScale::None,
            scale_target: VolumeScale::None,
            classes: None,
            memory_bytes: 4 << 30,
        }
    }

    /// Sets where patches are centered.
    #[must_use]
    pub const fn with_foreground(mut self, foreground: Foreground) -> Self {
        self.foreground = Some(foreground);
        self
    }

    /// Sets the normalization of inputs and of targets that are images.
    #[must_use]
    pub const fn with_scales(mut self, input: VolumeScale, target: VolumeScale) -> Self {
        (self.scale, self.scale_target) = (input, target);
        self
    }

    /// Sets how many classes masks have.
    #[must_use]
    pub const fn with_classes(mut self, classes: usize) -> Self {
        self.classes = Some(classes);
        self
    }

    /// Sets the limit in bytes for volumes in memory.
    #[must_use]
    pub const fn with_memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    fn validate(&self) -> Result<(), DataError> {
        let fault = |name, value: String, expected: &str| {
            Err(DataError::Setting { name, value, expected: expected.to_owned() })
        };
        if !matches!(self.sides.len(), 2 | 3) || self.sides.contains(&0) {
            return fault("patch", format!("{:?}", self.sides), "2 or 3 sides of at least 1");
        }
        if self.per_volume == 0 || self.per_volume > 1 << 24 {
            return fault("per_volume", self.per_volume.to_string(), "1 to 16777216");
        }
        if let Some(Foreground { share, above }) = self.foreground {
            if !(0.0..=1.0).contains(&share) {
                return fault("foreground.share", share.to_string(), "0 to 1");
            }
            if !above.is_finite() {
                return fault("foreground.above", above.to_string(), "a finite number");
            }
        }
        self.scale.validate()?;
        self.scale_target.validate()
    }

    /// Slices, rows and columns of a patch.
    fn region_sides(&self) -> [usize; 3] {
        match self.sides[..] {
            [height, width] => [1, height, width],
            _ => [self.sides[0], self.sides[1], self.sides[2]],
        }
    }
}

/// Random patches of volumes, at the same position in input and target.
///
/// An epoch has [`PatchConfig::per_volume`] patches of each volume, from any of its frames. The
/// position of a patch is a function of (seed, epoch, index), so the stream is the same for any
/// number of workers and resumes; [`read`](SampleSource::read), which has neither seed nor epoch,
/// uses 0 for both, and so does a cache of such samples. Samples are f32 after a normalization,
/// otherwise of the volumes' type.
pub struct VolumePatches {
    pairs: Vec<VolumePair>,
    positions: Vec<Option<Positions>>,
    config: PatchConfig,
    fingerprint: String,
    /// The voxels of all masks above 0, where they were counted.
    labeled: Option<u64>,
}

impl VolumePatches {
    /// Checks volumes, computes their statistics, and loads them into memory as long as they fit,
    /// in the given order; `progress` is called for each volume.
    ///
    /// # Errors
    /// [`DataError::Empty`] for no volumes; [`DataError::Setting`] naming a setting that is out of
    /// range; [`VolumeError::Field`] for a patch larger than a volume; [`VolumeError::Differs`] for
    /// a target of other sides than its input, volumes with other channels or kinds of target than
    /// the first, and invalid masks; [`VolumeError::Label`] for a label that is not one of the
    /// classes; the error of reading a file.
    pub fn try_new(
        pairs: Vec<VolumePair>,
        config: PatchConfig,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, DataError> {
        config.validate()?;
        if pairs.is_empty() {
            return Err(DataError::Empty);
        }
        let mut digest = Digest::new("updraft volume patches").number(pairs.len());
        for pair in &pairs {
            check_pair(pair, &pairs[0], &config)?;
        }
        let total = pairs.len() as u64;
        let mut labeled = None;
        let (mut left, mut ready, mut positions) = (config.memory_bytes, Vec::new(), Vec::new());
        for pair in pairs {
            let input = scaled(held(pair.input, &mut left)?, config.scale)?;
            let (target, own) = match pair.target {
                VolumeTarget::None => (VolumeTarget::None, None),
                VolumeTarget::Image(target) => {
                    let target = held(target, &mut left)?;
                    let above = config.foreground.map(|foreground| foreground.above);
                    let own = above
                        .map(|above| Positions::scan(target.clone(), above, None))
                        .transpose()?;
                    (VolumeTarget::Image(scaled(target, config.scale_target)?), own)
                }
                VolumeTarget::Labels(target) => {
                    let target = held(target, &mut left)?;
                    let above = config.foreground.map_or(0.0, |foreground| foreground.above);
                    let own = Positions::scan(target.clone(), above, config.classes)?;
                    // Labels are whole numbers.
                    if (0.0..1.0).contains(&above) {
                        *labeled.get_or_insert(0) += own.counts().0;
                    }
                    (VolumeTarget::Labels(target), Some(own))
                }
            };
            digest = digest.text(&input.fingerprint());
            if let Some(target) = target.volume() {
                digest = digest.text(&target.fingerprint());
            }
            if let Some(own) = &own {
                digest = digest.text(&own.counts().0.to_string());
            }
            ready.push(VolumePair { input, target });
            positions.push(own.filter(|_| config.foreground.is_some()));
            progress(Progress { done: ready.len() as u64, total, unit: ProgressUnit::Samples });
        }
        let digest = digest.number(config.per_volume).number(config.sides.len());
        let digest = config.sides.iter().fold(digest, |digest, &side| digest.number(side));
        let digest = config.scale_target.describe(config.scale.describe(digest));
        let digest = match config.foreground {
            None => digest.text("anywhere"),
            Some(Foreground { share, above }) => digest.text("centered").float(share).float(above),
        };
        Ok(Self { pairs: ready, positions, config, fingerprint: digest.hex(), labeled })
    }

    /// The volumes, normalized.
    #[must_use]
    pub fn pairs(&self) -> &[VolumePair] {
        &self.pairs
    }

    /// The number of voxels of all masks whose label is above 0; `None` without masks, or if the
    /// foreground is that of higher labels.
    #[must_use]
    pub const fn labeled_voxels(&self) -> Option<u64> {
        self.labeled
    }

    /// Slices, rows and columns of a patch.
    pub(super) fn region_sides(&self) -> [usize; 3] {
        self.config.region_sides()
    }

    /// A region of a volume with its target.
    pub(super) fn sample(&self, volume: usize, region: &Region) -> Result<Sample<'_>, DataError> {
        let pair = &self.pairs[volume];
        let target = match &pair.target {
            VolumeTarget::None => SampleTarget::None,
            VolumeTarget::Image(volume) => SampleTarget::Image(self.patch(&**volume, region)?),
            VolumeTarget::Labels(volume) => SampleTarget::Labels(self.patch(&**volume, region)?),
        };
        Ok(Sample { raster: self.patch(&*pair.input, region)?, target })
    }

    fn region(&self, draw: Draw) -> Result<Region, DataError> {
        let volume = draw.index / self.config.per_volume;
        let pair = &self.pairs[volume];
        let (spec, sides) = (pair.input.spec(), self.config.region_sides());
        let mut random = Random::new(Purpose::Patch, draw.seed, draw.epoch, draw.index as u64);
        let most = |axis: usize| spec.sides()[axis] - sides[axis];
        if let (Some(foreground), Some(positions)) =
            (self.config.foreground, &self.positions[volume])
        {
            let wants_foreground = random.between(0.0, 1.0) < foreground.share;
            // If there are no voxels of one kind, the other is used.
            let is_foreground = match positions.counts() {
                (0, _) => false,
                (_, 0) => true,
                _ => wants_foreground,
            };
            let (frame, center) = positions.draw(is_foreground, &mut random)?;
            let origin =
                [0, 1, 2].map(|axis| center[axis].saturating_sub(sides[axis] / 2).min(most(axis)));
            return Ok(Region { frame, origin, sides });
        }
        let frame = random.below(spec.frames as u64) as usize;
        let origin = [0, 1, 2].map(|axis| random.below(most(axis) as u64 + 1) as usize);
        Ok(Region { frame, origin, sides })
    }

    /// A patch; for patches with two sides, from one slice of a volume.
    fn patch(
        &self,
        source: &dyn VolumeSource,
        region: &Region,
    ) -> Result<Raster<'static>, DataError> {
        let raster = source.read(region)?;
        if raster.spec().depth.is_some() && self.config.sides.len() == 2 {
            let channels = raster.spec().channels;
            return Raster::try_new(channels, &self.config.sides, raster.into_pixels());
        }
        Ok(raster)
    }
}

impl SampleSource for VolumePatches {
    fn len(&self) -> usize {
        self.pairs.len() * self.config.per_volume
    }

    fn name(&self, index: usize) -> String {
        let (volume, patch) = (index / self.config.per_volume, index % self.config.per_volume);
        format!("patch {patch} of {}", self.pairs[volume].input.name())
    }

    fn read(&self, index: usize) -> Result<Sample<'_>, DataError> {
        self.draw(Draw { seed: 0, epoch: 0, index })
    }

    fn is_random(&self) -> bool {
        true
    }

    fn draw(&self, draw: Draw) -> Result<Sample<'_>, DataError> {
        let volume = draw.index / self.config.per_volume;
        self.sample(volume, &self.region(draw)?)
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }
}

/// Loads the volume into memory, if the limit allows.
fn held(source: Arc<dyn VolumeSource>, left: &mut u64) -> Result<Arc<dyn VolumeSource>, DataError> {
    match source.spec().bytes() {
        Some(bytes) if bytes <= *left && !source.is_in_memory() => {
            *left -= bytes;
            Ok(Arc::new(Volume::load(&*source)?))
        }
        _ => Ok(source),
    }
}

fn scaled(
    source: Arc<dyn VolumeSource>,
    scale: VolumeScale,
) -> Result<Arc<dyn VolumeSource>, DataError> {
    match scale {
        VolumeScale::None => Ok(source),
        scale => Ok(Arc::new(ScaledVolume::try_new(source, scale)?)),
    }
}

/// Whether a pair has the kind of the first one, and a patch fits into it.
fn check_pair(
    pair: &VolumePair,
    first: &VolumePair,
    config: &PatchConfig,
) -> Result<(), VolumeError> {
    let differs = |name: String, got: String, expected: String, other: String| {
        Err(VolumeError::Differs { name, got, expected, other })
    };
    let spec = pair.input.spec();
    for (axis, name) in ["depth", "height", "width"].into_iter().enumerate() {
        let (patch, side) = (config.region_sides()[axis], spec.sides()[axis]);
        if patch > side || (config.sides.len() == 3 && spec.raster.depth.is_none()) {
            return Err(VolumeError::Field {
                path: pair.input.name().into(),
                field: format!("the {name}"),
                got: side.to_string(),
                expected: format!("at least {patch}, as a patch of {:?} has", config.sides),
            });
        }
    }
    let like = |volume: &dyn VolumeSource| {
        (volume.spec().raster.channels, volume.spec().raster.pixel_type)
    };
    let kind = |target: &VolumeTarget| match target {
        VolumeTarget::None => "no target".to_owned(),
        VolumeTarget::Image(target) => format!("a target of {:?}", like(&**target)),
        VolumeTarget::Labels(_) => "labels as target".to_owned(),
    };
    let (got, expected) = (like(&*pair.input), like(&*first.input));
    if got != expected {
        let text = |(channels, pixel_type)| format!("{channels} channels of {pixel_type}");
        return differs(pair.input.name(), text(got), text(expected), first.input.name());
    }
    if kind(&pair.target) != kind(&first.target) {
        let (got, expected) = (kind(&pair.target), kind(&first.target));
        return differs(pair.input.name(), got, expected, first.input.name());
    }
    let Some(target) = pair.target.volume() else {
        if config.foreground.is_some() {
            return Err(VolumeError::Field {
                path: pair.input.name().into(),
                field: "the target".to_owned(),
                got: "none".to_owned(),
                expected: "a target, whose foreground patches are centered on".to_owned(),
            });
        }
        return Ok(());
    };
    let place = |spec: &crate::volume::VolumeSpec| (spec.frames, spec.raster.sides());
    let (got, expected) = (place(target.spec()), place(spec));
    if got != expected {
        let text = |(frames, sides)| format!("{frames} frames of {sides:?}");
        return differs(target.name(), text(got), text(expected), pair.input.name());
    }
    if matches!(pair.target, VolumeTarget::Labels(_)) && !are_labels(target.spec()) {
        return Err(VolumeError::Field {
            path: target.name().into(),
            field: "the mask".to_owned(),
            got: target.spec().raster.to_string(),
            expected: "1 channel of u8 or u16".to_owned(),
        });
    }
    Ok(())
}
