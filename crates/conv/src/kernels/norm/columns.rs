//! Sums over a batch of feature maps with few pixels: column by column of a matrix with a row for each
//! sample, then over the pixels of each channel.

use std::ops::Range;

use updraft_simd::{Cut, Vectors, over, threads};

use super::batch_norm::{BatchNormShape, FEW};
use super::row::{self, Block, Columns};

/// The most columns of a group of channels, which are summed together.
const GROUP: usize = 128;

/// Samples that are summed in f32.
const SAMPLES: usize = 32;

/// Some channels of all samples.
struct Group {
    shape: BatchNormShape,
    channels: Range<usize>,
}

impl Group {
    /// The number of channels of each group.
    fn size(shape: BatchNormShape) -> usize {
        const { assert!(FEW <= GROUP, "a channel fits into a group") };
        GROUP / shape.pixels
    }

    /// The group `index`, of `channels` channels.
    fn new(shape: BatchNormShape, index: usize, channels: usize) -> Self {
        let start = index * Self::size(shape);
        Self { shape, channels: start..start + channels }
    }

    /// The first column.
    fn at(&self) -> usize {
        self.channels.start * self.shape.pixels
    }

    /// The group's columns of some samples of a tensor.
    fn block<'a>(&self, x: &'a [f32], samples: &Range<usize>) -> Block<'a> {
        let width = self.shape.channels * self.shape.pixels;
        Block { rows: &x[samples.start * width..samples.end * width], width, at: self.at() }
    }

    /// The sums of each channel that `add` adds to those of each column, samples by samples.
    fn sums<const N: usize>(
        &self,
        add: impl Fn(Range<usize>, [&mut [f32]; N]),
    ) -> impl Iterator<Item = [f64; N]> {
        let pixels = self.shape.pixels;
        let mut columns = [[0.0_f32; GROUP]; N];
        let mut sums = [[0.0_f64; N]; GROUP];
        for start in (0..self.shape.batch).step_by(SAMPLES) {
            let width = self.channels.len() * pixels;
            columns.iter_mut().for_each(|columns| columns[..width].fill(0.0));
            let samples = start..(start + SAMPLES).min(self.shape.batch);
            add(samples, columns.each_mut().map(|columns| &mut columns[..width]));
            for (n, columns) in columns.iter().enumerate() {
                for (sums, pixels) in sums.iter_mut().zip(columns[..width].chunks_exact(pixels)) {
                    sums[n] += pixels.iter().map(|&sum| f64::from(sum)).sum::<f64>();
                }
            }
        }
        sums.into_iter().take(self.channels.len())
    }
}

/// The mean and variance of each channel.
pub(super) fn moments(
    vectors: Vectors,
    shape: BatchNormShape,
    x: &[f32],
    [means, variances]: [&mut [f32]; 2],
    asked_threads: usize,
) {
    let size = Group::size(shape);
    let pieces = (Cut::new(means, size), Cut::new(variances, size));
    let count = shape.count() as f64;
    over(pieces, &mut vec![(); threads(asked_threads)], |index, (means, variances), ()| {
        let group = Group::new(shape, index, means.len());
        let sums = group.sums(|samples, [sums]| {
            row::add_columns(vectors, group.block(x, &samples), sums);
        });
        means.iter_mut().zip(sums).for_each(|(mean, [sum])| *mean = (sum / count) as f32);
        let near = row::repeated(means.iter().copied(), shape.pixels);
        let sums = group.sums(|samples, sums| {
            row::add_differences(vectors, group.block(x, &samples), &near, sums);
        });
        let statistics = means.iter_mut().zip(variances);
        for ((mean, variance), [differences, squares]) in statistics.zip(sums) {
            // The first mean was rounded, and its sum in f32.
            let shift = differences / count;
            *mean = (f64::from(*mean) + shift) as f32;
            let exact = squares / count - shift * shift;
            *variance = if exact < 0.0 { 0.0 } else { exact as f32 };
        }
    });
}

/// `[Σ g, Σ g·(x − mean)]` of each channel, where `g` is the gradient that passes the activation.
pub(super) fn gradient_sums(
    vectors: Vectors,
    shape: BatchNormShape,
    columns: &Columns,
    (inputs, residual): ([&[f32]; 2], Option<&[f32]>),
    asked_threads: usize,
) -> Vec<[f64; 2]> {
    let mut all = vec![[0.0; 2]; shape.channels];
    let pieces = Cut::new(&mut all, Group::size(shape));
    over(pieces, &mut vec![(); threads(asked_threads)], |index, all, ()| {
        let group = Group::new(shape, index, all.len());
        let sums = group.sums(|samples, sums| {
            let blocks = inputs.map(|tensor| group.block(tensor, &samples));
            let residual = residual.map(|residual| group.block(residual, &samples));
            row::add_gradients(vectors, columns, blocks, residual, sums);
        });
        all.iter_mut().zip(sums).for_each(|(all, sums)| *all = sums);
    });
    all
}
