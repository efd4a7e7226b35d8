//! Changing brightness, contrast, saturation and hue.

use serde::{Deserialize, Serialize};

use crate::augment::augment_trait::check_range;
use crate::augment::canvas::PixelsMut;
use crate::augment::{Augment, Canvas};
use crate::digest::Digest;
use crate::error::DataError;
use crate::image::Image;
use crate::pixels::Element;
use crate::random::Random;
use crate::raster::RasterSpec;

/// Changes brightness, contrast, saturation and hue, in this order, each by a random amount.
///
/// With `b`, `c` and `s` drawn evenly from `1 ± brightness`, `1 ± contrast` and `1 ± saturation`,
/// on the scale of 0 to 1 and clamped to it after each step: `x · b`; `m + c · (x − m)` with the
/// mean gray `m` of the picture; `g + s · (x − g)` with the pixel's gray `g = 0.299 R + 0.587 G +
/// 0.114 B` (BT.601). The hue is rotated by an angle drawn evenly from `± hue` turns, about the
/// gray axis in the YIQ plane at unchanged gray.
///
/// It supports samples of three channels, red, green and blue, and does not change targets. f32
/// values must be on the scale of 0 to 1, so normalize later.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ColorJitter {
    /// The strongest change of brightness; 0 to 1.
    pub brightness: f32,
    /// The strongest change of contrast; 0 to 1.
    pub contrast: f32,
    /// The strongest change of saturation; 0 to 1.
    pub saturation: f32,
    /// The largest rotation of the hue, in turns; 0 to 0.5.
    pub hue: f32,
}

/// Gray of red, green and blue (ITU-R BT.601).
const GRAY: [f32; 3] = [0.299, 0.587, 0.114];

/// One draw of all four changes.
struct Changes {
    brightness: f32,
    contrast: f32,
    saturation: f32,
    turns: f32,
}

impl Augment for ColorJitter {
    fn validate(&self, sample: &RasterSpec) -> Result<(), DataError> {
        check_range("color_jitter.brightness", self.brightness, 0.0, 1.0)?;
        check_range("color_jitter.contrast", self.contrast, 0.0, 1.0)?;
        check_range("color_jitter.saturation", self.saturation, 0.0, 1.0)?;
        check_range("color_jitter.hue", self.hue, 0.0, 0.5)?;
        if sample.channels == Image::CHANNELS {
            return Ok(());
        }
        let (expected, got) = ("3 channels: red, green and blue", sample.to_string());
        Err(DataError::Augment { transform: "color_jitter", expected, got })
    }

    fn describe(&self, digest: Digest) -> Digest {
        let strengths = [self.brightness, self.contrast, self.saturation, self.hue];
        strengths.into_iter().fold(digest.text("color jitter"), Digest::float)
    }

    fn apply(&self, random: &mut Random, canvas: &mut Canvas) {
        let mut factor = |most: f32| random.between(1.0 - most, 1.0 + most);
        let changes = Changes {
            brightness: factor(self.brightness),
            contrast: factor(self.contrast),
            saturation: factor(self.saturation),
            turns: random.between(-self.hue, self.hue),
        };
        changes.apply(canvas);
    }
}

impl Changes {
    fn apply(&self, canvas: &mut Canvas) {
        match canvas.pixels_mut() {
            PixelsMut::U8(values) => self.change(values),
            PixelsMut::U16(values) => self.change(values),
            PixelsMut::F32(values) => self.change(values),
        }
    }

    /// On the scale of bytes, whatever the type of the values is.
    fn change<T: Element>(&self, values: &mut [T]) {
        let to_level = |value: T| value.to_f32() * (255.0 / T::ONE);
        let to_value = |level: f32| T::from_f32(level * (T::ONE / 255.0));
        let bright = |level: f32| (level * self.brightness).min(255.0);
        let (pixels, _) = values.as_chunks_mut::<{ Image::CHANNELS }>();
        // Summed in f64: precise enough that the order of addition cannot change a byte.
        let sum: f64 =
            pixels.iter().map(|pixel| f64::from(gray(pixel.map(|v| bright(to_level(v)))))).sum();
        let mean = (sum / pixels.len() as f64) as f32;
        let turn = hue_matrix(self.turns);
        for pixel in pixels {
            let levels = pixel.map(|value| bright(to_level(value)));
            let levels = levels.map(|level| cut(mean + self.contrast * (level - mean)));
            let own = gray(levels);
            let levels = levels.map(|level| cut(own + self.saturation * (level - own)));
            let turned = turn.map(|weights| {
                cut(weights.iter().zip(levels).map(|(weight, level)| weight * level).sum())
            });
            *pixel = turned.map(to_value);
        }
    }
}

