//! The gradient of weights: products of images and of the output's gradient, whose terms are pixels.

use updraft_simd::pixels::transpose;
use updraft_simd::{
    BF16_SQUARE, Cut, Isa, Square, TILE_LANES, TILE_TERMS, TileSteps, TilesAt, over, threads,
};

use super::pack::{Padding, pair_pixels, pair_rows};
use super::{plane_len, unit};
use crate::kernels::geometry::{ConvGeometry, ConvShape};
use crate::kernels::scratch::{Scratch, Split};

/// Pieces of the work that can be done at the same time, at least where there are as many samples:
/// chunks of the batch, whose gradients are then added one after the other, for each block of input
/// channels.
///
/// Fixed by the shape alone, so that the sums do not depend on the number of threads.
const PIECES: usize = 16;

/// The most pairs of numbers of samples that are summed before a result is written, 512 KiB: they fit
/// the second-level cache.
const MOST_PAIRS: usize = 128 << 10;

/// Computes the gradient of all weights.
pub(in crate::kernels) fn weight_gradient(
    isa: Isa,
    geometry: &ConvGeometry,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    let ConvShape { batch, channels: [inputs, outputs], input, kernel, padding, .. } =
        *geometry.shape();
    let (vectors, threads) = (isa.vectors(), threads(asked_threads));
    let ([rows, columns], taps) = (geometry.output(), kernel[0] * kernel[1]);
    // Pixels of a row begin at a pair.
    let left = padding[1].next_multiple_of(2);
    let shift = left - padding[1];
    let width = (input[1] + left + padding[1]).next_multiple_of(2);
    let image = Padding { size: input, before: [padding[0], left], width };
    let pixels = (rows * width).next_multiple_of(TILE_TERMS);
    let last = (kernel[0] - 1) * width + kernel[1] + shift;
    let plane = plane_len(pixels + last, TILE_TERMS);
    let lanes = outputs.next_multiple_of(TILE_LANES);
    let (x_pairs, dy_pairs) = (BF16_SQUARE * plane / 2, pixels / 2 * lanes);

    let blocks = inputs.div_ceil(BF16_SQUARE);
    let chunk = batch.div_ceil(PIECES.div_ceil(blocks));
    let chunks = batch.div_ceil(chunk);
    let together = (MOST_PAIRS / (x_pairs + dy_pairs)).clamp(1, chunk);
    let piece = BF16_SQUARE * taps * outputs;
    let Split { numbers: sums, pairs: dy_of, mut of_threads } = scratch.split_pairs(
        [chunks * blocks * piece, width * lanes],
        [batch * dy_pairs, together * x_pairs],
        threads,
    );
    for (row, pairs) in &mut of_threads {
        row.fill(0.0);
        pairs.fill(0);
    }
    let (image_len, plane_of_dy) = (input[0] * input[1], rows * columns);
    over(Cut::new(&mut *dy_of, dy_pairs), &mut of_threads, |sample, to, (row_of_dy, _)| {
        let dy = &dy[sample * outputs * plane_of_dy..][..outputs * plane_of_dy];
        for (row, to) in to.chunks_mut(width / 2 * lanes).enumerate() {
            if row >= rows {
                to.fill(0);
                continue;
            }
            let from = &dy[row * columns..];
            transpose(isa, from, [outputs, columns], plane_of_dy, row_of_dy, lanes);
            pair_rows(vectors, row_of_dy, lanes, to);
        }
    });
    let dy_of = &*dy_of;
    let steps = |samples: usize, apart: usize, of_pixel: usize| {
        let pixels = (0..pixels).step_by(TILE_TERMS);
        let of_sample = |sample| pixels.clone().map(move |at| 2 * sample * apart + at * of_pixel);
        TileSteps::new((0..samples).flat_map(of_sample).map(|at| at as u32).collect())
    };
    over(Cut::new(&mut *sums, piece), &mut of_threads, |index, sums, (_, x_of)| {
        sums.fill(0.0);
        let (first_input, chunk_at) = (index % blocks * BF16_SQUARE, index / blocks * chunk);
        let of_block = BF16_SQUARE.min(inputs - first_input);
        let end = (chunk_at + chunk).min(batch);
        for first in (chunk_at..end).step_by(together) {
            let count = together.min(end - first);
            for (sample, to) in (first..first + count).zip(x_of.chunks_exact_mut(x_pairs)) {
                let x = &x[(sample * inputs + first_input) * image_len..][..of_block * image_len];
                pair_pixels(vectors, x, image, plane / 2, to);
            }
            let (a_steps, b_steps) = (steps(count, x_pairs, 1), steps(count, dy_pairs, lanes));
            unit(isa).run_at(|multiply| {
                let mut square = Square::default();
                for output in (0..outputs).step_by(BF16_SQUARE) {
                    // The second tile of the last square may be the first one again.
                    let second = (output + TILE_LANES).min(lanes - TILE_LANES);
                    let first = [output, second].map(|output| 2 * (first * dy_pairs + output));
                    let b = TilesAt { pairs: dy_of, pitch: 2 * lanes, first, steps: &b_steps };
                    let count = BF16_SQUARE.min(outputs - output);
                    for tap in 0..taps {
                        let pixel = tap / kernel[1] * width + tap % kernel[1] + shift;
                        let first = [pixel, TILE_LANES * plane + pixel];
                        let a = TilesAt { pairs: x_of, pitch: plane, first, steps: &a_steps };
                        multiply(&mut square, a, b);
                        for (input, from) in square.0.iter().enumerate().take(of_block) {
                            let to = &mut sums[(input * taps + tap) * outputs + output..][..count];
                            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
                        }
                    }
                }
            });
        }
    });
    let (total, others) = sums.split_at_mut(blocks * piece);
    for other in others.chunks_exact(blocks * piece) {
        total.iter_mut().zip(other).for_each(|(total, other)| *total += other);
    }
    transpose(isa, total, [inputs * taps, outputs], outputs, dw, inputs * taps);
}
