//! Winograd's algorithm over an image: three by three windows by a quarter of the products.
//!
//! A strip of the image becomes pixels of channels, its tiles become 36 points each, and at each
//! point all tiles are multiplied by all weights; what comes out is turned into results and back
//! into planes while it is in the cache.

use super::cpu::{
    POINTS, RESULTS, Squares, TAPS, TileJob, Transform, TransformJob, WeightJob, lanes, transpose,
};
use super::geometry::{Algorithm, ConvGeometry};
use super::path::Path;
use super::scratch::CACHE_LINE;

/// Numbers of a strip's points, which the second-level cache has to hold beside the weights.
const STRIP: usize = 128 << 10;

/// Sums over windows of three by three, side by side, for one group of a sample.
#[derive(Debug, Clone)]
pub(crate) struct Winograd {
    path: Path,
    /// Of the image and of the results.
    channels: [usize; 2],
    /// Height and width of the image.
    image: [usize; 2],
    /// Height and width of the results.
    grid: [usize; 2],
    /// Row and column of the image where the first window starts.
    first: [isize; 2],
    /// Rows of tiles that are computed together.
    strip: usize,
    /// Where each channel of a tile's point lies.
    offsets: Vec<u32>,
}

impl Winograd {
    /// The forward pass, if the geometry is computed so.
    pub(crate) fn forward(path: Path, geometry: &ConvGeometry) -> Option<Self> {
        let first = geometry.shape().padding.map(|padding| -(padding as isize));
        let channels = geometry.shape().channels;
        Self::of(path, geometry, channels, geometry.shape().input, geometry.output(), first)
    }

    /// The input's gradient, if the geometry is computed so: the same over the output's gradient,
    /// with the kernel turned around.
    pub(crate) fn input_gradient(path: Path, geometry: &ConvGeometry) -> Option<Self> {
        let first = geometry.shape().padding.map(|padding| padding as isize - (TAPS - 1) as isize);
        let [inputs, outputs] = geometry.shape().channels;
        let channels = [outputs, inputs];
        Self::of(path, geometry, channels, geometry.output(), geometry.shape().input, first)
    }

    fn of(
        path: Path,
        geometry: &ConvGeometry,
        channels: [usize; 2],
        image: [usize; 2],
        grid: [usize; 2],
        first: [isize; 2],
    ) -> Option<Self> {
        if geometry.algorithm() != Algorithm::Winograd {
            return None;
        }
        let channels = channels.map(|channels| channels / geometry.shape().groups);
        let of_row = POINTS * POINTS * channels[0] * grid[1].div_ceil(RESULTS);
        let strip = (STRIP / of_row).clamp(1, grid[0].div_ceil(RESULTS));
        let offsets = (0..channels[0] as u32).collect();
        Some(Self { path, channels, image, grid, first, strip, offsets })
    }

    /// Numbers of the transformed [`weights`](Self::weights), and of what a thread works in for
    /// [`planes`](Self::planes).
    pub(crate) fn lens(&self) -> [usize; 2] {
        [POINTS * POINTS * self.weight_pitch(), self.parts(self.pair()).iter().sum()]
    }

    /// Numbers that a thread keeps from one sample to the next, and of what it works in, for
    /// [`add_gradient`](Self::add_gradient).
    pub(crate) fn gradient_lens(&self) -> [usize; 2] {
        [POINTS * POINTS * self.weight_pitch(), self.parts(self.filled()[1]).iter().sum()]
    }

    /// Transforms weights, `[blocks][channels][3][3][lanes]`.
    pub(crate) fn weights(&self, packed: &[f32], to: &mut [f32]) {
        let (lanes, pitch) = (lanes(self.path), self.weight_pitch());
        let [inputs, outputs] = self.channels;
        let taps = TAPS * TAPS * lanes;
        let job = TransformJob {
            transform: Transform::Weights,
            input: packed,
            count: [outputs.div_ceil(lanes), inputs],
            channels: lanes,
            from: Squares { apart: [inputs * taps, taps], step: [TAPS * lanes, lanes] },
            to: Squares { apart: [inputs * lanes, lanes], step: [POINTS * pitch, pitch] },
        };
        job.run(self.path, to);
    }

