//! Nearest and linear interpolation of images to another size.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use updraft_simd::{Clamp, Isa, Uneven, over, threads};

use super::cpu::Blend;
use super::scratch::Scratch;
use crate::scheme::{ActivationScheme, OutputScheme};

/// The source of the pixels of a resized image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Resizing {
    /// Pixel `⌊i·from/to⌋`.
    Nearest,
    /// The pixel in which the centre of the new one lies: `⌊(i + ½)·from/to⌋`.
    NearestExact,
    /// Between the two pixels of each axis whose centres are nearest to that of the new one.
    Linear,
    /// The same with aligned centers of the corner pixels.
    LinearCorners,
}

impl Resizing {
    /// Whether every pixel is a pixel of the image.
    pub(crate) const fn is_nearest(self) -> bool {
        matches!(self, Self::Nearest | Self::NearestExact)
    }

    /// For each position of an axis the two positions that it lies between.
    pub(crate) fn taps(self, from: usize, to: usize) -> impl Iterator<Item = Tap> {
        (0..to).map(move |at| {
            // The position is `above / below`.
            let (above, below) = match self {
                Self::Nearest => (at * from / to, 1),
                Self::NearestExact => ((2 * at + 1) * from / (2 * to), 1),
                Self::Linear => (((2 * at + 1) * from).saturating_sub(to), 2 * to),
                Self::LinearCorners => (at * (from - 1), (to - 1).max(1)),
            };
            let first = above / below;
            let part = [above % below, below];
            Tap { at: [first, (first + 1).min(from - 1)], part }
        })
    }
}

/// Two positions of an axis, and the fraction of the distance between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tap {
    pub(crate) at: [usize; 2],
    /// The fraction.
    pub(crate) part: [usize; 2],
}

/// Steps from one pixel to the next; the products of two weights are exact in 32 bits.
const PARTS: usize = 1 << 11;

impl Tap {
    /// The weights of both positions, which sum to [`PARTS`].
    fn weights(self) -> [i32; 2] {
        let [above, below] = self.part;
        let second = (above * PARTS + below / 2) / below;
        [PARTS - second, second].map(|weight| weight as i32)
    }
}

/// Two positions on an axis of the input with their weights.
pub(crate) type Source = ([usize; 2], [i32; 2]);

/// Resizing of images `[batch, height, width, channels]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuantizedResize {
    channels: usize,
    /// Pixels of an image of the input, and of the output.
    from: [usize; 2],
    to: [usize; 2],
    resizing: Resizing,
    /// The sources of rows and columns, computed by the first run: a file of few bytes may declare a
    /// large output.
    sources: OnceLock<[Vec<Source>; 2]>,
    offset: i32,
    factor: f32,
    clamp: Clamp,
}

impl QuantizedResize {
    /// From `[channels, height, width]` to other sides; nearest pixels keep the scheme `input`.
    pub(crate) fn new(
        [channels, height, width]: [usize; 3],
        to: [usize; 2],
        resizing: Resizing,
        input: ActivationScheme,
        output: OutputScheme,
    ) -> Self {
        let [least, greatest] = output.bounds();
        let parts = (PARTS * PARTS) as f64;
        let ratio = f64::from(input.scale()) / f64::from(output.scheme().scale());
        Self {
            channels,
            from: [height, width],
            to,
            resizing,
            sources: OnceLock::new(),
            offset: -i32::from(input.zero_point()) * (PARTS * PARTS) as i32,
            factor: (ratio / parts) as f32,
            clamp: Clamp::new(output.scheme().zero_point(), least, greatest),
        }
    }

    /// The sources of rows and columns.
    pub(crate) fn sources(&self) -> &[Vec<Source>; 2] {
        let weighted = |tap: Tap| (tap.at, tap.weights());
        let of_side = |side: usize| {
            self.resizing.taps(self.from[side], self.to[side]).map(weighted).collect()
        };
        self.sources.get_or_init(|| [0, 1].map(of_side))
    }

    /// Height and width of the input, and of the output.
    #[cfg(any(feature = "cube", feature = "every-kernel"))]
    pub(crate) const fn sides(&self) -> [[usize; 2]; 2] {
        [self.from, self.to]
    }

    /// What is added to a weighted sum of codes, and its factor to steps of the output.
    #[cfg(any(feature = "cube", feature = "every-kernel"))]
    pub(crate) const fn line(&self) -> (i32, f32) {
        (self.offset, self.factor)
    }

