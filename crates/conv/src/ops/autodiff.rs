//! The gradients of our operations, by hand.

use std::fmt::Debug;

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend};

use super::extension::{ConvBackend, ConvGradients, ConvSpec, NormSpec, Operand, PoolSpec};
use crate::kernels::{Activation, Isa};

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
    match operation.prepare::<C>(nodes).compute_bound().stateful() {
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

/// The gradient of an operation of one tensor, by the tensor, the result's gradient and the settings.
type GradientOfOne<B, S> = fn(FloatTensor<B>, FloatTensor<B>, S) -> FloatTensor<B>;

#[derive(Debug)]
struct OfOne<B: Backend, S>(GradientOfOne<B, S>);

impl<B: Backend, S: Clone + Debug + Send + 'static> Backward<B, 1> for OfOne<B, S> {
    type State = (NodeId, S);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let ([x], (state, spec)) = (ops.parents, ops.state);
        if let Some(node) = x {
            let x: FloatTensor<B> = checkpointer.retrieve_node_output(state);
            gradients.register::<B>(node.id, (self.0)(x, dy, spec));
        }
    }
}

/// Computes an operation of one tensor below the graph and records its gradient there.
pub(super) fn of_one<B, C, S>(
    x: FloatTensor<Autodiff<B, C>>,
    spec: S,
    compute: impl FnOnce(FloatTensor<B>, S) -> FloatTensor<B>,
    gradient: GradientOfOne<B, S>,
) -> FloatTensor<Autodiff<B, C>>
where
    B: Backend,
    C: CheckpointStrategy,
    S: Clone + Debug + Send + 'static,
{
    let below = spec.clone();
    let state = |[node]: [NodeId; 1], ()| (node, spec);
    on_graph::<B, C, _, _, 1>(OfOne(gradient), [x], state, |[x]| (compute(x, below), ())).0
}

/// A convolution of input and weights, and of a bias if there are three tensors.
#[derive(Debug)]
struct Convolution;

impl<B: ConvGradients, const N: usize> Backward<B, N> for Convolution {
    type State = ([NodeId; N], ConvSpec);

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let ([x, w], bias) = with_optional(ops.parents);
        let (states, spec) = ops.state;
        let ([x_state, w_state], _) = with_optional(states);
        if let Some(node) = bias.flatten() {
            gradients.register::<B>(node.id, B::convolution_bias_gradient(dy.clone(), spec));
        }
        if let Some(node) = x {
            let w: FloatTensor<B> = checkpointer.retrieve_node_output(w_state);
            let dx = B::convolution_input_gradient(dy.clone(), w, spec);
            gradients.register::<B>(node.id, dx);
        }
        if let Some(node) = w {
            let x: FloatTensor<B> = checkpointer.retrieve_node_output(x_state);
            let dw = B::convolution_weight_gradient(x, dy, spec);
            gradients.register::<B>(node.id, dw);
        }
    }
}

/// A normalization of input, factors and summands, and of a residual if there are four tensors.
#[derive(Debug)]
struct BatchNorm;

impl<B: ConvGradients, const N: usize> Backward<B, N> for BatchNorm {
    /// The tensors, the statistics, and the settings of the normalization.
    type State = ([NodeId; N], [FloatTensor<B>; 2], NormSpec);

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let (nodes, statistics, spec) = ops.state;
        let tensors: [FloatTensor<B>; N] =
            nodes.map(|node| checkpointer.retrieve_node_output(node));
        let ([x, gamma, beta], residual) = with_optional(tensors);
        let (own, dresidual) =
            B::normalization_gradient(x, [gamma, beta], statistics, residual, dy, spec);
        for (parent, gradient) in ops.parents.into_iter().zip(own.into_iter().chain(dresidual)) {
            if let Some(node) = parent {
                gradients.register::<B>(node.id, gradient);
            }
        }
    }
}

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
        for (parent, gradient) in
            ops.parents.into_iter().zip(std::iter::once(dweights).chain(dtensors))
        {
            if let Some(node) = parent {
                gradients.register::<B>(node.id, gradient);
            }
        }
    }
}

