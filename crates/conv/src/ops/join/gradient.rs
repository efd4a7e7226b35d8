//! The gradients of joined channels: those of each tensor.

use std::ops::Range;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, TensorMetadata as _};
use burn::tensor::Slice;

use crate::ops::extension::ConvGradients;
use crate::ops::graph::register;
use crate::ops::in_layer::InLayer;

/// A range of the second axis.
pub(in crate::ops) fn channels<B: Backend>(
    tensor: FloatTensor<B>,
    range: Range<usize>,
) -> FloatTensor<B> {
    let shape = tensor.shape();
    let mut slices: Vec<Slice> = shape.iter().map(|&side| Slice::from(0..side)).collect();
    slices[1] = Slice::from(range);
    B::float_slice(tensor, &slices)
}

/// The channels of two tensors in one.
#[derive(Debug)]
struct Joined;

impl<B: ConvGradients> Backward<B, 2> for Joined {
    /// Channels of the first.
    type State = usize;

    fn backward(self, ops: Ops<usize, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let dy = gradients.consume::<B>(&ops.node);
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        let (first, all) = (ops.state, dy.shape()[1]);
        let parts = [0..first, first..all].map(|range| channels::<B>(dy.clone(), range));
        register::<B, 2>(gradients, parents, parts);
    }
}

/// Joins the channels of two tensors on the graph.
pub(in crate::ops) fn joined<B: ConvGradients, C: CheckpointStrategy>(
    a: FloatTensor<Autodiff<B, C>>,
    b: FloatTensor<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    let prepared =
        InLayer::new(Joined).prepare::<C>([a.node(), b.node()]).compute_bound().stateful();
    let (a, b) = (a.into_primitive(), b.into_primitive());
    let channels = a.shape()[1];
    match prepared {
        OpsKind::Tracked(prep) => prep.finish(channels, B::join(a, b)),
        OpsKind::UnTracked(prep) => prep.finish(B::join(a, b)),
    }
}
