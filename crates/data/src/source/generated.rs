//! Generated images whose class is known to show in color, in brightness or in both.

use std::f32::consts::TAU;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::DataError;
use crate::image::Image;
use crate::random::{Purpose, Random};
use crate::source::ImageSource;
use crate::source::shapes::Shape;

/// What determines the class of a generated image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cue {
    /// Only the hue: four classes; the brightness of an image is independent of its class.
    Color,
    /// Only the shape drawn in brightness: four classes; the hue is independent of the class.
    Brightness,
    /// Shape and hue together: sixteen classes; either alone distinguishes a quarter of them.
    #[default]
    Both,
}

/// The settings of a generated set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GeneratedConfig {
    /// What shows the class.
    pub cue: Cue,
    /// How many images; at least one per class.
    pub images: usize,
    /// Rows; 16 to 1024.
    pub height: usize,
    /// Pixels in a row; 16 to 1024.
    pub width: usize,
    /// Another seed draws other images of the same classes.
    pub seed: u64,
}

impl GeneratedConfig {
    /// A set of `images` images of 32×32 pixels, with seed 0.
    #[must_use]
    pub const fn new(cue: Cue, images: usize) -> Self {
        Self { cue, images, height: 32, width: 32, seed: 0 }
    }

    /// Sets rows and pixels in a row.
    #[must_use]
    pub const fn with_size(mut self, height: usize, width: usize) -> Self {
        (self.height, self.width) = (height, width);
        self
    }

    /// Sets the seed.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Checks the ranges of all settings.
    ///
    /// # Errors
    /// [`DataError::Setting`] naming the number that is out of range.
    pub fn validate(&self) -> Result<(), DataError> {
        let fault = |name, value: usize, expected| {
            Err(DataError::Setting { name, value: value.to_string(), expected })
        };
        let classes = classes(self.cue).len();
        if self.images < classes {
            return fault("images", self.images, format!("at least one per class, {classes}"));
        }
        for (name, side) in [("height", self.height), ("width", self.width)] {
            if !(16..=1024).contains(&side) {
                return fault(name, side, "16 to 1024".to_owned());
            }
        }
        Ok(())
    }
}

/// Images drawn from a seed, for trying a model without a download.
///
/// Every image has two layers drawn independently of each other. In brightness (BT.709): a shape of
/// random place, size, angle and sign (lighter or darker than its surroundings) on a gradient with
/// noise. In color, at unchanged brightness: a soft patch of one hue at a random place on a faint
/// background of a random hue, with noise. [`Cue`] says which of the two carries the class; the
/// other one is drawn the same way at random.
///
/// Image `i` has class `i mod classes` and is a function of (seed, i) alone; the same seed and
/// version give the same bytes on every machine of the same architecture.
///
/// # Accuracy
/// Nothing is clipped, so brightness and color mix only by the rounding to 8 bits.
#[derive(Debug, Clone)]
pub struct GeneratedImages {
    config: GeneratedConfig,
    classes: Vec<String>,
    axes: [[f32; 3]; 2],
}

/// Hues by their angle in quarter turns from the hue nearest to red.
const HUES: [&str; 4] = ["red", "yellow", "green", "blue"];

impl GeneratedImages {
    /// Creates a set; the images are drawn when they are read.
    ///
    /// # Errors
    /// As [`GeneratedConfig::validate`].
    pub fn try_new(config: GeneratedConfig) -> Result<Self, DataError> {
        config.validate()?;
        let classes = classes(config.cue);
        Ok(Self { config, classes, axes: equal_brightness_axes() })
    }

    /// What shows the class.
    #[must_use]
    pub const fn cue(&self) -> Cue {
        self.config.cue
    }

    fn draw(&self, index: usize) -> Vec<u8> {
        let mut random = Random::new(Purpose::Generate, self.config.seed, 0, index as u64);
        // Drawn for every cue alike, so that the layer without the class is the same for all.
        let any_shape = random.below(Shape::ALL.len() as u64) as usize;
        let any_hue = random.below(HUES.len() as u64) as usize;
        let label = self.label(index);
        let (shape, hue) = match self.config.cue {
            Cue::Color => (any_shape, label),
            Cue::Brightness => (label, any_hue),
            Cue::Both => (label / HUES.len(), label % HUES.len()),
        };
        let (height, width) = (self.config.height, self.config.width);
        let brightness = BrightnessLayer::draw(Shape::ALL[shape], &mut random);
        let color = ColorLayer::draw(hue, &mut random);
        let unit = height.min(width) as f32;
        let center = |at: usize, side: usize| (at as f32 + 0.5 - side as f32 / 2.0) / unit;
        let mut pixels = Vec::with_capacity(Image::CHANNELS * height * width);
        for row in 0..height {
            for column in 0..width {
                let (x, y) = (center(column, width), center(row, height));
                let luminance = brightness.at(x, y) + LUMINANCE_NOISE * random.bell();
                let chroma = color.at(x, y).map(|part| part + CHROMA_NOISE * random.bell());
                for channel in 0..Image::CHANNELS {
                    let tint =
                        chroma[0] * self.axes[0][channel] + chroma[1] * self.axes[1][channel];
                    pixels.push((255.0 * (luminance + tint)).round() as u8);
                }
            }
        }
        pixels
    }
}