    /// Computes the planes of a sample from its image, and says whether all of them are finite.
    ///
    /// Where it is not, a number that is not finite, or a sum that left the range of f32, may have
    /// reached results of its tile that it does not belong to.
    pub(crate) fn planes(
        &self,
        image: &[f32],
        weights: &[f32],
        start: &[f32],
        own: &mut [f32],
        planes: &mut [f32],
    ) -> bool {
        let Self { path, grid, strip, .. } = *self;
        let [inputs, outputs] = self.channels;
        let (lanes, weight_pitch) = (lanes(path), self.weight_pitch());
        let tiles = self.tiles();
        let plane = grid[0] * grid[1];
        let [image_len, points_len, results_len, _] = self.parts(self.pair());
        let (pixels, own) = own.split_at_mut(image_len);
        let (points, own) = own.split_at_mut(points_len);
        let (products, results) = own.split_at_mut(results_len);
        let [points_pitch, products_pitch] = self.pitches(self.pair());
        let mut are_finite = true;
        for row in (0..tiles[0]).step_by(strip) {
            let rows = strip.min(tiles[0] - row);
            let tile_count = rows * tiles[1];
            self.image_points(image, row, rows, pixels, points);
            for block in (0..outputs).step_by(self.pair()) {
                let own_outputs = self.pair().min(outputs - block);
                let width = own_outputs.next_multiple_of(lanes);
                for point in 0..POINTS * POINTS {
                    let weights = &weights[point * weight_pitch + block * inputs..];
                    let job = TileJob {
                        image: &points[point * points_pitch..][..points_pitch],
                        origin: 0,
                        taps: &self.offsets,
                        weights: &weights[..inputs * width],
                        start: &[0.0; 32][..width],
                        blocks: width / lanes,
                        rows: 1,
                        columns: tile_count,
                        row_step: 0,
                        column_step: self.filled()[0],
                        output_row: 0,
                        output_column: width,
                    };
                    job.run(path, &mut products[point * products_pitch..][..products_pitch]);
                }
                let line = RESULTS * tiles[1] * width;
                let job = TransformJob {
                    transform: Transform::Results,
                    input: products,
                    count: [rows, tiles[1]],
                    channels: width,
                    from: Squares {
                        apart: [tiles[1] * width, width],
                        step: [POINTS * products_pitch, products_pitch],
                    },
                    to: Squares { apart: [RESULTS * line, RESULTS * width], step: [line, width] },
                };
                are_finite &= job.run(path, results);
                let first = row * RESULTS;
                let own_rows = (rows * RESULTS).min(grid[0] - first);
                let planes = &mut planes[block * plane + first * grid[1]..];
                if grid[1].is_multiple_of(RESULTS) {
                    let size = [own_rows * grid[1], own_outputs];
                    transpose(path, results, size, width, planes, plane);
                } else {
                    for row in 0..own_rows {
                        let (from, to) = (&results[row * line..], &mut planes[row * grid[1]..]);
                        transpose(path, from, [grid[1], own_outputs], width, to, plane);
                    }
                }
                let starts = &start[block..][..own_outputs];
                for (plane, &start) in planes.chunks_mut(plane).zip(starts) {
                    if start != 0.0 {
                        plane[..own_rows * grid[1]].iter_mut().for_each(|sum| *sum += start);
                    }
                }
            }
        }
        are_finite
    }

    /// Adds a sample's products to what a thread keeps: `[points][channels][channels]`.
    pub(crate) fn add_gradient(&self, x: &[f32], dy: &[f32], own: &mut [f32], kept: &mut [f32]) {
        let Self { path, grid, strip, .. } = *self;
        let [inputs, outputs] = self.filled();
        let tiles = self.tiles();
        let [image_len, points_len, gradient_len, _] = self.parts(outputs);
        let (pixels, own) = own.split_at_mut(image_len);
        let (points, own) = own.split_at_mut(points_len);
        let (gradients, dy_pixels) = own.split_at_mut(gradient_len);
        let [points_pitch, gradient_pitch] = self.pitches(outputs);
        for row in (0..tiles[0]).step_by(strip) {
            let rows = strip.min(tiles[0] - row);
            self.image_points(x, row, rows, pixels, points);
            let size = [rows * RESULTS, tiles[1] * RESULTS];
            let first = [(row * RESULTS) as isize, 0];
            by_pixel(path, dy, [self.channels[1], outputs], grid, first, size, dy_pixels);
            let job = TransformJob {
                transform: Transform::Gradient,
                input: dy_pixels,
                count: [rows, tiles[1]],
                channels: outputs,
                from: Squares {
                    apart: [RESULTS * size[1] * outputs, RESULTS * outputs],
                    step: [size[1] * outputs, outputs],
                },
                to: Squares {
                    apart: [tiles[1] * outputs, outputs],
                    step: [POINTS * gradient_pitch, gradient_pitch],
                },
            };
            job.run(path, gradients);
            let kept = kept.chunks_exact_mut(self.weight_pitch());
            for (point, kept) in kept.enumerate().take(POINTS * POINTS) {
                let job = WeightJob {
                    image: &points[point * points_pitch..][..points_pitch],
                    origin: 0,
                    runs: &self.offsets,
                    run_len: 1,
                    gradient: &gradients[point * gradient_pitch..][..gradient_pitch],
                    blocks: outputs / lanes(path),
                    rows: 1,
                    columns: rows * tiles[1],
                    row_step: 0,
                    column_step: inputs,
                };
                job.run(path, kept);
            }
        }
    }

