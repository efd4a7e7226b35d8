//! Winograd's algorithm over a volume: F(4×4, 3×3) on every slice, summed over the depth of the
//! kernel at the points.
//!
//! A slice's tiles are transformed once for all taps of the depth, so that a kernel of
//! 3×3×3 takes a quarter of its products, for a third of the transforms that each image would take.

use updraft_simd::Isa;

use super::image::spread;
use super::transform::{POINTS, RESULTS, Squares, TAPS, Transform, TransformJob};
use crate::kernels::direct::TileJob;
use crate::kernels::image::transpose_to_planes;
use crate::kernels::packing::by_pixel_of;
use crate::kernels::scratch::CACHE_LINE;
use crate::kernels::volume::Plan;

/// Numbers of the points that are computed together if the weights' points are fewer.
const TOGETHER: usize = 128 << 10;

/// The same if they are more numerous, so that both factors are read for more products.
const MOST_TOGETHER: usize = 1 << 20;

/// Sums over windows of three by three and any depth, for one group of a sample.
#[derive(Debug, Clone)]
pub(crate) struct VolumeWinograd {
    pub(super) isa: Isa,
    /// Of the volume that is read, and of the results.
    pub(super) channels: [usize; 2],
    image: [usize; 3],
    pub(super) grid: [usize; 3],
    /// The start of the first window in the volume.
    first: [isize; 3],
    /// The offset of each tap of the depth from the window's start.
    depth: Vec<usize>,
    /// Slices from one window to the next.
    pub(super) step: usize,
    /// Rows of tiles that are computed together.
    pub(super) strip: usize,
    /// Slices of results that are computed together.
    pub(super) together: usize,
}

impl VolumeWinograd {
    /// The sums of a plan of one phase whose kernel is 3 by 3 in each slice.
    pub(crate) fn of(isa: Isa, plan: &Plan) -> Self {
        let first = [0, 1, 2].map(|axis: usize| {
            let taps = &plan.phases[axis][0].taps;
            taps.first().map_or(0, |tap| tap.1) as isize - plan.before[axis] as isize
        });
        let taps = &plan.phases[0][0].taps;
        let depth: Vec<usize> = taps.iter().map(|tap| tap.1 - taps[0].1).collect();
        let (step, grid) = (plan.window_step[0], plan.results);
        let [rows, columns] = [grid[1], grid[2]].map(|pixels| pixels.div_ceil(RESULTS));
        let filled = plan.channels.map(|channels| channels.next_multiple_of(isa.lanes()));
        let weights = POINTS * POINTS * plan.channels[0] * depth.len() * filled[1];
        let numbers = weights.clamp(TOGETHER, MOST_TOGETHER);
        let reach = depth.last().copied().unwrap_or(0);
        let of_row = POINTS * POINTS * filled[0] * columns;
        let strip = (numbers / (of_row * (reach + 2))).clamp(1, rows);
        let slices = (numbers / (of_row * strip)).saturating_sub(reach + 1);
        let together = (slices / step + 1).clamp(1, grid[0]);
        Self {
            isa,
            channels: plan.channels,
            image: plan.image,
            grid,
            first,
            depth,
            step,
            strip,
            together,
        }
    }

    /// The same for at most so many slices together.
    pub(crate) fn with_at_most(self, slices: usize) -> Self {
        Self { together: self.together.min(slices.max(1)), ..self }
    }

    /// Numbers of the transformed [`weights`](Self::weights), and of a thread's work space for
    /// [`run`](Self::run).
    pub(crate) fn lens(&self) -> [usize; 2] {
        [POINTS * POINTS * self.weight_pitch(), self.parts(self.pair()).iter().sum()]
    }

    /// Transforms weights, `[blocks][channels][depth][3][3][lanes]`.
    pub(crate) fn weights(&self, packed: &[f32], to: &mut [f32]) {
        let (lanes, pitch, inputs) = (self.isa.lanes(), self.weight_pitch(), self.kernels());
        let taps = TAPS * TAPS * lanes;
        let job = TransformJob {
            transform: Transform::Weights,
            input: packed,
            count: [self.channels[1].div_ceil(lanes), inputs],
            channels: lanes,
            from: Squares { apart: [inputs * taps, taps], step: [TAPS * lanes, lanes] },
            to: Squares { apart: [inputs * lanes, lanes], step: [POINTS * pitch, pitch] },
        };
        job.run(self.isa, to);
    }