fn convolved<B: ConvGradients, C: CheckpointStrategy, const N: usize>(
    tensors: [FloatTensor<Autodiff<B, C>>; N],
    spec: ConvSpec,
) -> FloatTensor<Autodiff<B, C>> {
    let state = |nodes, ()| (nodes, spec);
    let (y, ()) = on_graph::<B, C, _, _, N>(Convolution, tensors, state, |tensors| {
        let ([x, w], bias) = with_optional(tensors);
        (B::convolution(x, w, bias.into(), spec), ())
    });
    y
}

/// The result with the statistics: the given ones, or the batch's.
fn normalized<B: ConvGradients, C: CheckpointStrategy, const N: usize>(
    tensors: [FloatTensor<Autodiff<B, C>>; N],
    given: Option<[FloatTensor<B>; 2]>,
    spec: NormSpec,
) -> (FloatTensor<Autodiff<B, C>>, [FloatTensor<B>; 2]) {
    let state = |nodes, statistics| (nodes, statistics, spec);
    on_graph::<B, C, _, _, N>(BatchNorm, tensors, state, |tensors| {
        let ([x, gamma, beta], residual) = with_optional(tensors);
        let residual = residual.into();
        match given {
            Some([mean, variance]) => {
                let statistics = [mean.clone(), variance.clone()];
                let y = B::normalization_by(x, gamma, beta, mean, variance, residual, spec);
                (y, statistics)
            }
            None => {
                let (y, mean, variance) = B::normalization(x, gamma, beta, residual, spec);
                (y, [mean, variance])
            }
        }
    })
}

fn summed<B: ConvGradients, C: CheckpointStrategy, const N: usize>(
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

impl<B: ConvGradients, C: CheckpointStrategy> ConvBackend for Autodiff<B, C> {
    fn convolution(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        bias: Operand<Self>,
        spec: ConvSpec,
    ) -> FloatTensor<Self> {
        match bias {
            Operand::Given(bias) => convolved::<B, C, 3>([x, w, bias], spec),
            Operand::Absent => convolved::<B, C, 2>([x, w], spec),
        }
    }

    fn activation(x: FloatTensor<Self>, activation: Activation, isa: Isa) -> FloatTensor<Self> {
        let compute = |x, (activation, isa)| B::activation(x, activation, isa);
        of_one::<B, C, _>(x, (activation, isa), compute, |x, dy, (activation, isa)| {
            B::activation_gradient(x, dy, activation, isa)
        })
    }

    fn normalization(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        residual: Operand<Self>,
        spec: NormSpec,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (y, statistics) = match residual {
            Operand::Given(residual) => {
                normalized::<B, C, 4>([x, gamma, beta, residual], None, spec)
            }
            Operand::Absent => normalized::<B, C, 3>([x, gamma, beta], None, spec),
        };
        let [mean, variance] = statistics.map(|tensor| <FloatTensor<Self>>::new(tensor));
        (y, mean, variance)
    }

    fn normalization_by(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        residual: Operand<Self>,
        spec: NormSpec,
    ) -> FloatTensor<Self> {
        let given = Some([mean, variance].map(|tensor| tensor.into_primitive()));
        match residual {
            Operand::Given(residual) => {
                normalized::<B, C, 4>([x, gamma, beta, residual], given, spec).0
            }
            Operand::Absent => normalized::<B, C, 3>([x, gamma, beta], given, spec).0,
        }
    }

    fn pooling(x: FloatTensor<Self>, spec: PoolSpec) -> FloatTensor<Self> {
        of_one::<B, C, _>(x, spec, B::pooling, B::pooling_gradient)
    }

    fn weighted_sum(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: Operand<Self>,
        weights: FloatTensor<Self>,
        isa: Isa,
    ) -> FloatTensor<Self> {
        match c {
            Operand::Given(c) => summed::<B, C, 4>([weights, a, b, c], isa),
            Operand::Absent => summed::<B, C, 3>([weights, a, b], isa),
        }
    }
}
