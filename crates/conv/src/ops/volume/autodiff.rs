//! The gradients of our operations of volumes, by hand.

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;

use super::extension::{
    Conv3dSpec, GroupNormSpec, Pool3dSpec, ResizeSpec, VolumeBackend, VolumeGradients,
};
use crate::ops::autodiff::{of_one, on_graph, with_optional};
use crate::ops::extension::Operand;

/// A convolution of input and weights, and of a bias if there are three tensors.
#[derive(Debug, Clone, Copy)]
enum Convolution {
    Forward,
    Transposed,
}

impl Convolution {
    fn run<B: VolumeBackend>(
        self,
        x: FloatTensor<B>,
        w: FloatTensor<B>,
        bias: Operand<B>,
        spec: Conv3dSpec,
    ) -> FloatTensor<B> {
        match self {
            Self::Forward => B::convolution_3d(x, w, bias, spec),
            Self::Transposed => B::transposed_convolution_3d(x, w, bias, spec),
        }
    }

    /// On a graph.
    fn on_graph<B: VolumeGradients, C: CheckpointStrategy, const N: usize>(
        self,
        tensors: [FloatTensor<Autodiff<B, C>>; N],
        spec: Conv3dSpec,
    ) -> FloatTensor<Autodiff<B, C>> {
        let state = |nodes, ()| (nodes, spec);
        let (y, ()) = on_graph::<B, C, _, _, N>(self, tensors, state, |tensors| {
            let ([x, w], bias) = with_optional(tensors);
            (self.run::<B>(x, w, bias.into(), spec), ())
        });
        y
    }
}

impl<B: VolumeGradients, const N: usize> Backward<B, N> for Convolution {
    type State = ([NodeId; N], Conv3dSpec);

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
            gradients.register::<B>(node.id, B::channel_sums(dy.clone(), spec.isa));
        }
        if let Some(node) = x {
            let w: FloatTensor<B> = checkpointer.retrieve_node_output(w_state);
            // Each is the input's gradient of the other.
            let other = match self {
                Self::Forward => Self::Transposed,
                Self::Transposed => Self::Forward,
            };
            let dx = other.run::<B>(dy.clone(), w, Operand::Absent, spec);
            gradients.register::<B>(node.id, dx);
        }
        if let Some(node) = w {
            let x: FloatTensor<B> = checkpointer.retrieve_node_output(x_state);
            let dw = match self {
                Self::Forward => B::weight_gradient_3d(x, dy, spec),
                Self::Transposed => B::weight_gradient_3d(dy, x, spec),
            };
            gradients.register::<B>(node.id, dw);
        }
    }
}

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
        for (parent, gradient) in ops.parents.into_iter().zip(all) {
            if let Some(node) = parent {
                gradients.register::<B>(node.id, gradient);
            }
        }
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

impl<B: VolumeGradients, C: CheckpointStrategy> VolumeBackend for Autodiff<B, C> {
    fn convolution_3d(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        bias: Operand<Self>,
        spec: Conv3dSpec,
    ) -> FloatTensor<Self> {
        match bias {
            Operand::Given(bias) => Convolution::Forward.on_graph::<B, C, 3>([x, w, bias], spec),
            Operand::Absent => Convolution::Forward.on_graph::<B, C, 2>([x, w], spec),
        }
    }

    fn transposed_convolution_3d(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        bias: Operand<Self>,
        spec: Conv3dSpec,
    ) -> FloatTensor<Self> {
        match bias {
            Operand::Given(bias) => Convolution::Transposed.on_graph::<B, C, 3>([x, w, bias], spec),
            Operand::Absent => Convolution::Transposed.on_graph::<B, C, 2>([x, w], spec),
        }
    }

    fn group_normalization(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        spec: GroupNormSpec,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let state = |nodes, statistics| (nodes, statistics, spec);
        let tensors = [x, gamma, beta];
        let (y, statistics) =
            on_graph::<B, C, _, _, 3>(GroupNorm, tensors, state, |[x, gamma, beta]| {
                let (y, mean, variance) = B::group_normalization(x, gamma, beta, spec);
                (y, [mean, variance])
            });
        let [mean, variance] = statistics.map(|tensor| <FloatTensor<Self>>::new(tensor));
        (y, mean, variance)
    }

    fn pooling_3d(x: FloatTensor<Self>, spec: Pool3dSpec) -> FloatTensor<Self> {
        of_one::<B, C, _>(x, spec, B::pooling_3d, B::pooling_3d_gradient)
    }

    fn resizing(x: FloatTensor<Self>, spec: ResizeSpec) -> FloatTensor<Self> {
        match Resized.prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                prep.finish(spec.clone(), B::resizing(x.into_primitive(), spec))
            }
            OpsKind::UnTracked(prep) => prep.finish(B::resizing(x.into_primitive(), spec)),
        }
    }
}
