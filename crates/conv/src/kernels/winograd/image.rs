//! Winograd's algorithm over an image: three by three windows with a quarter of the products.
//!
//! A strip of the image becomes pixels of channels, its tiles 36 points each; at each point all
//! tiles are multiplied by all weights, and the results become planes while they are in the cache.

use updraft_simd::Isa;
use updraft_simd::pixels::transpose;
use updraft_simd::winograd::{POINTS, RESULTS, TAPS};

use super::tiles::{Products, Tiles};
use crate::kernels::geometry::ConvGeometry;

/// Numbers of a strip's points: fewer would read the weights more often, more would not fit the
/// second-level cache. Of 64, 128 and 256 thousand this was the best on an EPYC of 512 KiB.
const STRIP: usize = 128 << 10;

/// The most samples that are computed together.
const TOGETHER: usize = 32;

/// Sums over windows of three by three, side by side, for one group of a sample.
///
/// The planes of its tiles are those of several samples; strips of several samples are whole.
#[derive(Debug, Clone)]
pub(crate) struct Winograd {
    tiles: Tiles,
    /// Where each channel of a tile's point lies.
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
        let planes = [(STRIP / (of_row * rows)).clamp(1, TOGETHER); 2];
        let offsets = (0..channels[0] as u32).collect();
        let kernels = channels[0];
        let tiles = Tiles { isa, channels, image, grid, first, kernels, strip, planes };
        Self { tiles, offsets }
    }

    /// The same for at most so many samples together.
    pub(crate) fn with_at_most(mut self, samples: usize) -> Self {
        self.tiles.planes = [self.together().min(samples); 2];
        self
    }

    /// Samples that are computed together.
    pub(crate) const fn together(&self) -> usize {
        self.tiles.planes[0]
    }

    /// Numbers of the transformed [`weights`](Self::weights), and of a thread's work space for
    /// [`planes`](Self::planes).
    pub(crate) fn lens(&self) -> [usize; 2] {
        self.tiles.lens()
    }

    /// Numbers that a thread keeps from one sample to the next, and of its work space, for
    /// [`add_gradient`](Self::add_gradient).
    pub(crate) fn gradient_lens(&self) -> [usize; 2] {
        self.tiles.gradient_lens()
    }

    /// Transforms weights, `[blocks][channels][3][3][lanes]`.
    pub(crate) fn weights(&self, packed: &[f32], to: &mut [f32]) {
        self.tiles.weights(packed, to);
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
        let tiles = &self.tiles;
        assert!(planes.len() <= self.together(), "more samples than there is room for");
        let outputs = tiles.channels[1];
        let [pixels, points, products, results] = tiles.split(own, tiles.pair());
        let mut not_finite = 0;
        for at in self.strips() {
            let [row, rows] = at;
            let of_sample = rows * tiles.count()[1];
            for sample in 0..planes.len() {
                let points = &mut points[sample * of_sample * tiles.filled()[0]..];
                let plane = tiles.image[0] * tiles.image[1];
                tiles.input_points(image(sample), plane, at, pixels, points);
            }
            let all = self.products(planes.len() * of_sample);
            for block in (0..outputs).step_by(tiles.pair()) {
                let channels = block..outputs.min(block + tiles.pair());
                let width = channels.len().next_multiple_of(tiles.isa.lanes());
                tiles.multiply(points, all, weights, [block, width], products);
                for (sample, planes) in planes.iter_mut().enumerate() {
                    let products = &products[sample * of_sample * width..];
                    if !tiles.results(products, rows, width, results) {
                        not_finite |= 1 << sample;
                    }
                    let [height, columns] = tiles.grid;
                    let first = row * RESULTS;
                    let rows = (rows * RESULTS).min(height - first);
                    let planes = &mut planes[block * height * columns + first * columns..];
                    self.write(results, rows, width, &start[channels.clone()], planes);
                }
            }
        }
        not_finite
    }

    /// The first row of each strip with its number of rows.
    fn strips(&self) -> impl Iterator<Item = [usize; 2]> {
        let (strip, [rows, _]) = (self.tiles.strip, self.tiles.count());
        (0..rows).step_by(strip).map(move |row| [row, strip.min(rows - row)])
    }

    /// So many tiles in one row.
    fn products(&self, tiles: usize) -> Products<'_> {
        Products { offsets: &self.offsets, size: [1, tiles], row_step: 0 }
    }

    /// Writes results into some rows of their planes, with each plane's initial value added.
    fn write(&self, results: &[f32], rows: usize, width: usize, start: &[f32], planes: &mut [f32]) {
        let Tiles { isa, grid: [height, columns], .. } = self.tiles;
        let plane = height * columns;
        if columns.is_multiple_of(RESULTS) {
            transpose(isa, results, [rows * columns, start.len()], width, planes, plane);
        } else {
            let lines = results.chunks(RESULTS * self.tiles.count()[1] * width).take(rows);
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
        let tiles = &self.tiles;
        assert!(samples <= self.together(), "more samples than there is room for");
        let [inputs, outputs] = tiles.filled();
        let [image, grid] = [tiles.image, tiles.grid].map(|[height, width]| height * width);
        let [pixels, points, gradients, dy_pixels] = tiles.split(own, outputs);
        for at in self.strips() {
            let of_sample = at[1] * tiles.count()[1];
            for sample in 0..samples {
                let points = &mut points[sample * of_sample * inputs..];
                tiles.input_points(x(sample), image, at, pixels, points);
                let gradients = &mut gradients[sample * of_sample * outputs..];
                tiles.gradient_points(dy(sample), grid, at, dy_pixels, gradients);
            }
            tiles.add_products(points, gradients, self.products(samples * of_sample), kept);
        }
    }

    /// Converts the sums of a thread to gradients of weights, `[channels][3][3][channels]`, and
    /// returns whether all of them are finite.
    pub(crate) fn weight_gradients(&self, kept: &[f32], sums: &mut [f32]) -> bool {
        self.tiles.weight_gradients(kept, sums)
    }
}