    /// Computes all slices of the channels, the first of which is `first` of the results, and
    /// returns which of them are not finite: a number that is not, or a sum that left the range of
    /// f32, may have reached results of its tile that it does not belong to.
    pub(crate) fn run(
        &self,
        image: &[f32],
        weights: &[f32],
        start: &[f32],
        first: usize,
        channels: &mut [&mut [f32]],
        own: &mut [f32],
    ) -> Vec<bool> {
        let Self { grid: [_, height, width], strip, together, .. } = *self;
        let slices = channels[0].len() / (height * width);
        let mut not_finite = vec![false; slices];
        let [tile_rows, tile_columns] = self.tiles();
        let [image_len, points_len, products_len, _] = self.parts(self.pair());
        let (pixels, own) = own.split_at_mut(image_len);
        let (points, own) = own.split_at_mut(points_len);
        let (products, results) = own.split_at_mut(products_len);
        for row in (0..tile_rows).step_by(strip) {
            let rows = strip.min(tile_rows - row);
            let tiles = rows * tile_columns;
            let offsets = self.offsets(tiles);
            let mut held = 0;
            for block in (0..slices).step_by(together) {
                let count = together.min(slices - block);
                let at = [first + block, row, rows];
                held = self.advance(image, at, [held, count], pixels, points);
                for channel in (0..self.channels[1]).step_by(self.pair()) {
                    let end = self.channels[1].min(channel + self.pair());
                    let blocks = (end - channel).next_multiple_of(self.isa.lanes());
                    let of = [channel, blocks];
                    self.products(points, [count, tiles], &offsets, weights, of, products);
                    for slice in 0..count {
                        let products = &products[slice * tiles * blocks..];
                        let is_finite = self.results(products, rows, blocks, results);
                        not_finite[block + slice] |= !is_finite;
                        let planes = &mut channels[channel..end];
                        let at = [block + slice, row, rows];
                        self.write(results, at, blocks, &start[channel..end], planes);
                    }
                }
            }
        }
        not_finite
    }

    /// Prepares the points of the slices that a block of results reads;
    /// those that the block before has read too are moved, not computed again.
    /// Returns how many slices there are.
    pub(super) fn advance(
        &self,
        image: &[f32],
        [first, row, rows]: [usize; 3],
        [held, count]: [usize; 2],
        pixels: &mut [f32],
        points: &mut [f32],
    ) -> usize {
        let [pitch, _] = self.pitches(0);
        let len = rows * self.tiles()[1] * self.filled()[0];
        let moved = self.together * self.step;
        let kept = held.saturating_sub(moved);
        if kept > 0 {
            for points in points.chunks_exact_mut(pitch) {
                points.copy_within(moved * len..(moved + kept) * len, 0);
            }
        }
        let needed = (count - 1) * self.step + self.reach() + 1;
        for slice in kept..needed {
            let depth = self.first[0] + (first * self.step + slice) as isize;
            self.image_points(image, depth, [row, rows], pixels, &mut points[slice * len..]);
        }
        needed.max(kept)
    }

    /// At each point, the tiles of some slices times the weights of the channels from `first` on.
    fn products(
        &self,
        points: &[f32],
        [slices, tiles]: [usize; 2],
        offsets: &[u32],
        weights: &[f32],
        [first, width]: [usize; 2],
        products: &mut [f32],
    ) {
        let inputs = self.kernels();
        let filled = self.filled()[0];
        let [points_pitch, products_pitch] = self.pitches(self.pair());
        // Without a step, the tiles of one slice start where those of the other end.
        let [rows, columns] = if self.step == 1 { [1, slices * tiles] } else { [slices, tiles] };
        for (point, weights) in weights.chunks_exact(self.weight_pitch()).enumerate() {
            let job = TileJob {
                image: &points[point * points_pitch..][..points_pitch],
                origin: 0,
                taps: offsets,
                weights: &weights[first * inputs..][..inputs * width],
                start: &[0.0; 32][..width],
                blocks: width / self.isa.lanes(),
                rows,
                columns,
                row_step: self.step * tiles * filled,
                column_step: filled,
                output_row: tiles * width,
                output_column: width,
            };
            job.run(self.isa, &mut products[point * products_pitch..][..products_pitch]);
        }
    }

    /// The results of some rows of tiles by pixel, and whether all of them are finite.
    fn results(&self, products: &[f32], rows: usize, width: usize, results: &mut [f32]) -> bool {
        let [_, pitch] = self.pitches(self.pair());
        let columns = self.tiles()[1];
        let line = RESULTS * columns * width;
        let job = TransformJob {
            transform: Transform::Results,
            input: products,
            count: [rows, columns],
            channels: width,
            from: Squares { apart: [columns * width, width], step: [POINTS * pitch, pitch] },
            to: Squares { apart: [RESULTS * line, RESULTS * width], step: [line, width] },
        };
        job.run(self.isa, results)
    }

