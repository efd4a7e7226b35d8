//! The output of a convolution, and its input's gradient, which is one of the output's gradient.

use updraft_simd::{
    BF16_SQUARE, Isa, Pieces, Square, TILE_LANES, TILE_TERMS, TileSteps, TilesAt, over, threads,
};

use super::pack::{Padding, pack_weights, pair_channels};
use super::{plane_len, unit};
use crate::kernels::elementwise::{Activation, function};
use crate::kernels::geometry::{ConvGeometry, ConvShape};
use crate::kernels::scratch::{Scratch, Split};

/// Terms of a tile.
const TILE: usize = TILE_LANES * TILE_TERMS;

/// A pass as a convolution with a stride of 1.
pub(in crate::kernels) struct TilePass {
    isa: Isa,
    /// Channels that are summed, and those of the result.
    channels: [usize; 2],
    kernel: [usize; 2],
    padding: Padding,
    /// Rows and columns of the result.
    output: [usize; 2],
    is_gradient: bool,
    /// Pixels of the padded image's plane.
    plane: usize,
}

impl TilePass {
    pub(in crate::kernels) fn forward(isa: Isa, geometry: &ConvGeometry) -> Self {
        let ConvShape { channels, input, padding, .. } = *geometry.shape();
        Self::of(isa, geometry, channels, [input, geometry.output()], padding, false)
    }

    pub(in crate::kernels) fn input_gradient(isa: Isa, geometry: &ConvGeometry) -> Self {
        let ConvShape { channels: [inputs, outputs], input, padding, kernel, .. } =
            *geometry.shape();
        let before = [0, 1].map(|axis| kernel[axis] - 1 - padding[axis]);
        let sizes = [geometry.output(), input];
        Self::of(isa, geometry, [outputs, inputs], sizes, before, true)
    }

    fn of(
        isa: Isa,
        geometry: &ConvGeometry,
        channels: [usize; 2],
        [image, output]: [[usize; 2]; 2],
        before: [usize; 2],
        is_gradient: bool,
    ) -> Self {
        let kernel = geometry.shape().kernel;
        let width = output[1] + kernel[1] - 1;
        let padding = Padding { size: image, before, width };
        // Windows of the pixels that fill the last square begin behind the last row.
        let pixels = (output[0] * width).next_multiple_of(BF16_SQUARE);
        let last = (kernel[0] - 1) * width + kernel[1];
        let plane = plane_len(pixels + last, TILE_LANES);
        Self { isa, channels, kernel, padding, output, is_gradient, plane }
    }

    /// Computes all samples' results.
    #[expect(clippy::too_many_arguments, reason = "the arguments of a convolution")]
    pub(in crate::kernels) fn run<'a>(
        &self,
        x: &[f32],
        w: &[f32],
        bias: Option<&[f32]>,
        activation: Activation,
        y: impl Pieces<Piece = &'a mut [f32]>,
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        let Self { channels: [channels, results], kernel, padding, plane, .. } = *self;
        let vectors = self.isa.vectors();
        let taps = kernel[0] * kernel[1];
        let blocks = channels.div_ceil(TILE_TERMS);
        let weight_tiles = results.div_ceil(TILE_LANES);
        let planes = blocks * TILE_LANES;
        let threads = threads(asked_threads);
        let Split { pairs: weights, mut of_threads, .. } = scratch.split_pairs(
            [0; 2],
            [weight_tiles * blocks * taps * TILE / 2, planes * plane],
            threads,
        );
        pack_weights(
            [results, channels, taps],
            |result, channel, tap| match self.is_gradient {
                false => w[(result * channels + channel) * taps + tap],
                true => w[(channel * results + result) * taps + taps - 1 - tap],
            },
            weights,
        );
        of_threads.iter_mut().for_each(|(_, own)| own.fill(0));
        let a_steps = TileSteps::new((0..blocks * taps).map(|step| (step * TILE) as u32).collect());
        let b_steps = (0..blocks * taps).map(|step| {
            let (block, tap) = (step / taps, step % taps);
            let pixel = tap / kernel[1] * padding.width + tap % kernel[1];
            (2 * (block * TILE_LANES * plane + pixel)) as u32
        });
        let b_steps = TileSteps::new(b_steps.collect());
        let (weights, image_len) = (&*weights, channels * padding.size[0] * padding.size[1]);
        over(y, &mut of_threads, |sample, y, (_, own)| {
            pair_channels(vectors, &x[sample * image_len..][..image_len], padding, plane, own);
            unit(self.isa).run_at(|multiply| {
                let mut square = Square::default();
                for block in (0..weight_tiles).step_by(2) {
                    let tile =
                        |tile: usize| tile.min(weight_tiles - 1) * a_steps.offsets().len() * TILE;
                    let first = [tile(block), tile(block + 1)];
                    let a = TilesAt { pairs: weights, pitch: TILE_TERMS, first, steps: &a_steps };
                    let count = BF16_SQUARE.min(results - block * TILE_LANES);
                    for pixel in (0..self.output[0] * padding.width).step_by(BF16_SQUARE) {
                        let first = [2 * pixel, 2 * (pixel + TILE_LANES)];
                        let b = TilesAt { pairs: own, pitch: 2 * plane, first, steps: &b_steps };
                        multiply(&mut square, a, b);
                        self.write(&square, [block * TILE_LANES, count], pixel, bias, y);
                    }
                }
            });
            if activation != Activation::Identity {
                function::values_in_place(vectors, activation, y);
            }
        });
    }

    /// Writes the pixels of a square that are results, of some channels.
    fn write(
        &self,
        square: &Square,
        [first, count]: [usize; 2],
        pixel: usize,
        bias: Option<&[f32]>,
        y: &mut [f32],
    ) {
        let ([rows, columns], width) = (self.output, self.padding.width);
        let mut at = 0;
        while at < BF16_SQUARE {
            let (row, column) = ((pixel + at) / width, (pixel + at) % width);
            if row >= rows {
                break;
            }
            if column >= columns {
                at += width - column;
                continue;
            }
            let len = (columns - column).min(BF16_SQUARE - at);
            let place = row * columns + column;
            for (channel, from) in square.0.iter().enumerate().take(count) {
                let channel = first + channel;
                let to = &mut y[channel * rows * columns + place..][..len];
                match bias {
                    None => to.copy_from_slice(&from[at..at + len]),
                    Some(bias) => {
                        for (to, from) in to.iter_mut().zip(&from[at..at + len]) {
                            *to = from + bias[channel];
                        }
                    }
                }
            }
            at += len;
        }
    }
}
