//! The gradients of a weighted sum: of its tensors and of the weights.

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::tensor::FloatTensor;

use crate::kernels::Isa;
use crate::ops::extension::ConvGradients;
use crate::ops::graph::{on_graph, register, with_optional};

/// A sum of two tensors or three, whose weights come before them.
#[derive(Debug)]
struct WeightedSum;

impl<B: ConvGradients, const N: usize> Backward<B, N> for WeightedSum {
    type State = ([NodeId; N], Isa);

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let (nodes, isa) = ops.state;
        let mut tensors: Vec<FloatTensor<B>> =
            nodes.into_iter().map(|node| checkpointer.retrieve_node_output(node)).collect();
        let weights = tensors.remove(0);
        let (dtensors, dweights) = B::weighted_sum_gradient(tensors, weights, dy, isa);
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B, N>(gradients, parents, std::iter::once(dweights).chain(dtensors));
    }
}

/// The weighted sum of two tensors or three on the graph; the weights come first.
pub(in crate::ops) fn summed<B: ConvGradients, C: CheckpointStrategy, const N: usize>(
    weights_and_tensors: [FloatTensor<Autodiff<B, C>>; N],
    isa: Isa,
) -> FloatTensor<Autodiff<B, C>> {
    let state = |nodes, ()| (nodes, isa);
    let (y, ()) = on_graph::<B, C, _, _, N>(WeightedSum, weights_and_tensors, state, |tensors| {
        let ([weights, a, b], c) = with_optional(tensors);
        (B::weighted_sum(a, b, c.into(), weights, isa), ())
    });
    y
}