    /// Writes some rows of tiles of a slice into their channels, each channel with
    /// its initial value added.
    fn write(
        &self,
        results: &[f32],
        [slice, row, rows]: [usize; 3],
        width: usize,
        start: &[f32],
        channels: &mut [&mut [f32]],
    ) {
        let Self { isa, grid: [_, height, columns], .. } = *self;
        let first = slice * height * columns + row * RESULTS * columns;
        let rows = (rows * RESULTS).min(height - row * RESULTS);
        let all = first..first + rows * columns;
        if columns.is_multiple_of(RESULTS) {
            transpose_to_planes(isa, results, width, all.clone(), channels);
        } else {
            let lines = results.chunks(RESULTS * self.tiles()[1] * width).take(rows);
            for (line, from) in lines.enumerate() {
                let first = first + line * columns;
                transpose_to_planes(isa, from, width, first..first + columns, channels);
            }
        }
        for (channel, &start) in channels.iter_mut().zip(start) {
            if start != 0.0 {
                channel[all.clone()].iter_mut().for_each(|sum| *sum += start);
            }
        }
    }

    /// The points of the tiles of some rows of a slice; zeros beyond the volume.
    fn image_points(
        &self,
        image: &[f32],
        depth: isize,
        [row, rows]: [usize; 2],
        pixels: &mut [f32],
        points: &mut [f32],
    ) {
        let (filled, tiles) = (self.filled()[0], self.tiles());
        let [pitch, _] = self.pitches(0);
        let [slices, height, width] = self.image;
        let Some(depth) = usize::try_from(depth).ok().filter(|&depth| depth < slices) else {
            let len = rows * tiles[1] * filled;
            points.chunks_mut(pitch).take(POINTS * POINTS).for_each(|of| of[..len].fill(0.0));
            return;
        };
        let size = [rows * RESULTS + TAPS - 1, tiles[1] * RESULTS + TAPS - 1];
        let first = [self.first[1] + (row * RESULTS) as isize, self.first[2]];
        let (channels, plane) = ([self.channels[0], filled], slices * height * width);
        let image = &image[depth * height * width..];
        by_pixel_of(self.isa, image, plane, channels, [height, width], first, size, pixels);
        let job = TransformJob {
            transform: Transform::Input,
            input: pixels,
            count: [rows, tiles[1]],
            channels: filled,
            from: Squares {
                apart: [RESULTS * size[1] * filled, RESULTS * filled],
                step: [size[1] * filled, filled],
            },
            to: Squares { apart: [tiles[1] * filled, filled], step: [POINTS * pitch, pitch] },
        };
        job.run(self.isa, points);
    }

    /// The offsets of the numbers that a tile's point is multiplied by, by channel and depth, if
    /// slices have so many tiles.
    pub(super) fn offsets(&self, tiles: usize) -> Vec<u32> {
        let slice = tiles * self.filled()[0];
        let channels = 0..self.channels[0];
        let of = |channel| self.depth.iter().map(move |depth| (depth * slice + channel) as u32);
        channels.flat_map(of).collect()
    }

    /// Kernels of 3 by 3 that each channel of results has.
    pub(super) fn kernels(&self) -> usize {
        self.channels[0] * self.depth.len()
    }

    /// The furthest tap of the depth.
    fn reach(&self) -> usize {
        self.depth.last().copied().unwrap_or(0)
    }

    /// Rows and columns of tiles of a slice.
    pub(super) fn tiles(&self) -> [usize; 2] {
        [self.grid[1], self.grid[2]].map(|pixels| pixels.div_ceil(RESULTS))
    }

    /// Channels, rounded up to whole vectors.
    pub(super) fn filled(&self) -> [usize; 2] {
        self.channels.map(|channels| channels.next_multiple_of(self.isa.lanes()))
    }

    /// Channels of results that are computed together: as many as a register tile has.
    fn pair(&self) -> usize {
        (2 * self.isa.lanes()).min(self.filled()[1])
    }

    /// From one point's numbers to the next's: of the volume, and of so many channels of results.
    pub(super) fn pitches(&self, outputs: usize) -> [usize; 2] {
        let tiles = self.strip * self.tiles()[1];
        let slices = (self.together - 1) * self.step + self.reach() + 1;
        [spread(slices * tiles * self.filled()[0]), spread(self.together * tiles * outputs)]
    }

    /// From one point's weights, or their gradients, to the next's.
    pub(super) fn weight_pitch(&self) -> usize {
        spread(self.kernels() * self.filled()[1])
    }

    /// Sizes of the work space: pixels of a slice, points, points of so many channels
    /// of results, and those channels' pixels of a slice.
    pub(super) fn parts(&self, outputs: usize) -> [usize; 4] {
        let (rows, columns) = (self.strip * RESULTS, self.tiles()[1] * RESULTS);
        let pixels = (rows + TAPS - 1) * (columns + TAPS - 1) * self.filled()[0];
        let [points, products] = self.pitches(outputs).map(|pitch| POINTS * POINTS * pitch);
        let line = |count: usize| count.next_multiple_of(CACHE_LINE);
        [line(pixels), points, products, line(rows * columns * outputs)]
    }
}
