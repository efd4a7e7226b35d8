//! JPEG files of photographs to batches for a network: read, decoded, shrunk, normalized.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageEncoder};
use serde::{Deserialize, Serialize};
use updraft_data::{ImageFolder, Loader, LoaderConfig, Normalize, Order, Resized, Workers};

use crate::formula;
use crate::problem::{Outputs, Problem, Repeat, Site, Task, Work, widened};

/// One class, so that [`ImageFolder`] lists it.
const FOLDER: &str = "photos/one";
const HEIGHT: usize = 375;
const WIDTH: usize = 500;
/// With the grain below, 50 kB per file.
const QUALITY: u8 = 90;
const GRAIN: f32 = 12.0;
/// The usual numbers for photographs.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const STD: [f32; 3] = [0.229, 0.224, 0.225];

/// An epoch of files in a random order, with as many workers as there are threads, or inline with
/// one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Photos {
    pub(crate) files: usize,
    pub(crate) batch: usize,
    /// Height and width of the result, in pixels.
    pub(crate) side: usize,
}

/// The pixels of a file, `[HEIGHT, WIDTH, 3]`: slow waves with grain of two pixels.
fn picture(file: usize) -> Vec<u8> {
    let salt = formula::salt(&format!("photo {file}"));
    let mut pixels = Vec::with_capacity(3 * HEIGHT * WIDTH);
    for row in 0..HEIGHT {
        for column in 0..WIDTH {
            let (y, x) = (row as f32 / HEIGHT as f32, column as f32 / WIDTH as f32);
            let grain = GRAIN * formula::entry(salt, (row / 2 * WIDTH + column / 2) as u32);
            for channel in 0..3 {
                let phase = (channel + file) as f32;
                let waves = 50.0 * ((4.0 * y + phase).sin() + (5.0 * x - phase).cos());
                pixels.push((127.5 + waves + grain).round() as u8);
            }
        }
    }
    pixels
}

/// The weights of each of `to` pixels on `from`: the triangle filter, as wide as a pixel of the
/// result.
fn weights(from: usize, to: usize) -> Vec<Vec<f64>> {
    let scale = from as f64 / to as f64;
    let of = |out: usize| {
        let center = (out as f64 + 0.5) * scale;
        let seen = (0..from).map(|at| (1.0 - (at as f64 + 0.5 - center).abs() / scale).max(0.0));
        let seen: Vec<f64> = seen.collect();
        let sum: f64 = seen.iter().sum();
        seen.into_iter().map(|weight| weight / sum).collect()
    };
    (0..to).map(of).collect()
}

impl Photos {
    /// One file as input of the network: `[3, side, side]`.
    fn seen(&self, file: usize) -> Vec<f64> {
        let pixels = picture(file);
        let (rows, columns) = (weights(HEIGHT, self.side), weights(WIDTH, self.side));
        let mut planes = Vec::new();
        for channel in 0..3 {
            let level =
                |row: usize, column: usize| f64::from(pixels[3 * (row * WIDTH + column) + channel]);
            let narrow: Vec<Vec<f64>> = (0..HEIGHT)
                .map(|row| {
                    let sum = |weights: &Vec<f64>| {
                        weights.iter().enumerate().map(|(at, weight)| weight * level(row, at)).sum()
                    };
                    columns.iter().map(sum).collect()
                })
                .collect();
            let (mean, std) = (f64::from(MEAN[channel]), f64::from(STD[channel]));
            for weights in &rows {
                for column in 0..self.side {
                    let lines = weights.iter().zip(&narrow);
                    let level: f64 = lines.map(|(weight, line)| weight * line[column]).sum();
                    planes.push((level / 255.0 - mean) / std);
                }
            }
        }
        planes
    }

    fn loader(&self, folder: &Path, order: Order, threads: usize) -> Result<Loader> {
        let root = folder.join(FOLDER);
        let root = root.parent().context("the folder of the classes")?;
        let images = Resized::try_new(Arc::new(ImageFolder::open(root)?), self.side, self.side)?;
        let config = LoaderConfig::new(self.batch)
            .with_order(order)
            .with_normalize(Normalize { mean: MEAN, std: STD })
            .with_workers(Workers::Count(if threads > 1 { threads } else { 0 }));
        Ok(Loader::try_new(Arc::new(images), config)?)
    }
}

impl Task for Photos {
    fn id(&self) -> String {
        format!("photos/jpeg-{WIDTH}x{HEIGHT}-to-{0}px-b{1}", self.side, self.batch)
    }

    fn small(&self) -> Problem {
        Problem::Photos(Self { files: 2, batch: 2, ..self.clone() })
    }

    fn work(&self) -> Work {
        Work { operations: None, bytes: None, samples: Some(self.files as u64) }
    }

    /// The first batch in the order of the files.
    fn reference(&self) -> Result<Outputs> {
        let planes = (0..self.batch).flat_map(|file| self.seen(file)).collect();
        Ok(Outputs::from([("planes".to_owned(), planes)]))
    }

    /// The loss of the JPEGs themselves: a wrong size, order or filter is far off.
    fn tolerance(&self) -> f64 {
        0.06
    }

    fn write_inputs(&self, folder: &Path) -> Result<()> {
        let folder = folder.join(FOLDER);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("`{}`", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("`{}`", folder.display()))?;
        for file in 0..self.files {
            let mut bytes = Vec::new();
            let encoder = JpegEncoder::new_with_quality(&mut bytes, QUALITY);
            let (width, height) = (u32::try_from(WIDTH)?, u32::try_from(HEIGHT)?);
            encoder.write_image(&picture(file), width, height, ExtendedColorType::Rgb8)?;
            let path: PathBuf = folder.join(format!("{file:05}.jpg"));
            fs::write(&path, bytes).with_context(|| format!("writing `{}`", path.display()))?;
        }
        Ok(())
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let in_order = self.loader(&site.folder, Order::Sequential, site.threads)?;
        let shuffled = self.loader(&site.folder, Order::Shuffled, site.threads)?;
        Ok(Box::new(Ours { in_order, shuffled, epoch: 0 }))
    }
}

struct Ours {
    in_order: Loader,
    shuffled: Loader,
    epoch: u64,
}

impl Repeat for Ours {
    fn once(&mut self) -> Result<()> {
        for batch in self.shuffled.epoch(self.epoch) {
            std::hint::black_box(batch?);
        }
        self.epoch += 1;
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let Some(first) = self.in_order.epoch(0).next() else { bail!("an epoch without batches") };
        Ok(Outputs::from([("planes".to_owned(), widened(first?.planes()))]))
    }
}
