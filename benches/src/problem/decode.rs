//! A JPEG from memory to a small RGB image: decoded, then resized with antialiasing.

use std::path::Path;

use anyhow::{Context, Result};
use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageEncoder};
use serde::{Deserialize, Serialize};

use crate::problem::{Outputs, Problem, Repeat, Site, Task, Work};

const FILE: &str = "input.jpg";
const QUALITY: u8 = 95;

/// A square image of a smooth picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Decode {
    /// Height and width of the file, in pixels.
    pub(crate) from: usize,
    /// Height and width of the result, in pixels.
    pub(crate) to: usize,
}

/// The picture at a point of the unit square: slow waves, so that sampling it commutes with
/// shrinking it.
fn picture(y: f64, x: f64, channel: usize) -> f64 {
    let phase = channel as f64;
    127.5 + 60.0 * (4.0 * y + phase).sin() + 60.0 * (5.0 * x - phase).cos()
}

/// The picture's values at the centres of `side`² pixels, `[side, side, 3]`.
fn sampled(side: usize) -> impl Iterator<Item = f64> {
    let centre = move |index: usize| (index as f64 + 0.5) / side as f64;
    (0..side * side * 3).map(move |i| picture(centre(i / 3 / side), centre(i / 3 % side), i % 3))
}

impl Task for Decode {
    fn id(&self) -> String {
        format!("decode/jpeg-{}px-to-{}px", self.from, self.to)
    }

    fn small(&self) -> Problem {
        Problem::Decode(self.clone())
    }

    fn work(&self) -> Work {
        Work { operations: None, bytes: None, samples: Some(1) }
    }

    fn reference(&self) -> Result<Outputs> {
        Ok(Outputs::from([("pixels".to_owned(), sampled(self.to).collect())]))
    }

    /// The loss of the JPEG itself: a wrong size, order or filter is far off.
    fn tolerance(&self) -> f64 {
        0.02
    }

    fn write_inputs(&self, folder: &Path) -> Result<()> {
        let pixels: Vec<u8> = sampled(self.from).map(|value| value.round() as u8).collect();
        let mut bytes = Vec::new();
        let side = u32::try_from(self.from)?;
        JpegEncoder::new_with_quality(&mut bytes, QUALITY).write_image(
            &pixels,
            side,
            side,
            ExtendedColorType::Rgb8,
        )?;
        let path = folder.join(FILE);
        std::fs::write(&path, bytes).with_context(|| format!("writing `{}`", path.display()))
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let path = site.folder.join(FILE);
        let bytes =
            std::fs::read(&path).with_context(|| format!("reading `{}`", path.display()))?;
        Ok(Box::new(Ours { bytes, to: self.to }))
    }
}

struct Ours {
    bytes: Vec<u8>,
    to: usize,
}

impl Ours {
    fn pixels(&self) -> Result<Vec<u8>> {
        Ok(updraft_data::decode(&self.bytes, FILE)?.resize(self.to, self.to).into_pixels())
    }
}

impl Repeat for Ours {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.pixels()?);
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let pixels = self.pixels()?.into_iter().map(f64::from).collect();
        Ok(Outputs::from([("pixels".to_owned(), pixels)]))
    }
}
