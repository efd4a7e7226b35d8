//! Normalization of a volume by its own statistics, channel by channel.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::augment::append_raster;
use crate::digest::Digest;
use crate::error::DataError;
use crate::kernels::Affine;
use crate::pixels::PixelType;
use crate::raster::{Raster, RasterSpec};
use crate::volume::source::check_region;
use crate::volume::{ChannelStatistics, Region, VolumeSource, VolumeSpec, volume_statistics};

/// The normalization of each channel of a volume by its own statistics.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum VolumeScale {
    /// None: the values as f32.
    #[default]
    None,
    /// `value / one`, with the largest value of u8 and u16 as `one`, and 1 for f32.
    Unit,
    /// `(value − mean) / std`; 0 for a channel with equal values.
    ZScore,
    /// `(value − low) / (high − low)` with two percentiles, not clamped; `value − low` for a
    /// channel where they are equal.
    Percentile {
        /// The percentile that becomes 0; 0 to 100.
        low: f64,
        /// The percentile that becomes 1; above `low`, at most 100.
        high: f64,
    },
}

impl VolumeScale {
    /// Checks the ranges of all settings.
    ///
    /// # Errors
    /// [`DataError::Setting`] for percentiles out of their range.
    pub fn validate(&self) -> Result<(), DataError> {
        let Self::Percentile { low, high } = *self else { return Ok(()) };
        let refuse = |name, value: f64, expected| {
            Err(DataError::Setting { name, value: value.to_string(), expected })
        };
        match (low, high) {
            _ if !(0.0..100.0).contains(&low) => {
                refuse("percentile.low", low, "at least 0 and below 100".to_owned())
            }
            _ if !(low < high && high <= 100.0) => {
                let expected = format!("above the lower percentile, {low}, and at most 100");
                refuse("percentile.high", high, expected)
            }
            _ => Ok(()),
        }
    }

    /// The offset and the divisor of a channel's values.
    fn numbers(self, channel: &ChannelStatistics) -> (f64, f64) {
        let (shift, range) = match self {
            Self::None | Self::Unit => (0.0, 1.0),
            Self::ZScore => (channel.mean, channel.std),
            Self::Percentile { low, high } => {
                let low = channel.percentile(low);
                (low, channel.percentile(high) - low)
            }
        };
        (shift, if range > 0.0 { range } else { 1.0 })
    }

    pub(crate) fn describe(self, digest: Digest) -> Digest {
        match self {
            Self::None => digest.text("none"),
            Self::Unit => digest.text("unit"),
            Self::ZScore => digest.text("z-score"),
            Self::Percentile { low, high } => digest.text(&format!("percentile {low} {high}")),
        }
    }
}

/// Another volume with each channel normalized by its own statistics, as f32.
pub struct ScaledVolume {
    source: Arc<dyn VolumeSource>,
    spec: VolumeSpec,
    scale: VolumeScale,
    affine: Vec<Affine>,
}

impl ScaledVolume {
    /// Reads a volume once, or twice if it is f32, to compute its statistics.
    ///
    /// # Errors
    /// As [`VolumeScale::validate`] and [`volume_statistics`].
    pub fn try_new(source: Arc<dyn VolumeSource>, scale: VolumeScale) -> Result<Self, DataError> {
        scale.validate()?;
        let mut spec = *source.spec();
        let numbers: Vec<(f64, f64)> = match scale {
            VolumeScale::None => vec![(0.0, 1.0); spec.raster.channels],
            VolumeScale::Unit => {
                vec![(0.0, spec.raster.pixel_type.one().into()); spec.raster.channels]
            }
            scale => {
                let channels = volume_statistics(&*source)?;
                channels.iter().map(|channel| scale.numbers(channel)).collect()
            }
        };
        let affine = numbers.into_iter().map(|(shift, range)| Affine {
            scale: (1.0 / range) as f32,
            shift: (-shift / range) as f32,
        });
        spec.raster.pixel_type = PixelType::F32;
        Ok(Self { affine: affine.collect(), source, spec, scale })
    }

    /// The scale and shift of a channel: `value · scale + shift`.
    ///
    /// # Panics
    /// If there is no such channel.
    #[must_use]
    pub fn map(&self, channel: usize) -> (f32, f32) {
        (self.affine[channel].scale, self.affine[channel].shift)
    }
}

impl VolumeSource for ScaledVolume {
    fn name(&self) -> String {
        self.source.name()
    }

    fn spec(&self) -> &VolumeSpec {
        &self.spec
    }

    fn read(&self, region: &Region) -> Result<Raster<'static>, DataError> {
        check_region(&self.spec, region);
        let raster = self.source.read(region)?;
        let mut planes = Vec::with_capacity(raster.pixels().len());
        append_raster(&raster, &self.affine, &mut planes);
        let RasterSpec { channels, .. } = self.spec.raster;
        Raster::from_planes(channels, &self.spec.of_region(region).sides(), planes)
    }

    fn fingerprint(&self) -> String {
        let digest = Digest::new("updraft scaled volume").text(&self.source.fingerprint());
        let digest = self.scale.describe(digest);
        // Changed values of a file are noticed where they alter the statistics.
        let of_channel = |digest: Digest, by: &Affine| digest.float(by.scale).float(by.shift);
        self.affine.iter().fold(digest, of_channel).hex()
    }

    fn is_in_memory(&self) -> bool {
        self.source.is_in_memory()
    }
}
