//! The gradients of our operations of volumes, by hand.

use std::marker::PhantomData;

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::retro_forward::RetroForward;
use burn::backend::autodiff::checkpoint::state::BackwardStates;
use burn::backend::autodiff::checkpoint::strategy::{BalancedCheckpointing, CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::ops::FloatTensorOps as _;
use burn::backend::tensor::FloatTensor;

use super::extension::{GroupNormSpec, ResizeSpec, VolumeBackend, VolumeGradients};
use super::norm_convolution::{
    self, AnyConv, ConvolutionNormalized, JoinedConvolution, NormConvSpec, NormalizedConvolution,
};
use crate::kernels::Activation;
use crate::ops::autodiff::{Convolution, of_one};
use crate::ops::extension::{ConvBackend as _, ConvSpec, Operand, PoolSpec};
use crate::ops::graph::{finish, on_graph, register, with_optional};
use crate::ops::in_layer::InLayer;

#[derive(Debug)]
struct GroupNorm;

impl<B: VolumeGradients> Backward<B, 3> for GroupNorm {
    /// The tensors, the statistics, and the settings of the normalization.
    type State = ([NodeId; 3], [FloatTensor<B>; 2], GroupNormSpec);

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let (nodes, statistics, spec) = ops.state;
        let [x, gamma, beta]: [FloatTensor<B>; 3] =
            nodes.map(|node| checkpointer.retrieve_node_output(node));
        let all = B::group_normalization_gradient(x, [gamma, beta], statistics, dy, spec);
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B, 3>(gradients, parents, all);
    }
}

/// Of input, factors, summands and residual, with an activation whose slopes are those of its result,
/// which the next operation usually keeps anyway.
#[derive(Debug)]
struct ResidualGroupNorm;

impl<B: VolumeGradients> Backward<B, 4> for ResidualGroupNorm {
    /// Input, factors and summands, the result, the statistics, and the settings of the normalization.
    type State = ([NodeId; 3], FloatTensor<B>, [FloatTensor<B>; 2], GroupNormSpec);

    fn backward(
        self,
        ops: Ops<Self::State, 4>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let (nodes, y, statistics, spec) = ops.state;
        let [x, gamma, beta]: [FloatTensor<B>; 3] =
            nodes.map(|node| checkpointer.retrieve_node_output(node));
        let [own @ .., of_residual] = ops.parents.map(|parent| parent.map(|node| node.id));
        let dy = B::activation_gradient(y, dy, spec.activation, spec.isa);
        if let Some(node) = of_residual {
            gradients.register::<B>(node, dy.clone());
        }
        let spec = GroupNormSpec { activation: Activation::Identity, ..spec };
        let all = B::group_normalization_gradient(x, [gamma, beta], statistics, dy, spec);
        register::<B, 3>(gradients, own, all);
    }
}

/// Linear in its input, which its gradient does not need.
#[derive(Debug)]
struct Resized;

impl<B: VolumeGradients> Backward<B, 1> for Resized {
    type State = ResizeSpec;

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        gradients: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let ([x], spec) = (ops.parents, ops.state);
        if let Some(node) = x {
            gradients.register::<B>(node.id, B::resizing_gradient(dy, spec));
        }
    }
}

/// A transposed convolution and its gradients: it and a convolution are each other's gradient.
fn transposed<B: VolumeGradients>(spec: ConvSpec<3>) -> Convolution<B, ConvSpec<3>> {
    Convolution {
        forward: B::transposed_convolution_3d,
        input_gradient: |dy, w, spec| B::convolution_3d(dy, w, Operand::Absent, spec),
        weight_gradient: |x, dy, spec| B::weight_gradient_3d(dy, x, spec),
        isa: spec.isa,
        spec,
    }
}

/// How a transposed convolution of these nodes is computed again.
#[derive(Debug)]
struct Recomputed<B, const N: usize> {
    nodes: [NodeId; N],
    spec: ConvSpec<3>,
    backend: PhantomData<fn() -> B>,
}

