//! Gradients whose time is that of a layer.

use burn::backend::Backend;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use updraft_simd::NodeLayer;

/// An operation of the graph with the layer whose forward pass recorded it.
#[derive(Debug)]
pub(super) struct InLayer<O> {
    operation: O,
    layer: NodeLayer,
}

impl<O> InLayer<O> {
    /// Of the layer that runs.
    pub(super) fn new(operation: O) -> Self {
        Self { operation, layer: NodeLayer::current() }
    }
}

impl<B: Backend, O: Backward<B, N>, const N: usize> Backward<B, N> for InLayer<O> {
    type State = O::State;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let mut parents = ops.parents.iter().map(Option::is_some);
        let of_input = parents.next() == Some(true);
        let of_parameters = parents.any(|is_tracked| is_tracked);
        let _pass = self.layer.time_backward(u64::from(of_input) + u64::from(of_parameters));
        self.operation.backward(ops, gradients, checkpointer);
    }
}
