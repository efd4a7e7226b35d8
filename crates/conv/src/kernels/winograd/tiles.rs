//! Tiles of planes: how they become points, are multiplied there, and become results.

use updraft_simd::Isa;
use updraft_simd::pixels::by_pixel;
use updraft_simd::winograd::{POINTS, RESULTS, Squares, TAPS, Transform, TransformJob, spread};

use crate::kernels::direct::{TileJob, WeightJob};
use crate::kernels::scratch::CACHE_LINE;

/// Rows of tiles of some planes, for one group of channels.
#[derive(Debug, Clone)]
pub(super) struct Tiles {
    pub(super) isa: Isa,
    /// Channels that are read, and channels of the results.
    pub(super) channels: [usize; 2],
    /// Height and width of the planes that are read.
    pub(super) image: [usize; 2],
    /// Height and width of the planes of results.
    pub(super) grid: [usize; 2],
    /// Row and column where the first window starts.
    pub(super) first: [isize; 2],
    /// Kernels of 3 by 3 of each channel of results.
    pub(super) kernels: usize,
    /// Rows of tiles that are computed together.
    pub(super) strip: usize,
    /// Planes of each channel that are in memory together: those that are read, and of the results.
    pub(super) planes: [usize; 2],
}

/// Tiles that are multiplied by the same weights.
#[derive(Debug, Clone, Copy)]
pub(super) struct Products<'a> {
    /// Where the numbers of a tile's point lie that are multiplied: one for each kernel.
    pub(super) offsets: &'a [u32],
    /// Rows and columns of tiles of results.
    pub(super) size: [usize; 2],
    /// Tiles from one row to the next among those that are read.
    pub(super) row_step: usize,
}

impl Tiles {
    /// Rows and columns of a plane's tiles.
    pub(super) fn count(&self) -> [usize; 2] {
        self.grid.map(|pixels| pixels.div_ceil(RESULTS))
    }

    /// Channels in whole vectors.
    pub(super) fn filled(&self) -> [usize; 2] {
        self.channels.map(|channels| channels.next_multiple_of(self.isa.lanes()))
    }

    /// Channels of results that are computed together: as many as a register tile has.
    pub(super) fn pair(&self) -> usize {
        (2 * self.isa.lanes()).min(self.filled()[1])
    }

    /// From one point's numbers to the next's: of what is read, and of so many channels of results.
    pub(super) fn pitches(&self, outputs: usize) -> [usize; 2] {
        let tiles = self.planes.map(|planes| planes * self.strip * self.count()[1]);
        [spread(tiles[0] * self.filled()[0]), spread(tiles[1] * outputs)]
    }

    /// From one point's weights, or their gradients, to the next's.
    fn weight_pitch(&self) -> usize {
        spread(self.kernels * self.filled()[1])
    }

    /// Numbers of the work space: pixels of a plane, points, points of so many channels of results,
    /// and the pixels of these in a plane.
    fn parts(&self, outputs: usize) -> [usize; 4] {
        let (rows, columns) = (self.strip * RESULTS, self.count()[1] * RESULTS);
        let pixels = (rows + TAPS - 1) * (columns + TAPS - 1) * self.filled()[0];
        let [points, products] = self.pitches(outputs).map(|pitch| POINTS * POINTS * pitch);
        let line = |count: usize| count.next_multiple_of(CACHE_LINE);
        [line(pixels), points, products, line(rows * columns * outputs)]
    }

