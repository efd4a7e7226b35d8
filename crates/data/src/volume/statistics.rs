//! Mean, standard deviation and percentiles of each channel of a volume.

use serde::{Deserialize, Serialize};

use crate::error::{DataError, VolumeError};
use crate::pixels::{Element, PixelType, Pixels};
use crate::volume::VolumeSource;
use crate::volume::source::passes;

/// Statistics of one channel over all frames of a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChannelStatistics {
    /// The mean.
    pub mean: f64,
    /// The population standard deviation (divided by the number of values).
    pub std: f64,
    /// The least value.
    pub least: f32,
    /// The greatest value.
    pub greatest: f32,
    /// Cumulative counts per bin: exact for u8 and u16; for f32 in steps of 1/65,535 of the range.
    bins: Vec<u64>,
    /// The value of the first bin, and the step from one to the next.
    scale: (f64, f64),
}

/// Bytes read at once.
const PASS_BYTES: usize = 8 << 20;

const BINS: usize = 1 << 16;

impl ChannelStatistics {
    /// The percentile of the values: linear between the two values around position `percent / 100 ·
    /// (n − 1)`, as in `numpy.percentile`.
    ///
    /// # Panics
    /// If `percent` is not 0 to 100.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        assert!((0.0..=100.0).contains(&percent), "{percent} percent");
        let count = self.bins.last().copied().unwrap_or(0);
        let place = percent / 100.0 * count.saturating_sub(1) as f64;
        let value = |rank: u64| {
            let bin = self.bins.partition_point(|&up_to| up_to <= rank);
            self.scale.0 + self.scale.1 * bin.min(self.bins.len() - 1) as f64
        };
        let first = place.floor();
        let (low, high) = (value(first as u64), value((first as u64 + 1).min(count.max(1) - 1)));
        low + (high - low) * (place - first)
    }
}

/// Accumulates one channel.
struct Sums {
    count: u64,
    sum: f64,
    squares: f64,
    least: f32,
    greatest: f32,
}

/// Computes the statistics of each channel, reading the volume in pieces; an f32 volume is read
/// twice.
///
/// # Errors
/// As [`VolumeSource::read`]; [`VolumeError::Field`] for values that are not finite.
pub fn volume_statistics(source: &dyn VolumeSource) -> Result<Vec<ChannelStatistics>, DataError> {
    let spec = source.spec();
    let channels = spec.raster.channels;
    let is_float = spec.raster.pixel_type == PixelType::F32;
    let fresh = || Sums {
        count: 0,
        sum: 0.0,
        squares: 0.0,
        least: f32::INFINITY,
        greatest: f32::NEG_INFINITY,
    };
    let mut sums: Vec<Sums> = (0..channels).map(|_| fresh()).collect();
    let mut bins = vec![vec![0_u64; BINS]; channels];
    for region in passes(spec, PASS_BYTES) {
        let raster = source.read(&region)?;
        match raster.pixels() {
            Pixels::U8(values) => count(values, &mut bins),
            Pixels::U16(values) => count(values, &mut bins),
            Pixels::F32(values) => {
                for pixel in values.chunks_exact(channels) {
                    pixel.iter().zip(&mut sums).for_each(|(&value, sums)| sums.add(value));
                }
            }
        }
    }
    if is_float {
        if sums.iter().any(|sums| !sums.sum.is_finite()) {
            return Err(VolumeError::Field {
                path: source.name().into(),
                field: "a value".to_owned(),
                got: "not finite".to_owned(),
                expected: "finite values; replace them before".to_owned(),
            }
            .into());
        }
        for region in passes(spec, PASS_BYTES) {
            if let Pixels::F32(values) = source.read(&region)?.pixels() {
                for pixel in values.chunks_exact(channels) {
                    for ((&value, sums), bins) in pixel.iter().zip(&sums).zip(&mut bins) {
                        bins[sums.bin(value)] += 1;
                    }
                }
            }
        }
    } else {
        sums = bins.iter().map(|bins| Sums::of_bins(bins)).collect();
    }
    Ok(sums.into_iter().zip(bins).map(|(sums, bins)| sums.finish(bins, is_float)).collect())
}

