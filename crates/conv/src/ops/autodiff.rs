//! The gradients of our operations, by hand.

use std::fmt::Debug;

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend};

use super::extension::{ConvBackend, ConvGradients, ConvSpec, Operand, PoolSpec};
use super::fake_quantize::gradient::quantized;
use super::graph::{on_graph, with_optional};
use super::in_layer::InLayer;
use super::join::gradient::joined;
use super::weighted_sum::gradient::summed;
use crate::kernels::{Activation, Isa};

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

/// A convolution, by input, weights, bias and the settings.
type Convolved<B, S> = fn(FloatTensor<B>, FloatTensor<B>, Operand<B>, S) -> FloatTensor<B>;

/// A convolution's gradient, by two of input, weights and the result's gradient, and the settings.
type GradientOfTwo<B, S> = fn(FloatTensor<B>, FloatTensor<B>, S) -> FloatTensor<B>;

/// The forward pass of a convolution with its gradients, by `spec`.
#[derive(Debug)]
pub(super) struct Convolution<B: Backend, S> {
    pub(super) forward: Convolved<B, S>,
    /// Of the result's gradient and weights.
    pub(super) input_gradient: GradientOfTwo<B, S>,
    /// Of input and the result's gradient.
    pub(super) weight_gradient: GradientOfTwo<B, S>,
    pub(super) isa: Isa,
    pub(super) spec: S,
}

impl<B: ConvGradients, S: Copy + Debug + Send + 'static> Convolution<B, S> {
    /// Computes it below the graph and notes its gradients there.
    pub(super) fn on_graph<C: CheckpointStrategy>(
        self,
        x: FloatTensor<Autodiff<B, C>>,
        w: FloatTensor<Autodiff<B, C>>,
        bias: Operand<Autodiff<B, C>>,
    ) -> FloatTensor<Autodiff<B, C>> {
        match bias {
            Operand::Given(bias) => self.of::<C, 3>([x, w, bias]),
            Operand::Absent => self.of::<C, 2>([x, w]),
        }
    }

    fn of<C: CheckpointStrategy, const N: usize>(
        self,
        tensors: [FloatTensor<Autodiff<B, C>>; N],
    ) -> FloatTensor<Autodiff<B, C>> {
        let Self { forward, spec, .. } = self;
        let (y, ()) = on_graph::<B, C, _, _, N>(
            self,
            tensors,
            |nodes, ()| nodes,
            |tensors| {
                let ([x, w], bias) = with_optional(tensors);
                (forward(x, w, bias.into(), spec), ())
            },
        );
        y
    }
}

/// Of input and weights, and of a bias if there are three tensors.
impl<B: ConvGradients, S: Copy + Debug + Send + 'static, const N: usize> Backward<B, N>
    for Convolution<B, S>
{
    type State = [NodeId; N];

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let ([x, w], bias) = with_optional(ops.parents);
        let ([x_state, w_state], _) = with_optional(ops.state);
        if let Some(node) = bias.flatten() {
            gradients.register::<B>(node.id, B::channel_sums(dy.clone(), self.isa));
        }
        if let Some(node) = x {
            let w: FloatTensor<B> = checkpointer.retrieve_node_output(w_state);
            let dx = (self.input_gradient)(dy.clone(), w, self.spec);
            gradients.register::<B>(node.id, dx);
        }
        if let Some(node) = w {
            let x: FloatTensor<B> = checkpointer.retrieve_node_output(x_state);
            let dw = (self.weight_gradient)(x, dy, self.spec);
            gradients.register::<B>(node.id, dw);
        }
    }
}

/// A rectifier, whose gradient needs only signs, which its result has too: the result is usually
/// kept by the next operation anyway.
#[derive(Debug)]
struct Rectified;

impl<B: ConvGradients> Backward<B, 1> for Rectified {
    type State = (FloatTensor<B>, Activation, Isa);

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let dy = gradients.consume::<B>(&ops.node);
        let ([x], (y, activation, isa)) = (ops.parents, ops.state);
        if let Some(node) = x {
            gradients.register::<B>(node.id, B::activation_gradient(y, dy, activation, isa));
        }
    }
}

fn rectified<B: ConvGradients, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    activation: Activation,
    isa: Isa,
) -> FloatTensor<Autodiff<B, C>> {
    match InLayer::new(Rectified).prepare::<C>([x.node()]).compute_bound().stateful() {
        OpsKind::Tracked(prep) => {
            let y = B::activation(x.into_primitive(), activation, isa);
            prep.finish((y.clone(), activation, isa), y)
        }
        OpsKind::UnTracked(prep) => prep.finish(B::activation(x.into_primitive(), activation, isa)),
    }
}

impl<B: ConvGradients, C: CheckpointStrategy> ConvBackend for Autodiff<B, C> {
    fn join(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        joined::<B, C>(a, b)
    }

    fn convolution(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        bias: Operand<Self>,
        spec: ConvSpec,
    ) -> FloatTensor<Self> {
        let convolution = Convolution {
            forward: B::convolution,
            input_gradient: B::convolution_input_gradient,
            weight_gradient: B::convolution_weight_gradient,
            isa: spec.isa,
            spec,
        };
        convolution.on_graph::<C>(x, w, bias)
    }

    fn activation(x: FloatTensor<Self>, activation: Activation, isa: Isa) -> FloatTensor<Self> {
        let compute = |x, (activation, isa)| B::activation(x, activation, isa);
        if activation.has_slopes_of_its_result() {
            return rectified::<B, C>(x, activation, isa);
        }
        of_one::<B, C, _>(x, (activation, isa), compute, |x, dy, (activation, isa)| {
            B::activation_gradient(x, dy, activation, isa)
        })
    }

    fn pooling(x: FloatTensor<Self>, spec: PoolSpec) -> FloatTensor<Self> {
        of_one::<B, C, _>(x, spec, B::pooling, B::pooling_gradient)
    }

    fn fake_quantization(
        x: FloatTensor<Self>,
        steps: FloatTensor<Self>,
        lowest: FloatTensor<Self>,
        levels: u32,
        isa: Isa,
    ) -> FloatTensor<Self> {
        quantized::<B, C>([x, steps, lowest], levels, isa)
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
