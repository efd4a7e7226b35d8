//! Winograd's algorithm over a volume: F(4×4, 3×3) on every slice, summed over the depth of the
//! kernel at the points.
//!
//! A slice's tiles become points once for all taps of the depth, so that a kernel of 3×3×3 takes a
//! quarter of its products, for a third of the transforms that each image would take.

use std::ops::Range;

use updraft_simd::Isa;
use updraft_simd::winograd::{POINTS, RESULTS};

use super::tiles::{Products, Tiles};
use crate::kernels::image::transpose_to_planes;
use crate::kernels::volume::Plan;

/// Numbers of the points that are in memory together where the weights' points are fewer.
const TOGETHER: usize = 128 << 10;

/// The same if they are more numerous, so that both factors are read for more products.
const MOST_TOGETHER: usize = 1 << 20;

/// Sums over windows of three by three and any depth, for one group of a sample.
///
/// The planes of its tiles are slices.
#[derive(Debug, Clone)]
pub(crate) struct VolumeWinograd {
    tiles: Tiles,
    /// Slices of the volume that is read, and of the results.
    slices: [usize; 2],
    /// The slice where the first window starts.
    first: isize,
    /// Where each tap of the depth lies from the window's start.
    depth: Vec<usize>,
    /// Slices from one window to the next.
    step: usize,
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
        let (step, [_, image @ ..], [_, grid @ ..]) =
            (plan.window_step[0], plan.image, plan.results);
        let kernels = plan.channels[0] * depth.len();
        let tiles = Tiles {
            isa,
            channels: plan.channels,
            image,
            grid,
            first: [first[1], first[2]],
            kernels,
            strip: 1,
            planes: [1; 2],
        };
        let ([rows, columns], filled) = (tiles.count(), tiles.filled());
        let numbers = (POINTS * POINTS * kernels * filled[1]).clamp(TOGETHER, MOST_TOGETHER);
        let reach = depth.last().copied().unwrap_or(0);
        let of_row = POINTS * POINTS * filled[0] * columns;
        let strip = (numbers / (of_row * (reach + 2))).clamp(1, rows);
        let slices = (numbers / (of_row * strip)).saturating_sub(reach + 1);
        let together = (slices / step + 1).clamp(1, plan.results[0]);
        let slices = [plan.image[0], plan.results[0]];
        Self { tiles: Tiles { strip, ..tiles }, slices, first: first[0], depth, step }
            .holding(together)
    }

    /// The same for at most so many slices together.
    pub(crate) fn with_at_most(self, slices: usize) -> Self {
        let together = self.together().min(slices.max(1));
        self.holding(together)
    }

    /// With so many slices of results together.
    fn holding(mut self, together: usize) -> Self {
        self.tiles.planes = [self.needed(together), together];
        self
    }

    /// Slices of results that are computed together.
    const fn together(&self) -> usize {
        self.tiles.planes[1]
    }

    /// Slices that so many slices of results are computed from.
    fn needed(&self, results: usize) -> usize {
        (results - 1) * self.step + self.depth.last().copied().unwrap_or(0) + 1
    }

    /// Numbers of the transformed [`weights`](Self::weights), and of a thread's work space for
    /// [`run`](Self::run).
    pub(crate) fn lens(&self) -> [usize; 2] {
        self.tiles.lens()
    }

    /// Numbers that a thread keeps of a chunk, and of its work space, for
    /// [`add_gradient`](Self::add_gradient).
    pub(crate) fn gradient_lens(&self) -> [usize; 2] {
        self.tiles.gradient_lens()
    }

    /// Transforms weights, `[blocks][channels][depth][3][3][lanes]`.
    pub(crate) fn weights(&self, packed: &[f32], to: &mut [f32]) {
        self.tiles.weights(packed, to);
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
        let tiles = &self.tiles;
        let slices = channels[0].len() / (tiles.grid[0] * tiles.grid[1]);
        let mut not_finite = vec![false; slices];
        let [pixels, points, products, results] = tiles.split(own, tiles.pair());
        for row in (0..tiles.count()[0]).step_by(tiles.strip) {
            let rows = tiles.strip.min(tiles.count()[0] - row);
            let of_slice = rows * tiles.count()[1];
            let offsets = self.offsets(of_slice);
            let mut held = 0;
            for block in (0..slices).step_by(self.together()) {
                let count = self.together().min(slices - block);
                let at = [first + block, row, rows];
                held = self.advance(image, at, [held, count], pixels, points);
                let all = self.products(&offsets, count, of_slice);
                for channel in (0..tiles.channels[1]).step_by(tiles.pair()) {
                    let end = tiles.channels[1].min(channel + tiles.pair());
                    let width = (end - channel).next_multiple_of(tiles.isa.lanes());
                    tiles.multiply(points, all, weights, [channel, width], products);
                    for slice in 0..count {
                        let products = &products[slice * of_slice * width..];
                        let is_finite = tiles.results(products, rows, width, results);
                        not_finite[block + slice] |= !is_finite;
                        let planes = &mut channels[channel..end];
                        let at = [block + slice, row, rows];
                        self.write(results, at, width, &start[channel..end], planes);
                    }
                }
            }
        }
        not_finite
    }

    /// Computes the points of the slices that a block of results needs; those that the block before
    /// needed too are moved. Returns how many slices there are.
    fn advance(
        &self,
        image: &[f32],
        [first, row, rows]: [usize; 3],
        [held, count]: [usize; 2],
        pixels: &mut [f32],
        points: &mut [f32],
    ) -> usize {
        let tiles = &self.tiles;
        let [pitch, _] = tiles.pitches(0);
        let len = rows * tiles.count()[1] * tiles.filled()[0];
        let moved = self.together() * self.step;
        let kept = held.saturating_sub(moved);
        if kept > 0 {
            for points in points.chunks_exact_mut(pitch) {
                points.copy_within(moved * len..(moved + kept) * len, 0);
            }
        }
        let needed = self.needed(count);
        let plane = tiles.image[0] * tiles.image[1];
        for slice in kept..needed {
            let points = &mut points[slice * len..];
            let depth = self.first + (first * self.step + slice) as isize;
            match usize::try_from(depth).ok().filter(|&depth| depth < self.slices[0]) {
                Some(depth) => {
                    let (image, volume) = (&image[depth * plane..], self.slices[0] * plane);
                    tiles.input_points(image, volume, [row, rows], pixels, points);
                }
                // Zeros beyond the volume.
                None => {
                    let points = points.chunks_mut(pitch).take(POINTS * POINTS);
                    points.for_each(|points| points[..len].fill(0.0));
                }
            }
        }
        needed.max(kept)
    }

    /// The tiles of some slices.
    fn products<'a>(&self, offsets: &'a [u32], slices: usize, tiles: usize) -> Products<'a> {
        // With a step of 1, the tiles of one slice continue where those of the other end.
        let size = if self.step == 1 { [1, slices * tiles] } else { [slices, tiles] };
        Products { offsets, size, row_step: self.step * tiles }
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
        let Tiles { isa, grid: [height, columns], .. } = self.tiles;
        let first = slice * height * columns + row * RESULTS * columns;
        let rows = (rows * RESULTS).min(height - row * RESULTS);
        let all = first..first + rows * columns;
        if columns.is_multiple_of(RESULTS) {
            transpose_to_planes(isa, results, width, all.clone(), channels);
        } else {
            let lines = results.chunks(RESULTS * self.tiles.count()[1] * width).take(rows);
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

    /// Where the numbers of a tile's point lie that are multiplied, by channel and depth, if slices
    /// have so many tiles.
    fn offsets(&self, tiles: usize) -> Vec<u32> {
        let slice = tiles * self.tiles.filled()[0];
        let channels = 0..self.tiles.channels[0];
        let of = |channel| self.depth.iter().map(move |depth| (depth * slice + channel) as u32);
        channels.flat_map(of).collect()
    }

    /// Adds the products of some slices of results to what a thread keeps,
    /// `[points][channels][depth][channels]`.
    pub(crate) fn add_gradient(
        &self,
        image: &[f32],
        dy: &[f32],
        slices: Range<usize>,
        own: &mut [f32],
        kept: &mut [f32],
    ) {
        let tiles = &self.tiles;
        let outputs = tiles.filled()[1];
        let plane = tiles.grid[0] * tiles.grid[1];
        let [pixels, points, gradients, dy_pixels] = tiles.split(own, outputs);
        for row in (0..tiles.count()[0]).step_by(tiles.strip) {
            let rows = tiles.strip.min(tiles.count()[0] - row);
            let of_slice = rows * tiles.count()[1];
            let offsets = self.offsets(of_slice);
            let mut held = 0;
            for block in slices.clone().step_by(self.together()) {
                let count = self.together().min(slices.end - block);
                held = self.advance(image, [block, row, rows], [held, count], pixels, points);
                for slice in 0..count {
                    let gradients = &mut gradients[slice * of_slice * outputs..];
                    let (dy, volume) = (&dy[(block + slice) * plane..], self.slices[1] * plane);
                    tiles.gradient_points(dy, volume, [row, rows], dy_pixels, gradients);
                }
                let all = self.products(&offsets, count, of_slice);
                tiles.add_products(points, gradients, all, kept);
            }
        }
    }

    /// Turns what a thread keeps into gradients of weights, `[channels][depth][3][3][channels]`,
    /// and says whether all of them are finite.
    pub(crate) fn weight_gradients(&self, kept: &[f32], sums: &mut [f32]) -> bool {
        self.tiles.weight_gradients(kept, sums)
    }
}
