//! The gradients of a layer of functions in closed form, by hand.

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use updraft_simd::NodeLayer;

use super::basis_extension::{
    BasisBackend, BasisGradients, BasisGradientsBackend, BasisSpec, BasisWanted,
};
use super::extension::Operand;

/// Which optional tensors a layer has: the functions' input and parameters, the base branch, the bias.
type Parts = [bool; 4];

/// The input, the coefficients and the optional tensors that there are, in this order.
fn split<T>(parts: Parts, tensors: impl IntoIterator<Item = T>) -> ([T; 2], [Option<T>; 4]) {
    let mut tensors = tensors.into_iter();
    let mut next = || tensors.next().expect("an operation has its tensors");
    ([next(), next()], parts.map(|is_there| is_there.then(&mut next)))
}

/// A layer of an input, coefficients, and as many other tensors as it has.
#[derive(Debug)]
struct BasisLayer(NodeLayer);

impl<B: BasisGradientsBackend, const N: usize> Backward<B, N> for BasisLayer {
    type State = ([NodeId; N], Parts, BasisSpec);

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let (states, parts, spec) = ops.state;
        let tensors = states.map(|state| checkpointer.retrieve_node_output(state));
        let ([x, coefficients], others) = split::<FloatTensor<B>>(parts, tensors);
        let [seen, functions, base, bias] = others;
        let (first, optional) = split(parts, ops.parents.each_ref().map(Option::is_some));
        let [of_seen, of_functions, of_base, of_bias] = optional.map(Option::unwrap_or_default);
        let wanted = BasisWanted {
            x: first[0],
            seen: of_seen,
            weights: first[1] || of_base || of_bias,
            functions: of_functions,
        };
        let passes = u64::from(wanted.x || wanted.seen) + u64::from(wanted.weights);
        let _pass = self.0.time_backward(passes);
        let has_bias = bias.is_some();
        let [seen, functions, base] = [seen, functions, base].map(Operand::from);
        let of = B::basis_layer_gradients(
            x,
            seen,
            coefficients,
            functions,
            base,
            has_bias,
            dy,
            spec,
            wanted,
        );
        let BasisGradients { x, seen, coefficients, functions, base, bias } = of;
        let others = parts.into_iter().zip([seen, functions, base, bias]);
        let others = others.filter_map(|(is_there, of)| is_there.then_some(of));
        let all = [x, coefficients].into_iter().chain(others);
        for (parent, gradient) in ops.parents.into_iter().zip(all) {
            if let (Some(node), Some(gradient)) = (parent, gradient.given()) {
                gradients.register::<B>(node.id, gradient);
            }
        }
    }
}

/// Computes a layer below the graph and notes it there.
fn on_graph<B: BasisGradientsBackend, C: CheckpointStrategy, const N: usize>(
    tensors: Vec<FloatTensor<Autodiff<B, C>>>,
    parts: Parts,
    spec: BasisSpec,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes = std::array::from_fn(|index| tensors[index].node());
    let layer = BasisLayer(NodeLayer::current());
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
fn compute<B: BasisBackend, C: CheckpointStrategy>(
    tensors: Vec<FloatTensor<Autodiff<B, C>>>,
    parts: Parts,
    spec: BasisSpec,
) -> FloatTensor<B> {
    let tensors = tensors.into_iter().map(|tensor| tensor.into_primitive());
    let ([x, coefficients], others) = split::<FloatTensor<B>>(parts, tensors);
    let [seen, functions, base, bias] = others.map(Operand::from);
    B::basis_layer(x, seen, coefficients, functions, base, bias, spec)
}

impl<B: BasisGradientsBackend, C: CheckpointStrategy> BasisBackend for Autodiff<B, C> {
    fn basis_layer(
        x: FloatTensor<Self>,
        seen: Operand<Self>,
        coefficients: FloatTensor<Self>,
        functions: Operand<Self>,
        base: Operand<Self>,
        bias: Operand<Self>,
        spec: BasisSpec,
    ) -> FloatTensor<Self> {
        let others = [seen, functions, base, bias].map(Operand::given);
        let parts = others.each_ref().map(Option::is_some);
        let tensors: Vec<_> =
            [x, coefficients].into_iter().chain(others.into_iter().flatten()).collect();
        match tensors.len() {
            2 => on_graph::<B, C, 2>(tensors, parts, spec),
            3 => on_graph::<B, C, 3>(tensors, parts, spec),
            4 => on_graph::<B, C, 4>(tensors, parts, spec),
            5 => on_graph::<B, C, 5>(tensors, parts, spec),
            _ => on_graph::<B, C, 6>(tensors, parts, spec),
        }
    }
}
