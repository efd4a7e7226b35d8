//! Random brightness and contrast.

use serde::{Deserialize, Serialize};

use crate::augment::augment_trait::check_range;
use crate::augment::canvas::PixelsMut;
use crate::augment::{Augment, Canvas};
use crate::digest::Digest;
use crate::error::DataError;
use crate::pixels::Element;
use crate::random::Random;
use crate::raster::RasterSpec;

/// Turns each value of a channel into `value · s + t`, with `s` drawn evenly from `1 ± scale` and
/// `t` from `± shift`, separately for each channel; targets are not changed.
///
/// A shift is on the scale on which [`PixelType::one`](crate::PixelType::one) is 1: in standard
/// deviations for f32 after a z-score. u8 and u16 are clamped to their range.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Intensity {
    /// The strongest change of contrast; 0 to 1.
    pub scale: f32,
    /// The strongest change of brightness; 0 to 10.
    pub shift: f32,
}

impl Augment for Intensity {
    fn validate(&self, _: &RasterSpec) -> Result<(), DataError> {
        check_range("intensity.scale", self.scale, 0.0, 1.0)?;
        check_range("intensity.shift", self.shift, 0.0, 10.0)
    }

    fn describe(&self, digest: Digest) -> Digest {
        digest.text("intensity").float(self.scale).float(self.shift)
    }

    fn apply(&self, random: &mut Random, canvas: &mut Canvas) {
        let changes: Vec<(f32, f32)> = (0..canvas.spec().channels)
            .map(|_| {
                let scale = random.between(1.0 - self.scale, 1.0 + self.scale);
                (scale, random.between(-self.shift, self.shift))
            })
            .collect();
        match canvas.pixels_mut() {
            PixelsMut::U8(values) => change(values, &changes),
            PixelsMut::U16(values) => change(values, &changes),
            PixelsMut::F32(values) => change(values, &changes),
        }
    }
}

fn change<T: Element>(values: &mut [T], changes: &[(f32, f32)]) {
    for pixel in values.chunks_exact_mut(changes.len()) {
        for (value, (scale, shift)) in pixel.iter_mut().zip(changes) {
            *value = T::from_f32(value.to_f32() * scale + shift * T::ONE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raster::Raster;
    use crate::sample::SampleTarget;

    #[test]
    fn each_channel_is_scaled_and_shifted_within_its_bounds() {
        let raster = Raster::try_new(2, &[1, 2], vec![0.0_f32, 0.0, 1.0, 1.0]).unwrap();
        for item in 0..50 {
            let mut canvas = Canvas::default();
            canvas.load(&raster, &SampleTarget::None).unwrap();
            let intensity = Intensity { scale: 0.25, shift: 0.5 };
            intensity.apply(&mut Random::for_augment(3, 0, item), &mut canvas);
            let PixelsMut::F32(values) = canvas.pixels_mut() else { panic!("no f32") };
            let [shift, other, ..] = values[..] else { panic!("no values") };
            assert!(shift.abs() <= 0.5 && other.abs() <= 0.5);
            for channel in 0..2 {
                let scale = values[2 + channel] - values[channel];
                assert!((0.75 - 1e-5..=1.25 + 1e-5).contains(&scale), "{scale}");
            }
            assert_ne!(shift, other);
        }
        let mut canvas = Canvas::default();
        let raster = Raster::try_new(1, &[1, 1], vec![250_u8]).unwrap();
        canvas.load(&raster, &SampleTarget::None).unwrap();
        Intensity { scale: 0.0, shift: 0.0 }.apply(&mut Random::for_augment(0, 0, 0), &mut canvas);
        assert_eq!(canvas.raster(), raster);
    }
}
