//! The gradients of our operations, by hand.

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;

use super::extension::ConvBackend;
use crate::kernels::{Activation, ConvShape};

/// burn differentiates once: nothing asks for a gradient's gradient.
const ONCE: &str = "burn's autodiff is first-order";

#[derive(Debug)]
struct Convolution;

impl<B: ConvBackend> Backward<B, 2> for Convolution {
    type State = (NodeId, NodeId, ConvShape);

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let [x, w] = ops.parents;
        let dy = gradients.consume::<B>(&ops.node);
        let (x_state, w_state, shape) = ops.state;
        if let Some(node) = x {
            let w: FloatTensor<B> = checkpointer.retrieve_node_output(w_state);
            let dx = B::convolution_input_gradient(dy.clone(), w, shape);
            gradients.register::<B>(node.id, dx);
        }
        if let Some(node) = w {
            let x: FloatTensor<B> = checkpointer.retrieve_node_output(x_state);
            let dw = B::convolution_weight_gradient(x, dy, shape);
            gradients.register::<B>(node.id, dw);
        }
    }
}

#[derive(Debug)]
struct BatchNorm;

impl<B: ConvBackend> Backward<B, 3> for BatchNorm {
    type State = ([NodeId; 3], [FloatTensor<B>; 2], f64, Activation);

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let ([x, gamma, beta], [mean, variance], epsilon, activation) = ops.state;
        let x: FloatTensor<B> = checkpointer.retrieve_node_output(x);
        let gamma: FloatTensor<B> = checkpointer.retrieve_node_output(gamma);
        let beta: FloatTensor<B> = checkpointer.retrieve_node_output(beta);
        let (dx, dgamma, dbeta) =
            B::normalization_gradient(x, gamma, beta, mean, variance, dy, epsilon, activation);
        for (parent, gradient) in ops.parents.into_iter().zip([dx, dgamma, dbeta]) {
            if let Some(node) = parent {
                gradients.register::<B>(node.id, gradient);
            }
        }
    }
}

impl<B: ConvBackend, C: CheckpointStrategy> ConvBackend for Autodiff<B, C> {
    fn convolution(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        shape: ConvShape,
    ) -> FloatTensor<Self> {
        match Convolution.prepare::<C>([x.node(), w.node()]).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let state = (prep.checkpoint(&x), prep.checkpoint(&w), shape);
                let y = B::convolution(x.into_primitive(), w.into_primitive(), shape);
                prep.finish(state, y)
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(B::convolution(x.into_primitive(), w.into_primitive(), shape))
            }
        }
    }

    fn convolution_input_gradient(
        _dy: FloatTensor<Self>,
        _w: FloatTensor<Self>,
        _shape: ConvShape,
    ) -> FloatTensor<Self> {
        unreachable!("{ONCE}")
    }

    fn convolution_weight_gradient(
        _x: FloatTensor<Self>,
        _dy: FloatTensor<Self>,
        _shape: ConvShape,
    ) -> FloatTensor<Self> {
        unreachable!("{ONCE}")
    }

    fn normalization(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
        activation: Activation,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let nodes = [x.node(), gamma.node(), beta.node()];
        let (y, mean, variance) = match BatchNorm.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let states = [&x, &gamma, &beta].map(|tensor| prep.checkpoint(tensor));
                let [x, gamma, beta] = [x, gamma, beta].map(|tensor| tensor.into_primitive());
                let (y, mean, variance) = B::normalization(x, gamma, beta, epsilon, activation);
                let state = (states, [mean.clone(), variance.clone()], epsilon, activation);
                (prep.finish(state, y), mean, variance)
            }
            OpsKind::UnTracked(prep) => {
                let [x, gamma, beta] = [x, gamma, beta].map(|tensor| tensor.into_primitive());
                let (y, mean, variance) = B::normalization(x, gamma, beta, epsilon, activation);
                (prep.finish(y), mean, variance)
            }
        };
        (y, <FloatTensor<Self>>::new(mean), <FloatTensor<Self>>::new(variance))
    }

    fn normalization_gradient(
        _x: FloatTensor<Self>,
        _gamma: FloatTensor<Self>,
        _beta: FloatTensor<Self>,
        _mean: FloatTensor<Self>,
        _variance: FloatTensor<Self>,
        _dy: FloatTensor<Self>,
        _epsilon: f64,
        _activation: Activation,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{ONCE}")
    }
}
