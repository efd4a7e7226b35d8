//! Depthwise convolutions, a vector of channels at a time.
//!
//! The vector's planes are transposed to pixels of lanes, in which every tap is a product of
//! vectors at any stride, and the results are transposed back to planes.

use updraft_simd::pixels::{by_pixel, transpose};
use updraft_simd::{Cut, Isa, Pieces, over, threads};

use super::channel_tile::{DepthwiseJob, DepthwiseWeightJob, Grid};
use crate::kernels::elementwise::{Activation, function};
use crate::kernels::geometry::ConvGeometry;
use crate::kernels::packing::pack;
use crate::kernels::plan::{Padded, Phases, Windows};
use crate::kernels::scratch::Scratch;

/// Sums over windows of single channels.
#[derive(Debug, Clone)]
pub(crate) struct Depthwise {
    isa: Isa,
    channels: usize,
    /// Height and width of the image that is read, and how it is padded.
    image: [usize; 2],
    padded: Padded,
    /// Pixels of a plane of results.
    pixels: usize,
    parts: Vec<Part>,
}

/// Windows of one kind: all of a forward pass, or a phase of the input's gradient.
#[derive(Debug, Clone)]
struct Part {
    /// The offset of each tap from the window's start, in pixels, and its index in the kernel.
    taps: Vec<(u32, usize)>,
    offsets: Vec<u32>,
    /// The number of windows, and the distance between them in the image.
    count: [usize; 2],
    step: [usize; 2],
    /// The first result in its plane, and the distance between results.
    first: usize,
    output_step: [usize; 2],
}

impl Depthwise {
    /// The forward pass.
    pub(crate) fn forward(isa: Isa, geometry: &ConvGeometry) -> Self {
        let shape = geometry.shape();
        let [rows, columns] = shape.kernel;
        let padded = Windows::of(geometry).padded;
        let taps = (0..rows * columns).map(|tap| {
            let (row, column) = (tap / columns * shape.dilation[0], tap % columns);
            ((row * padded.size[1] + column * shape.dilation[1]) as u32, tap)
        });
        let step = [shape.stride[0] * padded.size[1], shape.stride[1]];
        let output = geometry.output();
        let part = Part::new(taps.collect(), output, step, 0, [output[1], 1]);
        let (image, pixels) = (shape.input, output[0] * output[1]);
        Self { isa, channels: shape.groups, image, padded, pixels, parts: vec![part] }
    }

    /// The input's gradient.
    pub(crate) fn input_gradient(isa: Isa, geometry: &ConvGeometry) -> Self {
        let shape = geometry.shape();
        let Phases { padded, all } = Phases::of(geometry);
        let width = shape.input[1];
        let parts = all.iter().map(|phase| {
            let [rows, columns] = &phase.taps;
            let taps = rows.iter().flat_map(|&(kernel_row, row)| {
                columns.iter().map(move |&(kernel_column, column)| {
                    let tap = kernel_row * shape.kernel[1] + kernel_column;
                    ((row * padded.size[1] + column) as u32, tap)
                })
            });
            let first = phase.first[0] * width + phase.first[1];
            let output_step = [shape.stride[0] * width, shape.stride[1]];
            Part::new(taps.collect(), phase.pixels, [padded.size[1], 1], first, output_step)
        });
        Self {
            isa,
            channels: shape.groups,
            image: geometry.output(),
            padded,
            pixels: shape.input[0] * width,
            parts: parts.collect(),
        }
    }