fn count<T: Element + Into<u16>>(values: &[T], bins: &mut [Vec<u64>]) {
    for pixel in values.chunks_exact(bins.len()) {
        pixel
            .iter()
            .zip(&mut *bins)
            .for_each(|(&value, bins)| bins[usize::from(value.into())] += 1);
    }
}

impl Sums {
    fn add(&mut self, value: f32) {
        self.count += 1;
        self.sum += f64::from(value);
        self.squares += f64::from(value) * f64::from(value);
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
    }

    /// From counts of integers.
    fn of_bins(bins: &[u64]) -> Self {
        let total = |of: fn(f64) -> f64| -> f64 {
            bins.iter().enumerate().map(|(value, &count)| of(value as f64) * count as f64).sum()
        };
        Self {
            count: bins.iter().sum(),
            sum: total(|value| value),
            squares: total(|value| value * value),
            least: bins.iter().position(|&count| count > 0).unwrap_or(0) as f32,
            greatest: bins.iter().rposition(|&count| count > 0).unwrap_or(0) as f32,
        }
    }

    fn bin(&self, value: f32) -> usize {
        let range = f64::from(self.greatest) - f64::from(self.least);
        if range == 0.0 {
            return 0;
        }
        let share = (f64::from(value) - f64::from(self.least)) / range;
        (share * (BINS - 1) as f64).round() as usize
    }

    fn finish(self, mut bins: Vec<u64>, is_float: bool) -> ChannelStatistics {
        let count = self.count.max(1) as f64;
        let mean = self.sum / count;
        let std = (self.squares / count - mean * mean).max(0.0).sqrt();
        let mut sum = 0;
        for bin in &mut bins {
            sum += *bin;
            *bin = sum;
        }
        let (least, greatest) = (self.least, self.greatest);
        let range = f64::from(greatest) - f64::from(least);
        let scale =
            if is_float { (f64::from(least), range / (BINS - 1) as f64) } else { (0.0, 1.0) };
        ChannelStatistics { mean, std, least, greatest, bins, scale }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raster::Raster;
    use crate::volume::Volume;

    fn statistics(raster: Raster<'static>) -> Vec<ChannelStatistics> {
        volume_statistics(&Volume::try_new("v", vec![raster], [None; 3]).unwrap()).unwrap()
    }

    /// `numpy.percentile([0, 1, 2, 3, 4, 10, 20, 30], [0, 1, 50, 99, 100])`, numpy 2.4.6.
    const PERCENTILES: [(f64, f64); 5] =
        [(0.0, 0.0), (1.0, 0.07), (50.0, 3.5), (99.0, 29.3), (100.0, 30.0)];

    #[test]
    fn percentiles_are_those_of_numpy() {
        let values = [0_u16, 1, 2, 3, 4, 10, 20, 30];
        let raster = Raster::try_new(1, &[2, 4], values.to_vec()).unwrap();
        let floats = values.iter().map(|&value| f32::from(value)).collect::<Vec<_>>();
        let floats = Raster::try_new(1, &[2, 4], floats).unwrap();
        for (raster, bound) in [(raster, 1e-12), (floats, 30.0 / 65_535.0)] {
            let channel = &statistics(raster)[0];
            for (percent, expected) in PERCENTILES {
                let got = channel.percentile(percent);
                assert!((got - expected).abs() <= bound, "{percent}: {got} {expected}");
            }
            assert!((channel.mean - 8.75).abs() < 1e-12, "{}", channel.mean);
            // numpy.std of the same.
            assert!((channel.std - 10.108_783_309_577_865).abs() < 1e-9, "{}", channel.std);
        }
    }

    #[test]
    fn each_channel_has_its_own_statistics() {
        let raster = Raster::try_new(2, &[1, 3], vec![1_u8, 100, 2, 100, 3, 100]).unwrap();
        let channels = statistics(raster);
        assert_eq!((channels[0].mean, channels[1].mean, channels[1].std), (2.0, 100.0, 0.0));
        assert_eq!((channels[0].least, channels[0].greatest), (1.0, 3.0));
    }
}
