//! Normalization of bytes.

use std::array;

use updraft_simd::Isa;

use crate::digest::Digest;
use crate::error::DataError;
use crate::image::Image;
use crate::kernels::{Affine, append_planes};

/// Turns each byte into `(byte / 255 − mean) / std`, channel by channel.
///
/// The default, mean 0 and standard deviation 1, maps to `[0, 1]`.
///
/// # Accuracy
/// Computed as one multiplication and one addition in f32: within 1e-6 · max(1, 1/std) of f64.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normalize {
    /// Mean of red, green and blue, on the scale of 0 to 1.
    pub mean: [f32; 3],
    /// Standard deviation of red, green and blue, on the same scale.
    pub std: [f32; 3],
}

impl Default for Normalize {
    fn default() -> Self {
        Self { mean: [0.0; 3], std: [1.0; 3] }
    }
}

impl Normalize {
    /// Checks the ranges of all values.
    ///
    /// # Errors
    /// [`DataError::Setting`] for a mean that is not finite, or a standard deviation that is not
    /// finite and above 0.
    pub fn validate(&self) -> Result<(), DataError> {
        check_mean(&self.mean)?;
        check_std(&self.std)
    }

    /// One normalized image: `[3, height, width]`, row by row.
    ///
    /// # Example
    /// ```
    /// use updraft_data::{Image, Normalize};
    ///
    /// let image = Image::try_new(1, 2, vec![0, 51, 255, 255, 51, 0])?;
    /// let planes = Normalize::default().planes(&image);
    /// for (plane, expected) in planes.into_iter().zip([0.0, 1.0, 0.2, 0.2, 1.0, 0.0]) {
    ///     assert!((plane - expected).abs() < 1e-6_f32);
    /// }
    /// # Ok::<(), updraft_data::DataError>(())
    /// ```
    #[must_use]
    pub fn planes(&self, image: &Image<'_>) -> Vec<f32> {
        let mut planes = Vec::with_capacity(image.pixels().len());
        append_planes(Isa::detect().vectors(), image.pixels(), &self.affine(), &mut planes);
        planes
    }

    /// The map of each channel.
    pub(crate) fn affine(&self) -> [Affine; 3] {
        array::from_fn(|channel| Affine::normalizing(self.mean[channel], self.std[channel]))
    }

    pub(crate) fn describe(&self, digest: Digest) -> Digest {
        self.mean.iter().chain(&self.std).fold(digest, |digest, &number| digest.float(number))
    }
}

pub(super) fn check_mean(mean: &[f32]) -> Result<(), DataError> {
    let wrong = mean.iter().find(|mean| !mean.is_finite());
    wrong.map_or(Ok(()), |&mean| fault("normalize.mean", mean, "finite numbers"))
}

pub(super) fn check_std(std: &[f32]) -> Result<(), DataError> {
    let wrong = std.iter().find(|std| !(std.is_finite() && **std > 0.0));
    wrong.map_or(Ok(()), |&std| fault("normalize.std", std, "finite numbers above 0"))
}

fn fault(name: &'static str, value: f32, expected: &str) -> Result<(), DataError> {
    Err(DataError::Setting { name, value: value.to_string(), expected: expected.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_within_the_stated_error() {
        let normalize = Normalize { mean: [0.4914, 0.4822, 0.4465], std: [0.247, 0.0625, 2.0] };
        let pixels: Vec<u8> = (0..=255_u8).flat_map(|level| [level; 3]).collect();
        let planes = normalize.planes(&Image::try_new(16, 16, pixels).unwrap());
        for (at, &got) in planes.iter().enumerate() {
            let (channel, level) = (at / 256, (at % 256) as f64);
            let (mean, std) =
                (f64::from(normalize.mean[channel]), f64::from(normalize.std[channel]));
            let expected = (level / 255.0 - mean) / std;
            let bound = 1e-6 * (1.0 / std).max(1.0);
            assert!((f64::from(got) - expected).abs() < bound, "{channel} {level}: {got}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_computed_with_are_refused() {
        let bad = [
            Normalize { mean: [0.0, f32::NAN, 0.0], ..Normalize::default() },
            Normalize { std: [1.0, 1.0, 0.0], ..Normalize::default() },
            Normalize { std: [f32::INFINITY, 1.0, 1.0], ..Normalize::default() },
        ];
        for normalize in bad {
            assert!(matches!(normalize.validate(), Err(DataError::Setting { .. })));
        }
        assert!(Normalize::default().validate().is_ok());
    }
}
