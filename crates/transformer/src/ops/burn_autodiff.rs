//! The gradients of burn's own layers, as burn computes them, with their time.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend};
use updraft_simd::NodeLayer;

/// A linear layer of input and weights, and of a bias if there are three operands.
#[derive(Debug)]
struct Linear(NodeLayer);

impl<B: Backend, const N: usize> Backward<B, N> for Linear {
    /// Input and weights, where the gradient of the other needs them.
    type State = [Option<NodeId>; 2];

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let node = |operand: usize| ops.parents.get(operand).and_then(Option::as_ref);
        let products = u64::from(node(0).is_some()) + u64::from(node(1).is_some());
        let _pass = self.0.time_backward(products);
        let dy = gradients.consume::<B>(&ops.node);
        let [x, weight] = ops.state.map(|id| id.map(|id| checkpointer.retrieve_node_output(id)));
        if let (Some(node), Some(weight)) = (node(0), weight) {
            gradients.register::<B>(node.id, B::linear_x_backward(weight, dy.clone()));
        }
        if let (Some(node), Some(x)) = (node(1), x) {
            gradients.register::<B>(node.id, B::linear_weight_backward(x, dy.clone()));
        }
        if let Some(node) = node(2) {
            gradients.register::<B>(node.id, B::linear_bias_backward(dy));
        }
    }
}

pub(super) fn linear<B: Backend, C: CheckpointStrategy, const N: usize>(
    operands: [FloatTensor<Autodiff<B, C>>; N],
    compute: impl FnOnce([FloatTensor<B>; N]) -> FloatTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes = operands.each_ref().map(|tensor| tensor.node());
    let [x_is_tracked, weight_is_tracked] = [0, 1].map(|at: usize| operands[at].is_tracked());
    match Linear(NodeLayer::current()).prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let x = weight_is_tracked.then(|| prep.checkpoint(&operands[0]));
            let weight = x_is_tracked.then(|| prep.checkpoint(&operands[1]));
            let y = compute(operands.map(|tensor| tensor.into_primitive()));
            prep.finish([x, weight], y)
        }
        OpsKind::UnTracked(prep) => {
            prep.finish(compute(operands.map(|tensor| tensor.into_primitive())))
        }
    }
}