impl<B: VolumeGradients, const N: usize> RetroForward for Recomputed<B, N> {
    fn forward(&self, states: &mut BackwardStates, node: NodeId) {
        let tensors = self.nodes.map(|node| states.get_state::<FloatTensor<B>>(&node));
        let ([x, w], bias) = with_optional::<_, N, 2>(tensors);
        states.save(node, B::transposed_convolution_3d(x, w, bias.into(), self.spec));
    }
}

/// A transposed convolution whose result is computed again for the gradients that need it, whatever
/// strategy the graph has.
fn recomputed<B: VolumeGradients, C: CheckpointStrategy, const N: usize>(
    tensors: [FloatTensor<Autodiff<B, C>>; N],
    spec: ConvSpec<3>,
) -> FloatTensor<Autodiff<B, C>> {
    let guards = tensors.each_ref().map(|tensor| tensor.node());
    let nodes = guards.each_ref().map(|guard| guard.id());
    let prepared = InLayer::new(transposed::<B>(spec))
        .prepare::<BalancedCheckpointing>(guards)
        .memory_bound()
        .retro_forward(Recomputed::<B, N> { nodes, spec, backend: PhantomData })
        .parents(&tensors)
        .stateful();
    let compute = |tensors| {
        let ([x, w], bias) = with_optional::<_, N, 2>(tensors);
        (B::transposed_convolution_3d(x, w, bias.into(), spec), ())
    };
    finish::<B, C, _, _, _, N>(prepared, tensors, |nodes, ()| nodes, compute).0
}

/// The result and the statistics of a group normalization of input, factors and summands.
fn group_normalized<B: VolumeGradients, C: CheckpointStrategy>(
    tensors: [FloatTensor<Autodiff<B, C>>; 3],
    spec: GroupNormSpec,
) -> (FloatTensor<Autodiff<B, C>>, [FloatTensor<B>; 2]) {
    let state = |nodes, statistics| (nodes, statistics, spec);
    on_graph::<B, C, _, _, 3>(GroupNorm, tensors, state, |[x, gamma, beta]| {
        let (y, mean, variance) = B::group_normalization(x, gamma, beta, Operand::Absent, spec);
        (y, [mean, variance])
    })
}

/// The same with a residual, which the gradient does not keep: the result may take its memory.
fn residual_added<B: VolumeGradients, C: CheckpointStrategy>(
    tensors: [FloatTensor<Autodiff<B, C>>; 3],
    residual: FloatTensor<Autodiff<B, C>>,
    spec: GroupNormSpec,
) -> (FloatTensor<Autodiff<B, C>>, [FloatTensor<B>; 2]) {
    let [x, gamma, beta] = tensors.each_ref().map(|tensor| tensor.node());
    let nodes = [x, gamma, beta, residual.node()];
    let compute = |tensors: [FloatTensor<Autodiff<B, C>>; 3],
                   residual: FloatTensor<Autodiff<B, C>>| {
        let [x, gamma, beta] = tensors.map(|tensor| tensor.into_primitive());
        let residual = Operand::Given(residual.into_primitive());
        let (y, mean, variance) = B::group_normalization(x, gamma, beta, residual, spec);
        (y, [mean, variance])
    };
    match InLayer::new(ResidualGroupNorm).prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let nodes = tensors.each_ref().map(|tensor| prep.checkpoint(tensor));
            let (y, statistics) = compute(tensors, residual);
            let state = (nodes, y.clone(), statistics.clone(), spec);
            (prep.finish(state, y), statistics)
        }
        OpsKind::UnTracked(prep) => {
            let (y, statistics) = compute(tensors, residual);
            (prep.finish(y), statistics)
        }
    }
}

fn normalized_convolution<B: VolumeGradients, C: CheckpointStrategy, const N: usize>(
    tensors: [FloatTensor<Autodiff<B, C>>; N],
    spec: NormConvSpec,
) -> FloatTensor<Autodiff<B, C>> {
    let state = |nodes, statistics| (nodes, statistics, spec);
    let compute = |tensors| {
        let (tensors, bias) = with_optional::<_, N, 4>(tensors);
        norm_convolution::normalized_convolution::<B>(tensors, bias.into(), spec)
    };
    on_graph::<B, C, _, _, N>(NormalizedConvolution, tensors, state, compute).0
}