fn gray(levels: [f32; 3]) -> f32 {
    GRAY[0] * levels[0] + GRAY[1] * levels[1] + GRAY[2] * levels[2]
}

fn cut(level: f32) -> f32 {
    level.clamp(0.0, 255.0)
}

/// RGB to RGB with the hue rotated: to YIQ, rotated in the plane of I and Q, and back.
///
/// `T⁻¹ · R · T`, with T the NTSC matrix of 1953 (FCC 47 CFR 73.682) and its inverse computed.
fn hue_matrix(turns: f32) -> [[f32; 3]; 3] {
    const TO_YIQ: [[f64; 3]; 3] =
        [[0.299, 0.587, 0.114], [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]];
    let (sin, cos) = (f64::from(turns) * std::f64::consts::TAU).sin_cos();
    let turn = [[1.0, 0.0, 0.0], [0.0, cos, -sin], [0.0, sin, cos]];
    product(product(inverse(TO_YIQ), turn), TO_YIQ).map(|row| row.map(|weight| weight as f32))
}

fn product(a: [[f64; 3]; 3], b: [[f64; 3]; 3]) -> [[f64; 3]; 3] {
    a.map(|row| [0, 1, 2].map(|column| (0..3).map(|at| row[at] * b[at][column]).sum()))
}

/// By cofactors.
fn inverse(m: [[f64; 3]; 3]) -> [[f64; 3]; 3] {
    let cofactor = |row: usize, column: usize| {
        let (r, s) = ((row + 1) % 3, (row + 2) % 3);
        let (c, d) = ((column + 1) % 3, (column + 2) % 3);
        m[r][c] * m[s][d] - m[r][d] * m[s][c]
    };
    let determinant: f64 = (0..3).map(|column| m[0][column] * cofactor(0, column)).sum();
    [0, 1, 2].map(|row| [0, 1, 2].map(|column| cofactor(column, row) / determinant))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    const NOTHING: Changes =
        Changes { brightness: 1.0, contrast: 1.0, saturation: 1.0, turns: 0.0 };

    fn changed(changes: &Changes, pixels: &[u8]) -> Vec<u8> {
        let mut canvas = Canvas::default();
        let image = Image::try_new(1, pixels.len() / 3, pixels).unwrap();
        canvas.load_image(&image);
        changes.apply(&mut canvas);
        canvas.bytes().to_vec()
    }

    #[test]
    fn each_change_is_as_by_hand() {
        let pixels = [200, 100, 50, 10, 20, 30];
        assert_eq!(changed(&NOTHING, &pixels), pixels);
        let half = Changes { brightness: 0.5, ..NOTHING };
        assert_eq!(changed(&half, &pixels), [100, 50, 25, 5, 10, 15]);
        // Grays 124.2 and 18.15, mean 71.175.
        let flat = Changes { contrast: 0.0, ..NOTHING };
        assert_eq!(changed(&flat, &pixels), [71; 6]);
        let gray = Changes { saturation: 0.0, ..NOTHING };
        assert_eq!(changed(&gray, &pixels), [124, 124, 124, 18, 18, 18]);
        let double = Changes { saturation: 2.0, ..NOTHING };
        assert_eq!(changed(&double, &pixels), [255, 76, 0, 2, 22, 42]);
    }

    #[test]
    fn a_turned_hue_keeps_gray_and_brightness() {
        for turns in [0.1, 0.25, -0.4] {
            let turn = Changes { turns, ..NOTHING };
            assert_eq!(changed(&turn, &[90; 3]), [90; 3]);
            let pixel = changed(&turn, &[120, 100, 110]);
            let before = gray([120.0, 100.0, 110.0]);
            let after = gray([0, 1, 2].map(|at| f32::from(pixel[at])));
            assert!((before - after).abs() < 1.0, "{turns}: {pixel:?}");
            assert_ne!(pixel, [120, 100, 110]);
        }
    }

    #[test]
    fn the_first_changes_are_golden() {
        let pixels: Vec<Vec<u8>> = (0..4)
            .map(|item| {
                let mut canvas = Canvas::default();
                canvas.load_image(&Image::try_new(1, 2, vec![200, 100, 50, 10, 20, 30]).unwrap());
                let mut random = Random::new(Purpose::Augment, 7, 0, item);
                let jitter =
                    ColorJitter { brightness: 0.2, contrast: 0.2, saturation: 0.2, hue: 0.1 };
                jitter.apply(&mut random, &mut canvas);
                canvas.bytes()[..3].to_vec()
            })
            .collect();
        assert_eq!(pixels, [[172, 122, 7], [249, 124, 22], [184, 78, 102], [243, 117, 24]]);
    }
}
