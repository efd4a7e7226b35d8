//! The gradients of a layer, by hand.

#[cfg(feature = "flex")]
use std::sync::Arc;

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use updraft_simd::NodeLayer;

#[cfg(feature = "flex")]
use super::extension::PackedBackend;
use super::extension::{KanBackend, KanGradients, LayerGradients, Operand, Spec, Wanted};
#[cfg(feature = "flex")]
use crate::kernels::PackedLayer;

/// Which optional parameters a layer has.
#[derive(Debug, Clone, Copy)]
struct Parts {
    base: bool,
    scaler: bool,
    bias: bool,
}

impl Parts {
    /// The input, the coefficients and the parameters that there are, in this order.
    fn split<T>(self, tensors: impl IntoIterator<Item = T>) -> ([T; 2], [Option<T>; 3]) {
        let mut tensors = tensors.into_iter();
        let mut next = || tensors.next().expect("an operation has its tensors");
        let first = [next(), next()];
        (first, [self.base, self.scaler, self.bias].map(|is_there| is_there.then(&mut next)))
    }
}

/// A layer of an input, coefficients, and as many other parameters as it has.
#[derive(Debug)]
struct Layer(NodeLayer);

impl<B: KanGradients, const N: usize> Backward<B, N> for Layer {
    type State = ([NodeId; N], Parts, Spec);

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let (states, parts, spec) = ops.state;
        let [of_x, parameters @ ..] = &ops.parents[..] else { return };
        let wanted =
            Wanted { x: of_x.is_some(), parameters: parameters.iter().any(Option::is_some) };
        let passes = u64::from(wanted.x) + u64::from(wanted.parameters);
        let _pass = self.0.time_backward(passes);
        let tensors: [FloatTensor<B>; N] =
            states.map(|state| checkpointer.retrieve_node_output(state));
        let ([x, spline], [base, scaler, bias]) = parts.split(tensors);
        let [base, scaler] = [base, scaler].map(Operand::from);
        let has_bias = bias.is_some();
        let of = B::kan_layer_gradients(x, spline, base, scaler, has_bias, dy, spec, wanted);
        let LayerGradients { x, spline, base, scaler, bias } = of;
        let others = [(parts.base, base), (parts.scaler, scaler), (parts.bias, bias)];
        let others = others.into_iter().filter_map(|(is_there, of)| is_there.then_some(of));
        for (parent, gradient) in ops.parents.into_iter().zip([x, spline].into_iter().chain(others))
        {
            let gradient = gradient.given();
            if let (Some(node), Some(gradient)) = (parent, gradient) {
                gradients.register::<B>(node.id, gradient);
            }
        }
    }
}

/// Computes a layer below the graph and notes it there.
fn on_graph<B: KanGradients, C: CheckpointStrategy, const N: usize>(
    tensors: Vec<FloatTensor<Autodiff<B, C>>>,
    parts: Parts,
    spec: Spec,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes = std::array::from_fn(|index| tensors[index].node());
    let layer = Layer(NodeLayer::current());
    match Backward::<B, N>::prepare::<C>(layer, nodes).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let states = std::array::from_fn(|index| prep.checkpoint(&tensors[index]));
            let y = compute::<B, C>(tensors, parts, spec.clone());
            prep.finish((states, parts, spec), y)
        }
        OpsKind::UnTracked(prep) => prep.finish(compute::<B, C>(tensors, parts, spec)),
    }
}

/// The outputs of a layer, below the graph.
fn compute<B: KanBackend, C: CheckpointStrategy>(
    tensors: Vec<FloatTensor<Autodiff<B, C>>>,
    parts: Parts,
    spec: Spec,
) -> FloatTensor<B> {
    let tensors = tensors.into_iter().map(|tensor| tensor.into_primitive());
    let ([x, spline], others) = parts.split::<FloatTensor<B>>(tensors);
    let [base, scaler, bias] = others.map(Operand::from);
    B::kan_layer(x, spline, base, scaler, bias, spec)
}

impl<B: KanGradients, C: CheckpointStrategy> KanBackend for Autodiff<B, C> {
    fn kan_layer(
        x: FloatTensor<Self>,
        spline: FloatTensor<Self>,
        base: Operand<Self>,
        scaler: Operand<Self>,
        bias: Operand<Self>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        let others = [base, scaler, bias].map(Operand::given);
        let [base, scaler, bias] = others.each_ref().map(Option::is_some);
        let parts = Parts { base, scaler, bias };
        let tensors: Vec<_> = [x, spline].into_iter().chain(others.into_iter().flatten()).collect();
        match tensors.len() {
            2 => on_graph::<B, C, 2>(tensors, parts, spec),
            3 => on_graph::<B, C, 3>(tensors, parts, spec),
            4 => on_graph::<B, C, 4>(tensors, parts, spec),
            _ => on_graph::<B, C, 5>(tensors, parts, spec),
        }
    }
}

#[cfg(feature = "flex")]
impl<B: PackedBackend, C: CheckpointStrategy> PackedBackend for Autodiff<B, C> {
    fn kan_packed(x: FloatTensor<Self>, layer: Arc<PackedLayer>) -> FloatTensor<Self> {
        assert!(
            !x.is_tracked(),
            "a packed layer has no gradients; call `KanLinear::forward`, or `detach` its input"
        );
        <FloatTensor<Self>>::new(B::kan_packed(x.into_primitive(), layer))
    }
}
