//! Normalization of any number of channels.

use updraft_simd::Isa;

use crate::augment::normalize::{check_mean, check_std};
use crate::digest::Digest;
use crate::error::DataError;
use crate::kernels::{Affine, append_channels, append_planes, append_values};
use crate::pixels::Pixels;
use crate::raster::{Raster, RasterSpec};

/// Turns each value into `(value / one − mean) / std`, channel by channel, where `one` is
/// [`PixelType::one`](crate::PixelType::one): 255 for u8, 65,535 for u16, 1 for f32.
///
/// The default, with empty lists, is mean 0 and standard deviation 1 for every channel. Divide
/// statistics of raw values by `one` to get these.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NormalizeChannels {
    /// The mean of each channel.
    pub mean: Vec<f32>,
    /// The standard deviation of each channel.
    pub std: Vec<f32>,
}

impl NormalizeChannels {
    /// Checks that there is one value per channel, or none at all, and that all values are in
    /// range.
    ///
    /// # Errors
    /// [`DataError::Setting`] for another count than `channels`, a mean that is not finite, or a
    /// standard deviation that is not finite and above 0.
    pub fn validate(&self, channels: usize) -> Result<(), DataError> {
        check_mean(&self.mean)?;
        check_std(&self.std)?;
        for (name, numbers) in [("normalize.mean", &self.mean), ("normalize.std", &self.std)] {
            if ![0, channels].contains(&numbers.len()) {
                let value = format!("{} numbers", numbers.len());
                let expected = format!("{channels}, one for each channel, or none");
                return Err(DataError::Setting { name, value, expected });
            }
        }
        Ok(())
    }

    /// One normalized raster: `[channels, height, width]` or `[channels, depth, height, width]`.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    ///
    /// # Example
    /// ```
    /// use updraft_data::{NormalizeChannels, Raster};
    ///
    /// let raster = Raster::try_new(2, &[1, 2], vec![0.0_f32, 4.0, 1.0, 5.0])?;
    /// let normalize = NormalizeChannels { mean: vec![1.0, 3.0], std: vec![1.0, 2.0] };
    /// assert_eq!(normalize.planes(&raster)?, [-1.0, 0.0, 0.5, 1.0]);
    /// # Ok::<(), updraft_data::DataError>(())
    /// ```
    pub fn planes(&self, raster: &Raster<'_>) -> Result<Vec<f32>, DataError> {
        self.validate(raster.spec().channels)?;
        let mut planes = Vec::with_capacity(raster.pixels().len());
        append_raster(raster, &self.affine(raster.spec()), &mut planes);
        Ok(planes)
    }

    /// The map of each channel.
    pub(crate) fn affine(&self, spec: &RasterSpec) -> Vec<Affine> {
        let one = f64::from(spec.pixel_type.one());
        let number =
            |numbers: &[f32], channel, default| numbers.get(channel).copied().unwrap_or(default);
        (0..spec.channels)
            .map(|at| Affine::scaled(one, number(&self.mean, at, 0.0), number(&self.std, at, 1.0)))
            .collect()
    }

    pub(crate) fn describe(&self, digest: Digest) -> Digest {
        [&self.mean, &self.std].into_iter().fold(digest, |digest, numbers| {
            numbers.iter().fold(digest.number(numbers.len()), |digest, &n| digest.float(n))
        })
    }
}

/// Appends the channels of a raster as planes, each with its own scale and shift.
pub(crate) fn append_raster(raster: &Raster<'_>, affine: &[Affine], to: &mut Vec<f32>) {
    match (raster.pixels(), affine) {
        (Pixels::U8(values), &[only]) => append_values(Isa::detect().vectors(), values, only, to),
        (Pixels::U8(values), &[red, green, blue]) => {
            append_planes(Isa::detect().vectors(), values, &[red, green, blue], to);
        }
        (Pixels::U8(values), _) => append_channels(values, affine, to),
        (Pixels::U16(values), _) => append_channels(values, affine, to),
        (Pixels::F32(values), _) => append_channels(values, affine, to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_and_number_of_channels_is_the_formula_in_f64() {
        for channels in 1..=5_usize {
            let normalize = NormalizeChannels {
                mean: (0..channels).map(|at| 0.1 * at as f32).collect(),
                std: (0..channels).map(|at| 0.5 + at as f32).collect(),
            };
            let count = channels * 6;
            let whole: Vec<u16> = (0..count).map(|at| (at * 8191 % 65_536) as u16).collect();
            let bytes: Vec<u8> = whole.iter().map(|value| (value >> 8) as u8).collect();
            let floats: Vec<f32> = whole.iter().map(|&value| f32::from(value) - 3e4).collect();
            let rasters = [
                Raster::try_new(channels, &[2, 3], bytes).unwrap(),
                Raster::try_new(channels, &[2, 3], whole).unwrap(),
                Raster::try_new(channels, &[1, 2, 3], floats).unwrap(),
            ];
            for raster in &rasters {
                let values: Vec<f64> = match raster.pixels() {
                    Pixels::U8(values) => values.iter().map(|&v| f64::from(v) / 255.0).collect(),
                    Pixels::U16(values) => {
                        values.iter().map(|&v| f64::from(v) / 65_535.0).collect()
                    }
                    Pixels::F32(values) => values.iter().map(|&v| f64::from(v)).collect(),
                };
                let planes = normalize.planes(raster).unwrap();
                for (at, &got) in planes.iter().enumerate() {
                    let (channel, pixel) = (at / 6, at % 6);
                    let [mean, std] =
                        [normalize.mean[channel], normalize.std[channel]].map(f64::from);
                    let value = values[pixel * channels + channel];
                    let expected = (value - mean) / std;
                    let bound = 2e-6 * (1.0 + value.abs() / std);
                    assert!((f64::from(got) - expected).abs() < bound, "{got} {expected}");
                }
            }
        }
    }

    #[test]
    fn numbers_of_other_channels_are_refused() {
        let message = |mean: &[f32], std: &[f32]| {
            let normalize = NormalizeChannels { mean: mean.to_vec(), std: std.to_vec() };
            normalize.validate(2).unwrap_err().to_string()
        };
        let expected = "expected 2, one for each channel, or none";
        assert_eq!(message(&[0.0], &[]), format!("`normalize.mean` is 1 numbers; {expected}"));
        assert_eq!(message(&[], &[1.0; 3]), format!("`normalize.std` is 3 numbers; {expected}"));
        assert_eq!(
            message(&[], &[1.0, 0.0]),
            "`normalize.std` is 0; expected finite numbers above 0"
        );
        assert!(NormalizeChannels::default().validate(7).is_ok());
    }
}