    /// Turns what a thread keeps into gradients of weights, `[channels][3][3][channels]`, and says
    /// whether all of them are finite.
    pub(crate) fn weight_gradients(&self, kept: &[f32], sums: &mut [f32]) -> bool {
        let (outputs, pitch) = (self.filled()[1], self.weight_pitch());
        let job = TransformJob {
            transform: Transform::WeightGradient,
            input: kept,
            count: [1, self.channels[0]],
            channels: outputs,
            from: Squares { apart: [0, outputs], step: [POINTS * pitch, pitch] },
            to: Squares { apart: [0, TAPS * TAPS * outputs], step: [TAPS * outputs, outputs] },
        };
        job.run(self.path, sums)
    }

    /// The points of the tiles of some rows.
    fn image_points(
        &self,
        image: &[f32],
        row: usize,
        rows: usize,
        pixels: &mut [f32],
        points: &mut [f32],
    ) {
        let (filled, tiles) = (self.filled()[0], self.tiles());
        let [pitch, _] = self.pitches(0);
        let size = [rows * RESULTS + TAPS - 1, tiles[1] * RESULTS + TAPS - 1];
        let first = [self.first[0] + (row * RESULTS) as isize, self.first[1]];
        by_pixel(self.path, image, [self.channels[0], filled], self.image, first, size, pixels);
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
        job.run(self.path, points);
    }

    /// Rows and columns of tiles.
    fn tiles(&self) -> [usize; 2] {
        self.grid.map(|pixels| pixels.div_ceil(RESULTS))
    }

    /// Channels as whole vectors hold them.
    fn filled(&self) -> [usize; 2] {
        self.channels.map(|channels| channels.next_multiple_of(lanes(self.path)))
    }

    /// Channels of results that are computed together: as many as a register tile has.
    fn pair(&self) -> usize {
        (2 * lanes(self.path)).min(self.filled()[1])
    }

    /// From one point's numbers to the next's: of the image, and of so many channels of results.
    fn pitches(&self, outputs: usize) -> [usize; 2] {
        let tiles = self.strip * self.tiles()[1];
        [spread(tiles * self.filled()[0]), spread(tiles * outputs)]
    }

    /// From one point's weights, or their gradients, to the next's.
    fn weight_pitch(&self) -> usize {
        spread(self.channels[0] * self.filled()[1])
    }

    /// Numbers of a strip: its pixels, its points, and those of so many channels of results.
    fn parts(&self, outputs: usize) -> [usize; 4] {
        let (rows, columns) = (self.strip * RESULTS, self.tiles()[1] * RESULTS);
        let pixels = (rows + TAPS - 1) * (columns + TAPS - 1) * self.filled()[0];
        let [points, products] = self.pitches(outputs).map(|pitch| POINTS * POINTS * pitch);
        let line = |count: usize| count.next_multiple_of(CACHE_LINE);
        [line(pixels), points, products, line(rows * columns * outputs)]
    }
}

/// A pitch of at least so many numbers with which the points do not share sets of a cache: an odd
/// number of cache lines.
fn spread(count: usize) -> usize {
    (count.div_ceil(CACHE_LINE) | 1) * CACHE_LINE
}

/// Copies a part of an image, which may reach over it into zeros: `[rows][columns][filled]`.
fn by_pixel(
    path: Path,
    image: &[f32],
    [channels, filled]: [usize; 2],
    [height, width]: [usize; 2],
    first: [isize; 2],
    [rows, columns]: [usize; 2],
    to: &mut [f32],
) {
    let inside = |axis: usize, count: usize, size: usize| {
        let from = first[axis].clamp(0, size as isize);
        let before = ((from - first[axis]) as usize).min(count);
        (from as usize, before, (count - before).min(size - from as usize))
    };
    let (top, above, own_rows) = inside(0, rows, height);
    let (left, before, own_columns) = inside(1, columns, width);
    for (row, line) in to.chunks_exact_mut(columns * filled).take(rows).enumerate() {
        if filled > channels || !(above..above + own_rows).contains(&row) || own_columns == 0 {
            line.fill(0.0);
            continue;
        }
        line[..before * filled].fill(0.0);
        line[(before + own_columns) * filled..].fill(0.0);
    }
    if own_columns == 0 {
        return;
    }
    let plane = height * width;
    // Vector by vector of channels, whose planes are then read one row after the other.
    for channel in (0..channels).step_by(lanes(path)) {
        let count = lanes(path).min(channels - channel);
        for row in 0..own_rows {
            let from = &image[channel * plane + (top + row) * width + left..];
            let to = &mut to[((above + row) * columns + before) * filled + channel..];
            transpose(path, from, [count, own_columns], plane, to, filled);
        }
    }
}