impl<B: VolumeGradients, C: CheckpointStrategy> VolumeBackend for Autodiff<B, C> {
    fn convolution_3d(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        bias: Operand<Self>,
        spec: ConvSpec<3>,
    ) -> FloatTensor<Self> {
        let convolution = Convolution {
            forward: B::convolution_3d,
            input_gradient: |dy, w, spec| {
                B::transposed_convolution_3d(dy, w, Operand::Absent, spec)
            },
            weight_gradient: B::weight_gradient_3d,
            isa: spec.isa,
            spec,
        };
        convolution.on_graph::<C>(x, w, bias)
    }

    fn transposed_convolution_3d(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        bias: Operand<Self>,
        spec: ConvSpec<3>,
    ) -> FloatTensor<Self> {
        transposed::<B>(spec).on_graph::<C>(x, w, bias)
    }

    fn recomputed_transposed_convolution_3d(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        bias: Operand<Self>,
        spec: ConvSpec<3>,
    ) -> FloatTensor<Self> {
        match bias {
            Operand::Given(bias) => recomputed::<B, C, 3>([x, w, bias], spec),
            Operand::Absent => recomputed::<B, C, 2>([x, w], spec),
        }
    }

    fn group_normalization(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        residual: Operand<Self>,
        spec: GroupNormSpec,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (y, statistics) = match residual {
            Operand::Absent => group_normalized::<B, C>([x, gamma, beta], spec),
            Operand::Given(residual) if spec.activation.has_slopes_of_its_result() => {
                residual_added::<B, C>([x, gamma, beta], residual, spec)
            }
            Operand::Given(residual) => {
                let linear = GroupNormSpec { activation: Activation::Identity, ..spec };
                let (y, statistics) = group_normalized::<B, C>([x, gamma, beta], linear);
                let sum = Self::float_add(y, residual);
                let y = match spec.activation {
                    Activation::Identity => sum,
                    activation => Self::activation(sum, activation, spec.isa),
                };
                (y, statistics)
            }
        };
        let [mean, variance] = statistics.map(|tensor| <FloatTensor<Self>>::new(tensor));
        (y, mean, variance)
    }

    fn normalized_convolution(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        w: FloatTensor<Self>,
        bias: Operand<Self>,
        spec: NormConvSpec,
    ) -> FloatTensor<Self> {
        match bias {
            Operand::Given(bias) => {
                normalized_convolution::<B, C, 5>([x, gamma, beta, w, bias], spec)
            }
            Operand::Absent => normalized_convolution::<B, C, 4>([x, gamma, beta, w], spec),
        }
    }

    fn convolution_normalized(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        spec: NormConvSpec,
    ) -> FloatTensor<Self> {
        let state = |nodes, statistics| (nodes, statistics, spec);
        let tensors = [x, w, gamma, beta];
        let compute = |tensors| norm_convolution::convolution_normalized::<B>(tensors, spec);
        on_graph::<B, C, _, _, 4>(ConvolutionNormalized, tensors, state, compute).0
    }

    fn joined_convolution(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        w: FloatTensor<Self>,
        spec: AnyConv,
    ) -> FloatTensor<Self> {
        let compute = |[a, b, w]: [FloatTensor<B>; 3]| (B::joined_convolution(a, b, w, spec), ());
        let state = |nodes, ()| (nodes, spec);
        on_graph::<B, C, _, _, 3>(JoinedConvolution, [a, b, w], state, compute).0
    }

    fn pooling_3d(x: FloatTensor<Self>, spec: PoolSpec<3>) -> FloatTensor<Self> {
        of_one::<B, C, _>(x, spec, B::pooling_3d, B::pooling_3d_gradient)
    }

    fn resizing(x: FloatTensor<Self>, spec: ResizeSpec) -> FloatTensor<Self> {
        match InLayer::new(Resized).prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                prep.finish(spec.clone(), B::resizing(x.into_primitive(), spec))
            }
            OpsKind::UnTracked(prep) => prep.finish(B::resizing(x.into_primitive(), spec)),
        }
    }
}
