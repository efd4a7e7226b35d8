//! Which convolutions the algorithm computes, and the sizes of its passes.

use std::ops::Range;

use updraft_simd::Isa;
use updraft_simd::winograd::{POINTS, RESULTS, TAPS, spread};

use super::tiling::Tiling;
use crate::kernels::conv::{ConvAxis, ConvGeometry, Shapes};

/// Channels and outputs of a group at least: with fewer, transforms take longer than the products that
/// they save.
const FEWEST: usize = 16;

/// Tiles of a batch at least: with fewer, the transform of the coefficients takes longer.
const FEWEST_TILES: usize = 64;

/// Points of a tile.
pub(super) const SQUARE: usize = POINTS * POINTS;

/// The partition of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pieces {
    batch: usize,
    /// Images of a piece.
    pub(super) images: usize,
}

impl Pieces {
    pub(crate) fn count(&self) -> usize {
        self.batch.div_ceil(self.images).max(1)
    }

    /// The images of a piece.
    pub(super) fn images_of(&self, piece: usize) -> Range<usize> {
        piece * self.images..((piece + 1) * self.images).min(self.batch)
    }
}

/// The sizes of a convolution of images.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(super) isa: Isa,
    pub(super) batch: usize,
    pub(super) groups: usize,
    /// Channels and outputs of a group.
    pub(super) channels: [usize; 2],
    /// Functions of a channel with the base branch.
    pub(super) terms: usize,
    /// Height and width of the images and of the outputs.
    pub(super) input: [usize; 2],
    pub(super) output: [usize; 2],
    pub(super) padding: [usize; 2],
}

impl Plan {
    /// The plan of a convolution of so many terms, if it takes less time than a pass that computes
    /// `products` of them for each tap.
    pub(crate) fn of(
        isa: Isa,
        geometry: &ConvGeometry,
        shapes: Shapes,
        terms: usize,
        products: usize,
    ) -> Option<Self> {
        let [depth, rows, columns] = geometry.axes;
        let is_image = shapes.input[0] == 1 && depth == ConvAxis::new(1);
        let fits = |axis: ConvAxis| {
            axis.padding < TAPS && axis == ConvAxis { padding: axis.padding, ..ConvAxis::new(TAPS) }
        };
        let groups = geometry.groups();
        let channels = [geometry.in_channels() / groups, geometry.pixel.out_features()];
        let on_image = |sizes: [usize; 3]| [sizes[1], sizes[2]];
        let plan = Self {
            isa: isa.base(),
            batch: shapes.batch,
            groups,
            channels,
            terms,
            input: on_image(shapes.input),
            output: on_image(shapes.output),
            padding: [rows.padding, columns.padding],
        };
        let is_possible = is_image && fits(rows) && fits(columns) && shapes.in_pixels() > 0;
        (is_possible && terms > 0 && plan.pays(products)).then_some(plan)
    }

    /// Whether the products that are saved take longer than the transforms.
    fn pays(&self, products: usize) -> bool {
        let tiles = self.output.map(|size| size.div_ceil(RESULTS)).iter().product::<usize>();
        let pixels = self.output.iter().product::<usize>();
        // A product costs 1.6 times as much here, with the transforms. On a Zen 4, 64 channels took 0.5 of
        // the direct time with 5 intervals of cubic splines, 0.7 with 8, and 0.9 to 1.1 with 10.
        let here = 8 * tiles * SQUARE * self.terms;
        let there = 5 * pixels * TAPS * TAPS * products;
        self.channels.iter().all(|&channels| channels >= FEWEST)
            && self.batch * tiles >= FEWEST_TILES
            && here < there
    }

    /// Channels of a vector.
    pub(super) const fn lanes(&self) -> usize {
        self.isa.lanes()
    }

    /// Vectors of channels of a group.
    pub(super) const fn blocks(&self) -> usize {
        self.channels[0].div_ceil(self.lanes())
    }

    /// The first channel of a block of a group, of all groups, and how many there are.
    pub(super) fn channels_of(&self, group: usize, block: usize) -> [usize; 2] {
        let first = block * self.lanes();
        let inputs = self.channels[0];
        [group * inputs + first, self.lanes().min(inputs - first)]
    }

    /// Terms of a block: those of each channel of a vector.
    pub(super) const fn depth(&self) -> usize {
        self.terms * self.lanes()
    }

    /// Columns of a panel of a product.
    pub(super) const fn panel(&self) -> usize {
        2 * self.lanes()
    }

    /// Outputs of a group in whole vectors.
    pub(super) const fn outputs(&self) -> usize {
        self.channels[1].next_multiple_of(self.lanes())
    }

    /// The boxes of the outputs.
    pub(super) fn of_outputs(&self) -> Tiling {
        Tiling::new(self.batch, self.output)
    }

    /// The boxes of the images' gradients, with so many pixels of padding around them.
    pub(super) fn of_inputs(&self, margin: [usize; 2]) -> Tiling {
        Tiling::new(self.batch, [0, 1].map(|axis| self.input[axis] + 2 * margin[axis]))
    }

    /// Numbers from one point's coefficients of a block to the next's: of the outputs, and of the
    /// images' gradients. The sums for the coefficients' gradients lie as the former.
    pub(super) fn coefficient_pitches(&self) -> [usize; 2] {
        let panelled = |count: usize| count.next_multiple_of(self.panel());
        [
            spread(self.depth() * panelled(self.outputs())),
            spread(panelled(self.depth()) * self.channels[1]),
        ]
    }

    /// Numbers of the transformed coefficients of the outputs.
    pub(crate) fn forward_len(&self) -> usize {
        self.groups * self.blocks() * SQUARE * self.coefficient_pitches()[0]
    }

    /// Numbers of the transformed coefficients of the images' gradients.
    pub(crate) fn input_gradient_len(&self) -> usize {
        self.groups * self.blocks() * SQUARE * self.coefficient_pitches()[1]
    }

    /// The pieces of the batch for the gradients of images, which are computed apart, so that all threads
    /// have work.
    pub(crate) fn pieces_of_images(&self) -> Pieces {
        self.pieces(64)
    }

    /// Those for the gradients of coefficients, each of which has sums of its own.
    pub(super) fn pieces_of_sums(&self) -> Pieces {
        self.pieces(8)
    }

    /// As many as so many tasks need: fixed by the sizes, so that sums do not depend on the number of
    /// threads.
    fn pieces(&self, tasks: usize) -> Pieces {
        let pieces = (tasks / (self.groups * self.blocks())).max(1);
        Pieces { batch: self.batch, images: self.batch.div_ceil(pieces).max(1) }
    }

    /// Numbers of the sums for the coefficients' gradients of all pieces.
    pub(crate) fn weight_gradient_len(&self) -> usize {
        self.pieces_of_sums().count() * self.forward_len()
    }
}
