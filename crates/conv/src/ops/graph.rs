//! Operations on the graph of burn's autodiff.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend};

use super::in_layer::InLayer;

/// The first `M` of `M` or `M + 1` values, and the one that may follow.
pub(super) fn with_optional<T, const N: usize, const M: usize>(all: [T; N]) -> ([T; M], Option<T>) {
    let mut all = all.into_iter();
    let first = std::array::from_fn(|_| all.next().expect("an operation has its operands"));
    (first, all.next())
}

/// Computes an operation below the graph and records it there: `compute` returns the result and
/// what the gradient needs, from which `state` makes the state of the operation.
pub(super) fn on_graph<B, C, O, E, const N: usize>(
    operation: O,
    tensors: [FloatTensor<Autodiff<B, C>>; N],
    state: impl FnOnce([NodeId; N], E) -> O::State,
    compute: impl FnOnce([FloatTensor<B>; N]) -> (FloatTensor<B>, E),
) -> (FloatTensor<Autodiff<B, C>>, E)
where
    B: Backend,
    C: CheckpointStrategy,
    O: Backward<B, N>,
    E: Clone,
{
    let nodes = tensors.each_ref().map(|tensor| tensor.node());
    let prepared = InLayer::new(operation).prepare::<C>(nodes).compute_bound().stateful();
    finish::<B, C, _, _, _, N>(prepared, tensors, state, compute)
}

/// The same of an operation that is prepared.
pub(super) fn finish<B, C, O, P, E, const N: usize>(
    prepared: OpsKind<O, B, O::State, P, N>,
    tensors: [FloatTensor<Autodiff<B, C>>; N],
    state: impl FnOnce([NodeId; N], E) -> O::State,
    compute: impl FnOnce([FloatTensor<B>; N]) -> (FloatTensor<B>, E),
) -> (FloatTensor<Autodiff<B, C>>, E)
where
    B: Backend,
    C: CheckpointStrategy,
    O: Backward<B, N>,
    E: Clone,
{
    match prepared {
        OpsKind::Tracked(mut prep) => {
            let nodes = tensors.each_ref().map(|tensor| prep.checkpoint(tensor));
            let (y, kept) = compute(tensors.map(|tensor| tensor.into_primitive()));
            (prep.finish(state(nodes, kept.clone()), y), kept)
        }
        OpsKind::UnTracked(prep) => {
            let (y, kept) = compute(tensors.map(|tensor| tensor.into_primitive()));
            (prep.finish(y), kept)
        }
    }
}

/// Registers the gradients of an operation's tensors that are on the graph.
pub(super) fn register<B: Backend, const N: usize>(
    gradients: &mut Gradients,
    parents: [Option<NodeId>; N],
    all: impl IntoIterator<Item = FloatTensor<B>>,
) {
    for (parent, gradient) in parents.into_iter().zip(all) {
        if let Some(node) = parent {
            gradients.register::<B>(node, gradient);
        }
    }
}
