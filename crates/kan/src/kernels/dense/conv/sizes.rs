//! The work space of a convolution's passes, computed before they run.

use updraft_simd::Isa;

use super::backward::Pieces;
use super::plan::{DenseConv, Plan};
use crate::kernels::conv::Shapes;

/// Numbers and tasks of a convolution's passes to all gradients.
pub(crate) struct Sizes {
    /// Packed weights of the forward pass.
    pub(crate) packed: usize,
    /// Of a thread in the forward pass.
    pub(crate) of_forward: usize,
    pub(crate) forward_tasks: usize,
    /// Pieces of the batch in the backward pass.
    pub(crate) pieces: usize,
    /// Their sums of the weights' gradients.
    pub(crate) of_pieces: usize,
    /// Of a thread in the backward pass.
    pub(crate) of_backward: usize,
    pub(crate) backward_tasks: usize,
}

impl Sizes {
    pub(crate) fn new(
        isa: Isa,
        conv: DenseConv<'_>,
        shapes: Shapes,
        has_base: bool,
        rows_of_tile: usize,
    ) -> Self {
        let plan = Plan::new(conv, shapes, has_base);
        let (region, outputs) = (&plan.region, conv.pixel.outputs);
        let (taps, groups) = (conv.geometry.taps(), conv.geometry.groups);
        let (line, pitch, terms) = (region.line(), region.pitch(), plan.most_terms());
        let (columns, lines) = (terms / plan.terms * line, terms * line);
        let padded = outputs.next_multiple_of(2 * isa.lanes());
        let of_tap = terms.next_multiple_of(rows_of_tile) * outputs;
        let weights = taps * (of_tap + terms * padded);
        let dy = outputs * pitch + padded * region.most_positions();
        let pieces = Pieces::new(&plan).count;
        Self {
            packed: conv.pixel.inputs * plan.terms * taps * plan.tiled_outputs(),
            of_forward: columns + lines + outputs * pitch,
            forward_tasks: region.blocks() * groups,
            pieces,
            of_pieces: if pieces > 1 { pieces * plan.weights() } else { 0 },
            of_backward: 2 * columns + 2 * lines + weights + dy,
            backward_tasks: pieces * plan.chunk_count(),
        }
    }
}