impl ImageSource for GeneratedImages {
    fn len(&self) -> usize {
        self.config.images
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn label(&self, index: usize) -> usize {
        index % self.classes.len()
    }

    fn name(&self, index: usize) -> String {
        format!("generated image {index} of seed {}", self.config.seed)
    }

    fn read(&self, index: usize) -> Result<Image<'_>, DataError> {
        Image::try_new(self.config.height, self.config.width, self.draw(index))
    }

    fn fingerprint(&self) -> String {
        let GeneratedConfig { images, height, width, seed, .. } = self.config;
        Digest::new("updraft generated images 1")
            .texts(&self.classes)
            .number(images)
            .number(height)
            .number(width)
            .bytes(&seed.to_le_bytes())
            .hex()
    }
}

fn classes(cue: Cue) -> Vec<String> {
    let shapes = || Shape::ALL.into_iter().map(Shape::name);
    match cue {
        Cue::Color => HUES.map(str::to_owned).to_vec(),
        Cue::Brightness => shapes().map(str::to_owned).collect(),
        Cue::Both => shapes().flat_map(|shape| HUES.map(|hue| format!("{hue} {shape}"))).collect(),
    }
}

/// Two directions of unit length, at right angles, along which BT.709 brightness is constant;
/// the first is the one nearest to red.
fn equal_brightness_axes() -> [[f32; 3]; 2] {
    const LUMA: [f64; 3] = [0.2126, 0.7152, 0.0722];
    let unit = |v: [f64; 3]| {
        let length = v.iter().map(|part| part * part).sum::<f64>().sqrt();
        v.map(|part| part / length)
    };
    let luma = unit(LUMA);
    let first = unit([0, 1, 2].map(|at| f64::from(u8::from(at == 0)) - luma[0] * luma[at]));
    let cross = |at: usize| {
        let (b, c) = ((at + 1) % 3, (at + 2) % 3);
        luma[b] * first[c] - luma[c] * first[b]
    };
    let second = [cross(0), cross(1), cross(2)];
    [first, second].map(|axis| axis.map(|part| part as f32))
}

// The ranges below keep every value inside the range of a byte: brightness stays within 0.5 ± (0.05
// + 0.04 + 0.12 + 3.47·0.025) = 0.5 ± 0.297, tint within 0.14 + √2·3.47·0.012 = 0.199.

/// Standard deviation of the noise in brightness.
const LUMINANCE_NOISE: f32 = 0.025;

/// Standard deviation of the noise along each of the two color axes.
const CHROMA_NOISE: f32 = 0.012;

/// The shape and its background; coordinates in units of the shorter side, from the center.
struct BrightnessLayer {
    shape: Shape,
    center: [f32; 2],
    rotation: [f32; 2],
    radius: f32,
    ground: f32,
    slope: [f32; 2],
    contrast: f32,
}

impl BrightnessLayer {
    fn draw(shape: Shape, random: &mut Random) -> Self {
        let center = [0; 2].map(|_| random.between(-0.15, 0.15));
        let angle = random.between(0.0, TAU);
        let radius = random.between(0.24, 0.36);
        let ground = random.between(0.45, 0.55);
        let tilt = random.between(0.0, TAU);
        let steepness = random.between(0.0, 0.056);
        let contrast = random.between(0.07, 0.12);
        let contrast = if random.coin() { contrast } else { -contrast };
        Self {
            shape,
            center,
            rotation: [angle.cos(), angle.sin()],
            radius,
            ground,
            slope: [steepness * tilt.cos(), steepness * tilt.sin()],
            contrast,
        }
    }

    fn at(&self, x: f32, y: f32) -> f32 {
        // An elongated image does not get brighter than a square one: the gradient ends at its
        // sides.
        let slope = self.slope[0] * x.clamp(-0.5, 0.5) + self.slope[1] * y.clamp(-0.5, 0.5);
        let ([cos, sin], [dx, dy]) = (self.rotation, [x - self.center[0], y - self.center[1]]);
        let (u, v) = ((cos * dx + sin * dy) / self.radius, (cos * dy - sin * dx) / self.radius);
        let contrast = if self.shape.covers(u, v) { self.contrast } else { 0.0 };
        self.ground + slope + contrast
    }
}

/// The patch of one hue and its background, on the two color axes.
struct ColorLayer {
    center: [f32; 2],
    sharpness: f32,
    ground: [f32; 2],
    patch: [f32; 2],
}

impl ColorLayer {
    fn draw(hue: usize, random: &mut Random) -> Self {
        let polar = |amount: f32, turns: f32| {
            [(turns * TAU).cos(), (turns * TAU).sin()].map(|part| part * amount)
        };
        let center = [0; 2].map(|_| random.between(-0.25, 0.25));
        let radius = random.between(0.16, 0.24);
        let ground = polar(random.between(0.0, 0.06), random.between(0.0, 1.0));
        // Within a twelfth of a turn of the hue, so neighbors stay a twelfth apart.
        let turns = hue as f32 / HUES.len() as f32 + random.between(-1.0, 1.0) / 12.0;
        let patch = polar(random.between(0.09, 0.14), turns);
        Self { center, sharpness: 1.0 / (radius * radius), ground, patch }
    }

    fn at(&self, x: f32, y: f32) -> [f32; 2] {
        let (dx, dy) = (x - self.center[0], y - self.center[1]);
        let weight = (-self.sharpness * (dx * dx + dy * dy)).exp();
        [0, 1].map(|axis| self.ground[axis] + weight * (self.patch[axis] - self.ground[axis]))
    }
}
