//! Winograd's algorithm over an image: three by three windows with a quarter of the products.
//!
//! A strip of the image is transposed to pixels of channels, and its tiles to 36 points each; at
//! each point all tiles are multiplied by all weights, and the results are written as planes.

use updraft_simd::Isa;

use super::transform::{POINTS, RESULTS, Squares, TAPS, Transform, TransformJob};
use crate::kernels::direct::{TileJob, WeightJob};
use crate::kernels::geometry::ConvGeometry;
use crate::kernels::image::transpose;
use crate::kernels::packing::by_pixel;
use crate::kernels::scratch::CACHE_LINE;

/// Numbers of a strip's points: fewer would read the weights more often, more would not fit the
/// second-level cache. Of 64, 128 and 256 thousand this was the best on an EPYC of 512 KiB.
const STRIP: usize = 128 << 10;

/// The most samples that are computed together.
const TOGETHER: usize = 32;

/// Sums over windows of three by three, side by side, for one group of a sample.
#[derive(Debug, Clone)]
pub(crate) struct Winograd {
    isa: Isa,
    /// Channels of the image and of the results.
    channels: [usize; 2],
    /// Height and width of the image.
    image: [usize; 2],
    /// Height and width of the results.
    grid: [usize; 2],
    /// Row and column of the image where the first window starts.
    first: [isize; 2],
    /// Rows of tiles that are computed together.
    strip: usize,
    /// Samples that are computed together; strips of several are whole.
    together: usize,
    /// The offset of each channel of a tile's point.
    offsets: Vec<u32>,
}

impl Winograd {
    /// The forward pass.
    pub(crate) fn forward(isa: Isa, geometry: &ConvGeometry) -> Self {
        let first = geometry.shape().padding.map(|padding| -(padding as isize));
        let channels = geometry.shape().channels;
        Self::of(isa, geometry, channels, geometry.shape().input, geometry.output(), first)
    }

    /// The input's gradient: the same over the output's gradient, with the kernel rotated by 180°.
    pub(crate) fn input_gradient(isa: Isa, geometry: &ConvGeometry) -> Self {
        let first = geometry.shape().padding.map(|padding| padding as isize - (TAPS - 1) as isize);
        let [inputs, outputs] = geometry.shape().channels;
        let channels = [outputs, inputs];
        Self::of(isa, geometry, channels, geometry.output(), geometry.shape().input, first)
    }

    fn of(
        isa: Isa,
        geometry: &ConvGeometry,
        channels: [usize; 2],
        image: [usize; 2],
        grid: [usize; 2],
        first: [isize; 2],
    ) -> Self {
        let channels = channels.map(|channels| channels / geometry.shape().groups);
        let of_row = POINTS * POINTS * channels[0] * grid[1].div_ceil(RESULTS);
        let rows = grid[0].div_ceil(RESULTS);
        let strip = (STRIP / of_row).clamp(1, rows);
        let together = (STRIP / (of_row * rows)).clamp(1, TOGETHER);
        let offsets = (0..channels[0] as u32).collect();
        Self { isa, channels, image, grid, first, strip, together, offsets }
    }

    /// The same for at most so many samples together.
    pub(crate) fn with_at_most(self, samples: usize) -> Self {
        Self { together: self.together.min(samples), ..self }
    }

    /// Samples that are computed together.
    pub(crate) const fn together(&self) -> usize {
        self.together
    }

    /// Tiles that are multiplied by the same weights.
    pub(crate) fn tiles_together(&self) -> usize {
        self.together * self.strip * self.tiles()[1]
    }

    /// Numbers of the transformed [`weights`](Self::weights), and of a thread's work space for
    /// [`planes`](Self::planes).
    pub(crate) fn lens(&self) -> [usize; 2] {
        [POINTS * POINTS * self.weight_pitch(), self.parts(self.pair()).iter().sum()]
    }

    /// Numbers that a thread keeps from one sample to the next, and of its work space, for
    /// [`add_gradient`](Self::add_gradient).
    pub(crate) fn gradient_lens(&self) -> [usize; 2] {
        [POINTS * POINTS * self.weight_pitch(), self.parts(self.filled()[1]).iter().sum()]
    }