    /// Resizes all images of `x`.
    ///
    /// # Panics
    /// If a slice holds no whole number of images or the two differ, or the CPU does not have `isa`.
    pub(crate) fn run(
        &self,
        isa: Isa,
        x: &[u8],
        y: &mut [u8],
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        let Self { channels, from: [height, width], resizing, .. } = *self;
        let [rows, columns] = self.sources();
        let is_nearest = resizing.is_nearest();
        let (image, line) = (height * width * channels, columns.len() * channels);
        let batch = x.len() / image;
        assert_eq!(x.len(), batch * image, "whole images of the input");
        assert_eq!(y.len(), batch * rows.len() * line, "numbers of the output");
        let (_, states) = scratch.split(0, threads(asked_threads), 0, 0);
        let vectors = isa.int8_vectors();
        let pieces = Uneven::new(y, batch * rows.len(), |item| item * line);
        over(pieces, states, |item, y, _| {
            let x = &x[item / rows.len() * image..][..image];
            let (of_rows, by_row) = rows[item % rows.len()];
            for ((of_columns, by_column), to) in columns.iter().zip(y.chunks_exact_mut(channels)) {
                let pixel = |row: usize, column: usize| {
                    let at = of_rows[row] * width + of_columns[column];
                    &x[at * channels..][..channels]
                };
                if is_nearest {
                    to.copy_from_slice(pixel(0, 0));
                    continue;
                }
                let from = [pixel(0, 0), pixel(0, 1), pixel(1, 0), pixel(1, 1)];
                let weights = [0, 1, 2, 3].map(|at| by_row[at / 2] * by_column[at % 2]);
                let Self { offset, factor, clamp, .. } = *self;
                vectors.run(Blend { from, weights, offset, factor, clamp, to });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheme(scale: f32, zero: u8) -> ActivationScheme {
        ActivationScheme::try_new(scale, zero).expect("valid")
    }

    /// The position on an axis, as a real number.
    fn place(resizing: Resizing, at: usize, from: usize, to: usize) -> f64 {
        let (at, from, to) = (at as f64, from as f64, to as f64);
        match resizing {
            Resizing::Nearest => (at * from / to).floor(),
            Resizing::NearestExact => ((at + 0.5) * from / to).floor(),
            Resizing::Linear => ((at + 0.5) * from / to - 0.5).max(0.0),
            Resizing::LinearCorners if to > 1.0 => at * (from - 1.0) / (to - 1.0),
            Resizing::LinearCorners => 0.0,
        }
    }

    #[test]
    fn every_pixel_is_the_sum_of_integers_on_every_path_and_number_of_threads() {
        let (input, other) = (scheme(0.1, 30), scheme(0.07, 128));
        let all =
            [Resizing::Nearest, Resizing::NearestExact, Resizing::Linear, Resizing::LinearCorners];
        for resizing in all {
            for (from, to) in
                [([3, 4], [6, 8]), ([5, 7], [8, 3]), ([1, 2], [4, 1]), ([4, 4], [4, 4])]
            {
                for channels in [1, 21, 70] {
                    let output = match resizing.is_nearest() {
                        true => OutputScheme::new(input),
                        false => OutputScheme::rectified(other),
                    };
                    let x: Vec<u8> = (0..2 * from[0] * from[1] * channels)
                        .map(|i| (i * 7919 % 253) as u8)
                        .collect();
                    let mut right = Vec::new();
                    for image in x.chunks(from[0] * from[1] * channels) {
                        for at in 0..to[0] * to[1] * channels {
                            let (pixel, channel) = (at / channels, at % channels);
                            let [row, column] = [pixel / to[1], pixel % to[1]];
                            let [row, column] = [
                                place(resizing, row, from[0], to[0]),
                                place(resizing, column, from[1], to[1]),
                            ];
                            // A hat function over each pixel, in steps of 1/2048; the last one is
                            // constant to the border.
                            let weight = |place: f64, at: usize| {
                                let second = ((place - place.floor()) * 2048.0).round() as i64;
                                match at as f64 - place.floor() {
                                    0.0 => 2048 - second,
                                    1.0 => second,
                                    _ => 0,
                                }
                            };
                            let (mut sum, mut real) = (0_i64, 0.0);
                            for r in 0..=from[0] {
                                for c in 0..=from[1] {
                                    let at = r.min(from[0] - 1) * from[1] + c.min(from[1] - 1);
                                    let steps = i64::from(image[at * channels + channel]) - 30;
                                    let both = weight(row, r) * weight(column, c);
                                    sum += both * steps;
                                    real += (1.0 - (row - r as f64).abs()).max(0.0)
                                        * (1.0 - (column - c as f64).abs()).max(0.0)
                                        * steps as f64;
                                }
                            }
                            let to_steps =
                                f64::from(input.scale()) / f64::from(output.scheme().scale());
                            let factor = (to_steps / f64::from(1 << 22)) as f32;
                            let steps = f64::from(sum as f32 * factor).round_ties_even();
                            let [least, greatest] = output.bounds().map(f64::from);
                            let zero = f64::from(output.scheme().zero_point());
                            let code = (steps + zero).clamp(least, greatest);
                            let exact = (real * to_steps + zero).clamp(least, greatest);
                            assert!((code - exact).abs() < 0.7, "{code} is not {exact}");
                            right.push(code as u8);
                        }
                    }
                    let shape = [channels, from[0], from[1]];
                    let layer = QuantizedResize::new(shape, to, resizing, input, output);
                    let isas = Isa::DOTS.into_iter().filter(|isa| isa.is_available());
                    for (isa, threads) in isas.flat_map(|isa| [(isa, 1), (isa, 3)]) {
                        let mut y = vec![0; right.len()];
                        layer.run(isa, &x, &mut y, &mut Scratch::new(), threads);
                        assert_eq!(y, right, "{isa} {resizing:?} {from:?} {to:?} {channels}");
                    }
                }
            }
        }
    }
}
