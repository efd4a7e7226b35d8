//! The partition of a backward pass.

use std::ops::Range;

use updraft_simd::Isa;

use super::layer::{DenseGradients, DenseLayer, PITCH, ROWS};

/// Number of tasks into which the batch of a layer with few inputs is divided, so that all threads
/// have work.
pub(super) const TASKS: usize = 8;

/// The gradients that are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wants {
    /// Of coefficients or weights of the base branch.
    pub(super) weights: bool,
    pub(super) x: bool,
    pub(super) seen: bool,
    /// Of the functions' parameters.
    pub(super) functions: bool,
}

impl Wants {
    pub(super) const fn of(wanted: &DenseGradients<'_>) -> Self {
        Self {
            weights: wanted.coefficients.is_some() || wanted.base.is_some(),
            x: wanted.x.is_some(),
            seen: wanted.seen.is_some(),
            functions: wanted.functions.is_some(),
        }
    }

    /// Whether the gradients of the functions' values are needed.
    pub(super) const fn values(self) -> bool {
        self.x || self.seen || self.functions
    }
}

/// The partition of a backward pass: it depends on the layer and the batch, not on the number of
/// threads, so that the order of sums does not either.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    batch: usize,
    /// Pieces of the batch, each with sums of its own.
    pub(super) pieces: usize,
    /// Blocks of [`ROWS`] rows in a piece.
    of_piece: usize,
}

impl Plan {
    pub(super) fn new(layer: &DenseLayer, has_base: bool, batch: usize) -> Self {
        let chunks = layer.inputs.div_ceil(layer.chunk(has_base));
        let (blocks, wanted) = (batch.div_ceil(ROWS), (TASKS / chunks).max(1));
        let of_piece = blocks.div_ceil(wanted).max(1);
        Self { batch, pieces: blocks.div_ceil(of_piece), of_piece }
    }

    /// Blocks of [`ROWS`] rows.
    pub(super) const fn blocks(&self) -> usize {
        self.batch.div_ceil(ROWS)
    }

    /// The blocks of a piece.
    pub(super) fn blocks_of(&self, piece: usize) -> Range<usize> {
        piece * self.of_piece..((piece + 1) * self.of_piece).min(self.blocks())
    }

    /// The rows of a block.
    pub(super) fn rows_of(&self, block: usize) -> usize {
        ROWS.min(self.batch - block * ROWS)
    }

    /// Where the gradients of a chunk's inputs begin for the rows of a block, in the order of pieces,
    /// chunks, blocks and inputs.
    pub(super) fn place(&self, inputs: usize, chunk: &Range<usize>, block: usize) -> usize {
        let piece = block / self.of_piece;
        let blocks = self.blocks_of(piece);
        let before = blocks.start * inputs + chunk.start * blocks.len();
        PITCH * (before + (block - blocks.start) * chunk.len())
    }
}

/// Numbers of each part of the shared work space of a backward pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// Of a block of rows of `dy`.
    pub(super) block: usize,
    /// Of `dy` for the gradients of weights.
    pub(super) packed: usize,
    /// Of `dy` for the gradients of values.
    pub(super) transposed: usize,
    pub(super) of_x: usize,
    pub(super) of_seen: usize,
    /// Of the sums of a piece, 0 if there is one piece.
    pub(super) of_weights: usize,
    pieces: usize,
}

impl Layout {
    pub(super) fn new(
        isa: Isa,
        layer: &DenseLayer,
        has_base: bool,
        plan: &Plan,
        wants: Wants,
    ) -> Self {
        let block = layer.outputs.next_multiple_of(2 * isa.lanes()) * ROWS;
        let all = plan.blocks() * block;
        let of_inputs = plan.blocks() * layer.inputs * PITCH;
        let edges = layer.inputs * layer.outputs;
        let several = wants.weights && plan.pieces > 1;
        let when = |is_wanted: bool, count: usize| if is_wanted { count } else { 0 };
        Self {
            block,
            packed: when(wants.weights, all),
            transposed: when(wants.values(), all),
            of_x: when(wants.x, of_inputs),
            of_seen: when(wants.seen, of_inputs),
            of_weights: when(several, edges * (layer.count() + usize::from(has_base))),
            pieces: plan.pieces,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.packed + self.transposed + self.of_x + self.of_seen + self.pieces * self.of_weights
    }
}