    /// Transforms weights, `[blocks][channels][3][3][lanes]`.
    pub(crate) fn weights(&self, packed: &[f32], to: &mut [f32]) {
        let (lanes, pitch) = (self.isa.lanes(), self.weight_pitch());
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
        job.run(self.isa, to);
    }

    /// Computes the planes of some samples, and returns which of them have a result that is not
    /// finite: their bits are set.
    ///
    /// Such a number, or a sum that left the range of f32, may have reached results of its tile
    /// that it does not belong to.
    ///
    /// # Panics
    /// If these are more samples than are computed [`together`](Self::together).
    pub(crate) fn planes<'a>(
        &self,
        image: impl Fn(usize) -> &'a [f32],
        weights: &[f32],
        start: &[f32],
        own: &mut [f32],
        planes: &mut [&mut [f32]],
    ) -> u32 {
        let Self { grid, strip, .. } = *self;
        assert!(planes.len() <= self.together, "more samples than there is room for");
        let outputs = self.channels[1];
        let tiles = self.tiles();
        let [image_len, points_len, products_len, _] = self.parts(self.pair());
        let (pixels, own) = own.split_at_mut(image_len);
        let (points, own) = own.split_at_mut(points_len);
        let (products, results) = own.split_at_mut(products_len);
        let mut not_finite = 0;
        for row in (0..tiles[0]).step_by(strip) {
            let rows = strip.min(tiles[0] - row);
            let of_sample = rows * tiles[1];
            for sample in 0..planes.len() {
                let points = &mut points[sample * of_sample * self.filled()[0]..];
                self.image_points(image(sample), row, rows, pixels, points);
            }
            for block in (0..outputs).step_by(self.pair()) {
                let channels = block..outputs.min(block + self.pair());
                let width = channels.len().next_multiple_of(self.isa.lanes());
                let tile_count = planes.len() * of_sample;
                self.products(points, tile_count, weights, [block, width], products);
                for (sample, planes) in planes.iter_mut().enumerate() {
                    let products = &products[sample * of_sample * width..];
                    if !self.results(products, rows, width, results) {
                        not_finite |= 1 << sample;
                    }
                    let first = row * RESULTS;
                    let rows = (rows * RESULTS).min(grid[0] - first);
                    let planes = &mut planes[block * grid[0] * grid[1] + first * grid[1]..];
                    self.write(results, rows, width, &start[channels.clone()], planes);
                }
            }
        }
        not_finite
    }

    /// At each point, so many tiles times the weights of the channels from `first` on.
    fn products(
        &self,
        points: &[f32],
        tiles: usize,
        weights: &[f32],
        [first, width]: [usize; 2],
        products: &mut [f32],
    ) {
        let inputs = self.channels[0];
        let [points_pitch, products_pitch] = self.pitches(self.pair());
        let weights = weights.chunks_exact(self.weight_pitch());
        for (point, weights) in weights.enumerate() {
            let job = TileJob {
                image: &points[point * points_pitch..][..points_pitch],
                origin: 0,
                taps: &self.offsets,
                weights: &weights[first * inputs..][..inputs * width],
                start: &[0.0; 32][..width],
                blocks: width / self.isa.lanes(),
                rows: 1,
                columns: tiles,
                row_step: 0,
                column_step: self.filled()[0],
                output_row: 0,
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

    /// Writes results into some rows of their planes, with each plane's initial value added.
    fn write(&self, results: &[f32], rows: usize, width: usize, start: &[f32], planes: &mut [f32]) {
        let Self { isa, grid: [height, columns], .. } = *self;
        let plane = height * columns;
        if columns.is_multiple_of(RESULTS) {
            transpose(isa, results, [rows * columns, start.len()], width, planes, plane);
        } else {
            let lines = results.chunks(RESULTS * self.tiles()[1] * width).take(rows);
            for (row, line) in lines.enumerate() {
                let to = &mut planes[row * columns..];
                transpose(isa, line, [columns, start.len()], width, to, plane);
            }
        }
        for (plane, &start) in planes.chunks_mut(plane).zip(start) {
            if start != 0.0 {
                plane[..rows * columns].iter_mut().for_each(|sum| *sum += start);
            }
        }
    }

    /// Adds the products of some samples to the sums of a thread, `[points][channels][channels]`.
    ///
    /// # Panics
    /// If these are more samples than are computed [`together`](Self::together).
    pub(crate) fn add_gradient<'a>(
        &self,
        samples: usize,
        x: impl Fn(usize) -> &'a [f32],
        dy: impl Fn(usize) -> &'a [f32],
        own: &mut [f32],
        kept: &mut [f32],
    ) {
        assert!(samples <= self.together, "more samples than there is room for");
        let [inputs, outputs] = self.filled();
        let tiles = self.tiles();
        let [image_len, points_len, gradient_len, _] = self.parts(outputs);
        let (pixels, own) = own.split_at_mut(image_len);
        let (points, own) = own.split_at_mut(points_len);
        let (gradients, dy_pixels) = own.split_at_mut(gradient_len);
        let [points_pitch, gradient_pitch] = self.pitches(outputs);
        for row in (0..tiles[0]).step_by(self.strip) {
            let rows = self.strip.min(tiles[0] - row);
            let of_sample = rows * tiles[1];
            for sample in 0..samples {
                let points = &mut points[sample * of_sample * inputs..];
                self.image_points(x(sample), row, rows, pixels, points);
                let gradients = &mut gradients[sample * of_sample * outputs..];
                self.gradient_points(dy(sample), row, rows, dy_pixels, gradients);
            }
            let kept = kept.chunks_exact_mut(self.weight_pitch());
            for (point, kept) in kept.enumerate() {
                let job = WeightJob {
                    image: &points[point * points_pitch..][..points_pitch],
                    origin: 0,
                    runs: &self.offsets,
                    run_len: 1,
                    gradient: &gradients[point * gradient_pitch..][..gradient_pitch],
                    blocks: outputs / self.isa.lanes(),
                    rows: 1,
                    columns: samples * of_sample,
                    row_step: 0,
                    column_step: inputs,
                };
                job.run(self.isa, kept);
            }
        }
    }

    /// Converts the sums of a thread to gradients of weights, `[channels][3][3][channels]`, and
    /// returns whether all of them are finite.
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
        job.run(self.isa, sums)
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
        by_pixel(self.isa, image, [self.channels[0], filled], self.image, first, size, pixels);
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

    /// The points of the gradient of the results of some rows of tiles.
    fn gradient_points(
        &self,
        dy: &[f32],
        row: usize,
        rows: usize,
        pixels: &mut [f32],
        points: &mut [f32],
    ) {
        let (filled, tiles) = (self.filled()[1], self.tiles());
        let [_, pitch] = self.pitches(filled);
        let size = [rows * RESULTS, tiles[1] * RESULTS];
        let first = [(row * RESULTS) as isize, 0];
        by_pixel(self.isa, dy, [self.channels[1], filled], self.grid, first, size, pixels);
        let job = TransformJob {
            transform: Transform::Gradient,
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

    /// Rows and columns of tiles.
    fn tiles(&self) -> [usize; 2] {
        self.grid.map(|pixels| pixels.div_ceil(RESULTS))
    }

    /// Channels, rounded up to whole vectors.
    fn filled(&self) -> [usize; 2] {
        self.channels.map(|channels| channels.next_multiple_of(self.isa.lanes()))
    }

    /// Channels of results that are computed together: as many as a register tile has.
    fn pair(&self) -> usize {
        (2 * self.isa.lanes()).min(self.filled()[1])
    }

    /// From one point's numbers to the next's: of the image, and of so many channels of results.
    fn pitches(&self, outputs: usize) -> [usize; 2] {
        let tiles = self.tiles_together();
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

/// A pitch of at least this many numbers with which the points do not share sets of a cache: an odd
/// number of cache lines.
pub(super) fn spread(count: usize) -> usize {
    (count.div_ceil(CACHE_LINE) | 1) * CACHE_LINE
}