    /// The parts of a thread's work space.
    pub(super) fn split<'a>(&self, own: &'a mut [f32], outputs: usize) -> [&'a mut [f32]; 4] {
        let [image, points, products, _] = self.parts(outputs);
        let (pixels, own) = own.split_at_mut(image);
        let (points, own) = own.split_at_mut(points);
        let (products, results) = own.split_at_mut(products);
        [pixels, points, products, results]
    }

    /// Numbers of the transformed weights, and of a thread's work space for results.
    pub(super) fn lens(&self) -> [usize; 2] {
        [POINTS * POINTS * self.weight_pitch(), self.parts(self.pair()).iter().sum()]
    }

    /// Numbers of a thread's sums, and of its work space for the weights' gradient.
    pub(super) fn gradient_lens(&self) -> [usize; 2] {
        [POINTS * POINTS * self.weight_pitch(), self.parts(self.filled()[1]).iter().sum()]
    }

    /// Transforms weights, `[blocks][kernels][3][3][lanes]`.
    pub(super) fn weights(&self, packed: &[f32], to: &mut [f32]) {
        let (lanes, pitch, kernels) = (self.isa.lanes(), self.weight_pitch(), self.kernels);
        let taps = TAPS * TAPS * lanes;
        let job = TransformJob {
            transform: Transform::Weights,
            input: packed,
            count: [self.channels[1].div_ceil(lanes), kernels],
            channels: lanes,
            from: Squares { apart: [kernels * taps, taps], step: [TAPS * lanes, lanes] },
            to: Squares { apart: [kernels * lanes, lanes], step: [POINTS * pitch, pitch] },
        };
        job.run(self.isa, to);
    }

    /// The points of the tiles of some rows of a plane; channels are `plane` numbers apart.
    pub(super) fn input_points(
        &self,
        image: &[f32],
        plane: usize,
        [row, rows]: [usize; 2],
        pixels: &mut [f32],
        points: &mut [f32],
    ) {
        let (filled, columns) = (self.filled()[0], self.count()[1]);
        let size = [rows * RESULTS + TAPS - 1, columns * RESULTS + TAPS - 1];
        let first = [self.first[0] + (row * RESULTS) as isize, self.first[1]];
        let channels = [self.channels[0], filled];
        by_pixel(self.isa, image, plane, channels, self.image, first, size, pixels);
        let pitch = self.pitches(0)[0];
        self.to_points(Transform::Input, [rows, filled], size, pixels, pitch, points);
    }

    /// The points of the gradient of the results of some rows of tiles of a plane.
    pub(super) fn gradient_points(
        &self,
        dy: &[f32],
        plane: usize,
        [row, rows]: [usize; 2],
        pixels: &mut [f32],
        points: &mut [f32],
    ) {
        let (filled, columns) = (self.filled()[1], self.count()[1]);
        let size = [rows * RESULTS, columns * RESULTS];
        let first = [(row * RESULTS) as isize, 0];
        let channels = [self.channels[1], filled];
        by_pixel(self.isa, dy, plane, channels, self.grid, first, size, pixels);
        let pitch = self.pitches(filled)[1];
        self.to_points(Transform::Gradient, [rows, filled], size, pixels, pitch, points);
    }

    fn to_points(
        &self,
        transform: Transform,
        [rows, filled]: [usize; 2],
        size: [usize; 2],
        pixels: &[f32],
        pitch: usize,
        points: &mut [f32],
    ) {
        let columns = self.count()[1];
        let job = TransformJob {
            transform,
            input: pixels,
            count: [rows, columns],
            channels: filled,
            from: Squares {
                apart: [RESULTS * size[1] * filled, RESULTS * filled],
                step: [size[1] * filled, filled],
            },
            to: Squares { apart: [columns * filled, filled], step: [POINTS * pitch, pitch] },
        };
        job.run(self.isa, points);
    }

    /// At each point, tiles times the weights of the channels from `first` on.
    pub(super) fn multiply(
        &self,
        points: &[f32],
        Products { offsets, size: [rows, columns], row_step }: Products<'_>,
        weights: &[f32],
        [first, width]: [usize; 2],
        products: &mut [f32],
    ) {
        let (kernels, filled) = (self.kernels, self.filled()[0]);
        let [points_pitch, products_pitch] = self.pitches(self.pair());
        for (point, weights) in weights.chunks_exact(self.weight_pitch()).enumerate() {
            let job = TileJob {
                image: &points[point * points_pitch..][..points_pitch],
                origin: 0,
                taps: offsets,
                weights: &weights[first * kernels..][..kernels * width],
                start: &[0.0; 32][..width],
                blocks: width / self.isa.lanes(),
                rows,
                columns,
                row_step: row_step * filled,
                column_step: filled,
                output_row: columns * width,
                output_column: width,
            };
            job.run(self.isa, &mut products[point * products_pitch..][..products_pitch]);
        }
    }

    /// The results of some rows of a plane's tiles by pixel; says whether all of them are finite.
    pub(super) fn results(
        &self,
        products: &[f32],
        rows: usize,
        width: usize,
        results: &mut [f32],
    ) -> bool {
        let [_, pitch] = self.pitches(self.pair());
        let columns = self.count()[1];
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

    /// Adds, at each point, tiles times their gradients to a thread's sums,
    /// `[points][kernels][channels]`.
    pub(super) fn add_products(
        &self,
        points: &[f32],
        gradients: &[f32],
        Products { offsets, size: [rows, columns], row_step }: Products<'_>,
        sums: &mut [f32],
    ) {
        let [inputs, outputs] = self.filled();
        let [points_pitch, gradient_pitch] = self.pitches(outputs);
        for (point, sums) in sums.chunks_exact_mut(self.weight_pitch()).enumerate() {
            let job = WeightJob {
                image: &points[point * points_pitch..][..points_pitch],
                origin: 0,
                runs: offsets,
                run_len: 1,
                gradient: &gradients[point * gradient_pitch..][..gradient_pitch],
                blocks: outputs / self.isa.lanes(),
                rows,
                columns,
                row_step: row_step * inputs,
                column_step: inputs,
            };
            job.run(self.isa, sums);
        }
    }

    /// Turns a thread's sums into gradients of weights, `[kernels][3][3][channels]`, and says
    /// whether all of them are finite.
    pub(super) fn weight_gradients(&self, sums: &[f32], gradients: &mut [f32]) -> bool {
        let (outputs, pitch) = (self.filled()[1], self.weight_pitch());
        let job = TransformJob {
            transform: Transform::WeightGradient,
            input: sums,
            count: [1, self.kernels],
            channels: outputs,
            from: Squares { apart: [0, outputs], step: [POINTS * pitch, pitch] },
            to: Squares { apart: [0, TAPS * TAPS * outputs], step: [TAPS * outputs, outputs] },
        };
        job.run(self.isa, gradients)
    }
}