    /// Computes all planes of a batch, then activates them.
    #[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
    pub(crate) fn run<'a>(
        &self,
        images: &[f32],
        w: &[f32],
        bias: Option<&[f32]>,
        activation: Activation,
        y: impl Pieces<Piece = &'a mut [f32]>,
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        let Self { isa, channels, pixels, .. } = *self;
        let vectors = isa.vectors();
        let lanes = isa.lanes();
        let blocks = channels.div_ceil(lanes);
        let kernel = w.len() / channels;
        let weight_len: usize = self.parts.iter().map(|part| part.taps.len() * lanes).sum();
        let image_len = self.padded.plane() * lanes;
        let (packed, mut of_threads) = scratch.split(
            blocks * (weight_len + lanes),
            threads(asked_threads),
            image_len + pixels * lanes,
        );
        let (packed, starts) = packed.split_at_mut(blocks * weight_len);
        for (lane, start) in starts.iter_mut().enumerate() {
            *start = bias.and_then(|bias| bias.get(lane)).copied().unwrap_or(0.0);
        }
        for (block, mut packed) in packed.chunks_exact_mut(weight_len.max(1)).enumerate() {
            let count = lanes.min(channels - block * lanes);
            for part in &self.parts {
                let (own, rest) = packed.split_at_mut(part.taps.len() * lanes);
                let size = [part.taps.len(), lanes];
                let w = &w[block * lanes * kernel..];
                pack(own, size, w, [count, kernel], |tap| part.taps[tap].1);
                packed = rest;
            }
        }
        let (packed, starts) = (&*packed, &*starts);
        let sample_len = channels * self.image[0] * self.image[1];
        over(y, &mut of_threads, |index, y, own| {
            let (image, results) = own.split_at_mut(image_len);
            let sample = &images[index * sample_len..][..sample_len];
            for block in 0..blocks {
                let count = lanes.min(channels - block * lanes);
                self.gather(sample, block * lanes, count, image);
                let mut weights = &packed[block * weight_len..][..weight_len];
                for part in &self.parts {
                    let (own, rest) = weights.split_at(part.taps.len() * lanes);
                    weights = rest;
                    let job = DepthwiseJob {
                        grid: part.grid(&image[..image_len]),
                        weights: own,
                        start: &starts[block * lanes..][..lanes],
                        output_row: part.output_step[0],
                        output_column: part.output_step[1],
                    };
                    job.run(isa, &mut results[part.first * lanes..pixels * lanes]);
                }
                let y = &mut y[block * lanes * pixels..];
                transpose(isa, results, [pixels, count], lanes, y, pixels);
            }
            if activation != Activation::Identity {
                function::values_in_place(vectors, activation, y);
            }
        });
    }

    /// The gradient of all weights: `chunk` samples are summed one after the other.
    pub(crate) fn weight_gradient(
        &self,
        x: &[f32],
        dy: &[f32],
        dw: &mut [f32],
        [batch, chunk]: [usize; 2],
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        let Self { isa, channels, pixels, .. } = *self;
        let lanes = isa.lanes();
        let part = &self.parts[0];
        let block_len = part.taps.len() * lanes;
        let all_sums = channels.div_ceil(lanes) * block_len;
        let image_len = self.padded.plane() * lanes;
        let (sums, mut of_threads) = scratch.split(
            batch.div_ceil(chunk) * all_sums,
            threads(asked_threads),
            image_len + pixels * lanes,
        );
        let (x_len, dy_len) = (x.len() / batch, dy.len() / batch);
        over(Cut::new(sums, all_sums), &mut of_threads, |index, sums, own| {
            let (image, gradient) = own.split_at_mut(image_len);
            sums.fill(0.0);
            for sample in index * chunk..((index + 1) * chunk).min(batch) {
                let x = &x[sample * x_len..][..x_len];
                let dy = &dy[sample * dy_len..][..dy_len];
                for (block, sums) in sums.chunks_exact_mut(block_len).enumerate() {
                    let count = lanes.min(channels - block * lanes);
                    self.gather(x, block * lanes, count, image);
                    let dy = &dy[block * lanes * pixels..];
                    transpose(isa, dy, [count, pixels], pixels, gradient, lanes);
                    DepthwiseWeightJob { grid: part.grid(image), gradient }.run(isa, sums);
                }
            }
        });
        let (total, others) = sums.split_at_mut(all_sums);
        for other in others.chunks_exact(all_sums) {
            total.iter_mut().zip(other).for_each(|(total, other)| *total += other);
        }
        for (channel, dw) in dw.chunks_exact_mut(part.taps.len()).enumerate() {
            let sums = &total[channel / lanes * block_len + channel % lanes..];
            for (dw, sum) in dw.iter_mut().zip(sums.iter().step_by(lanes)) {
                *dw = *sum;
            }
        }
    }

    /// The padded pixels of some channels of a sample.
    fn gather(&self, sample: &[f32], channel: usize, count: usize, to: &mut [f32]) {
        let plane = self.image[0] * self.image[1];
        let first = self.padded.before.map(|before| -(before as isize));
        let planes = &sample[channel * plane..][..count * plane];
        let filled = [count, self.isa.lanes()];
        by_pixel(self.isa, planes, plane, filled, self.image, first, self.padded.size, to);
    }
}

impl Part {
    fn new(
        taps: Vec<(u32, usize)>,
        count: [usize; 2],
        step: [usize; 2],
        first: usize,
        output_step: [usize; 2],
    ) -> Self {
        let offsets = taps.iter().map(|&(offset, _)| offset).collect();
        Self { taps, offsets, count, step, first, output_step }
    }

    fn grid<'a>(&'a self, image: &'a [f32]) -> Grid<'a> {
        let [rows, columns] = self.count;
        let [row_step, column_step] = self.step;
        Grid { image, taps: &self.offsets, rows, columns, row_step, column_step }
    }
}
