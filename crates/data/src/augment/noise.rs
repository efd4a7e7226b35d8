//! Adding noise.

use serde::{Deserialize, Serialize};

use crate::augment::augment_trait::check_range;
use crate::augment::canvas::PixelsMut;
use crate::augment::{Augment, Canvas};
use crate::digest::Digest;
use crate::error::DataError;
use crate::pixels::Element;
use crate::random::Random;
use crate::raster::RasterSpec;

/// Adds Gaussian-like noise to every value, of a standard deviation drawn evenly from 0 to `std`
/// for each sample; targets are not changed.
///
/// The deviation is on the scale on which [`PixelType::one`](crate::PixelType::one) is 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// The largest standard deviation; 0 to 10.
    pub std: f32,
}

impl Augment for Noise {
    fn validate(&self, _: &RasterSpec) -> Result<(), DataError> {
        check_range("noise.std", self.std, 0.0, 10.0)
    }

    fn describe(&self, digest: Digest) -> Digest {
        digest.text("noise").float(self.std)
    }

    fn apply(&self, random: &mut Random, canvas: &mut Canvas) {
        let std = random.between(0.0, self.std);
        match canvas.pixels_mut() {
            PixelsMut::U8(values) => add(values, std, random),
            PixelsMut::U16(values) => add(values, std, random),
            PixelsMut::F32(values) => add(values, std, random),
        }
    }
}

fn add<T: Element>(values: &mut [T], std: f32, random: &mut Random) {
    for value in values {
        *value = T::from_f32(value.to_f32() + std * T::ONE * random.bell());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raster::Raster;
    use crate::sample::SampleTarget;

    #[test]
    fn noise_has_no_mean_and_at_most_its_deviation() {
        let raster = Raster::try_new(1, &[100, 100], vec![0.0_f32; 10_000]).unwrap();
        let mut deviations = Vec::new();
        for item in 0..10 {
            let mut canvas = Canvas::default();
            canvas.load(&raster, &SampleTarget::None).unwrap();
            Noise { std: 2.0 }.apply(&mut Random::for_augment(3, 0, item), &mut canvas);
            let PixelsMut::F32(values) = canvas.pixels_mut() else { panic!("no f32") };
            let mean = values.iter().sum::<f32>() / 1e4;
            let std = (values.iter().map(|value| value * value).sum::<f32>() / 1e4).sqrt();
            assert!(mean.abs() < 0.08 && std < 2.05, "{mean} {std}");
            deviations.push(std);
        }
        // Drawn evenly from 0 to 2: ten of them below 1 happens once in a thousand.
        assert!(deviations.iter().any(|&std| std > 1.0), "{deviations:?}");
    }
}
