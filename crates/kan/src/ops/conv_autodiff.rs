//! The gradients of a convolution, by hand.

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;

use super::autodiff::register;
use super::extension::{ConvSpec, KanBackend, Wanted};

#[derive(Debug)]
struct Conv;

impl<B: KanBackend> Backward<B, 5> for Conv {
    type State = ([NodeId; 4], ConvSpec);

    fn backward(
        self,
        ops: Ops<Self::State, 5>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let (states, spec) = ops.state;
        let [x, spline, base, scaler]: [FloatTensor<B>; 4] =
            states.map(|state| checkpointer.retrieve_node_output(state));
        let [of_x, parameters @ ..] = &ops.parents;
        let wanted =
            Wanted { x: of_x.is_some(), parameters: parameters.iter().any(Option::is_some) };
        let parts = spec.parts;
        let all = B::kan_conv_gradient(x, spline, base, scaler, dy, spec, wanted);
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B>(parents, all.into(), parts, gradients);
    }
}

/// The outputs of `x`, `spline`, `base`, `scaler` and `bias`; of them the input and the parameters
/// are kept.
pub(super) fn tracked<B: KanBackend, C: CheckpointStrategy>(
    tensors: [FloatTensor<Autodiff<B, C>>; 5],
    spec: ConvSpec,
) -> FloatTensor<Autodiff<B, C>> {
    let inner = |tensors: [FloatTensor<Autodiff<B, C>>; 5], spec: ConvSpec| {
        let [x, spline, base, scaler, bias] = tensors.map(|tensor| tensor.into_primitive());
        B::kan_conv(x, spline, base, scaler, bias, spec)
    };
    let [x, spline, base, scaler, bias] = &tensors;
    let nodes = [x, spline, base, scaler, bias].map(|tensor| tensor.node());
    match Conv.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let states = [x, spline, base, scaler].map(|tensor| prep.checkpoint(tensor));
            let y = inner(tensors, spec.clone());
            prep.finish((states, spec), y)
        }
        OpsKind::UnTracked(prep) => prep.finish(inner(tensors, spec)),
    }
}
