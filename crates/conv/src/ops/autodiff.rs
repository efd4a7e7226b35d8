//! The gradients of our operations, by hand.

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;

use super::extension::{ConvBackend, ConvSpec, NormSpec, PoolSpec, SumSpec};
use crate::kernels::{Activation, Isa};

/// burn differentiates once: nothing asks for a gradient's gradient.
const ONCE: &str = "burn's autodiff is first-order";

#[derive(Debug)]
struct Convolution;

impl<B: ConvBackend> Backward<B, 3> for Convolution {
    type State = (NodeId, NodeId, ConvSpec);

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let [x, w, bias] = ops.parents;
        let (x_state, w_state, spec) = ops.state;
        if let Some(node) = bias.filter(|_| spec.has_bias) {
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

#[derive(Debug)]
struct Activated;

impl<B: ConvBackend> Backward<B, 1> for Activated {
    type State = (NodeId, Activation, Isa);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let ([x], (state, activation, isa)) = (ops.parents, ops.state);
        if let Some(node) = x {
            let x: FloatTensor<B> = checkpointer.retrieve_node_output(state);
            let dx = B::activation_gradient(x, dy, activation, isa);
            gradients.register::<B>(node.id, dx);
        }
    }
}

#[derive(Debug)]
struct BatchNorm;

impl<B: ConvBackend> Backward<B, 4> for BatchNorm {
    /// The tensors, the statistics, and what the normalization was.
    type State = ([NodeId; 4], [FloatTensor<B>; 2], NormSpec);

    fn backward(
        self,
        ops: Ops<Self::State, 4>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let (nodes, [mean, variance], spec) = ops.state;
        let [x, gamma, beta, residual]: [FloatTensor<B>; 4] =
            nodes.map(|node| checkpointer.retrieve_node_output(node));
        let (dx, dgamma, dbeta, dresidual) =
            B::normalization_gradient(x, gamma, beta, mean, variance, residual, dy, spec);
        let [x, gamma, beta, residual] = ops.parents;
        let residual = residual.filter(|_| spec.has_residual);
        let parents = [x, gamma, beta, residual].into_iter();
        for (parent, gradient) in parents.zip([dx, dgamma, dbeta, dresidual]) {
            if let Some(node) = parent {
                gradients.register::<B>(node.id, gradient);
            }
        }
    }
}

#[derive(Debug)]
struct Pooled;

impl<B: ConvBackend> Backward<B, 1> for Pooled {
    type State = (NodeId, PoolSpec);

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
            gradients.register::<B>(node.id, B::pooling_gradient(x, dy, spec));
        }
    }
}

#[derive(Debug)]
struct WeightedSum;

impl<B: ConvBackend> Backward<B, 4> for WeightedSum {
    type State = ([NodeId; 4], SumSpec);

    fn backward(
        self,
        ops: Ops<Self::State, 4>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let (nodes, spec) = ops.state;
        let [a, b, c, weights]: [FloatTensor<B>; 4] =
            nodes.map(|node| checkpointer.retrieve_node_output(node));
        let (da, db, dc, dweights) = B::weighted_sum_gradient(a, b, c, weights, dy, spec);
        let [a, b, c, weights] = ops.parents;
        let parents = [a, b, c.filter(|_| spec.terms == 3), weights].into_iter();
        for (parent, gradient) in parents.zip([da, db, dc, dweights]) {
            if let Some(node) = parent {
                gradients.register::<B>(node.id, gradient);
            }
        }
    }
}

/// Normalizes by the inner backend: result, mean and variance.
fn normalized<B: ConvBackend>(
    [x, gamma, beta, residual]: [FloatTensor<B>; 4],
    given: Option<[FloatTensor<B>; 2]>,
    spec: NormSpec,
) -> (FloatTensor<B>, [FloatTensor<B>; 2]) {
    match given {
        Some([mean, variance]) => {
            let statistics = [mean.clone(), variance.clone()];
            (B::normalization_by(x, gamma, beta, mean, variance, residual, spec), statistics)
        }
        None => {
            let (y, mean, variance) = B::normalization(x, gamma, beta, residual, spec);
            (y, [mean, variance])
        }
    }
}

/// The same on a graph.
fn normalized_on_graph<B: ConvBackend, C: CheckpointStrategy>(
    tensors: [FloatTensor<Autodiff<B, C>>; 4],
    given: Option<[FloatTensor<B>; 2]>,
    spec: NormSpec,
) -> (FloatTensor<Autodiff<B, C>>, [FloatTensor<B>; 2]) {
    let nodes = tensors.each_ref().map(|tensor| tensor.node());
    match BatchNorm.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let states = tensors.each_ref().map(|tensor| prep.checkpoint(tensor));
            let tensors = tensors.map(|tensor| tensor.into_primitive());
            let (y, statistics) = normalized::<B>(tensors, given, spec);
            (prep.finish((states, statistics.clone(), spec), y), statistics)
        }
        OpsKind::UnTracked(prep) => {
            let tensors = tensors.map(|tensor| tensor.into_primitive());
            let (y, statistics) = normalized::<B>(tensors, given, spec);
            (prep.finish(y), statistics)
        }
    }
}

impl<B: ConvBackend, C: CheckpointStrategy> ConvBackend for Autodiff<B, C> {
    fn convolution(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        spec: ConvSpec,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), w.node(), bias.node()];
        match Convolution.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let state = (prep.checkpoint(&x), prep.checkpoint(&w), spec);
                let [x, w, bias] = [x, w, bias].map(|tensor| tensor.into_primitive());
                prep.finish(state, B::convolution(x, w, bias, spec))
            }
            OpsKind::UnTracked(prep) => {
                let [x, w, bias] = [x, w, bias].map(|tensor| tensor.into_primitive());
                prep.finish(B::convolution(x, w, bias, spec))
            }
        }
    }

    fn convolution_input_gradient(
        _dy: FloatTensor<Self>,
        _w: FloatTensor<Self>,
        _spec: ConvSpec,
    ) -> FloatTensor<Self> {
        unreachable!("{ONCE}")
    }

    fn convolution_weight_gradient(
        _x: FloatTensor<Self>,
        _dy: FloatTensor<Self>,
        _spec: ConvSpec,
    ) -> FloatTensor<Self> {
        unreachable!("{ONCE}")
    }

    fn convolution_bias_gradient(_dy: FloatTensor<Self>, _spec: ConvSpec) -> FloatTensor<Self> {
        unreachable!("{ONCE}")
    }

    fn activation(x: FloatTensor<Self>, activation: Activation, isa: Isa) -> FloatTensor<Self> {
        match Activated.prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let state = (prep.checkpoint(&x), activation, isa);
                prep.finish(state, B::activation(x.into_primitive(), activation, isa))
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(B::activation(x.into_primitive(), activation, isa))
            }
        }
    }

    fn activation_gradient(
        _x: FloatTensor<Self>,
        _dy: FloatTensor<Self>,
        _activation: Activation,
        _path: Isa,
    ) -> FloatTensor<Self> {
        unreachable!("{ONCE}")
    }

    fn normalization(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        spec: NormSpec,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (y, statistics) = normalized_on_graph::<B, C>([x, gamma, beta, residual], None, spec);
        let [mean, variance] = statistics.map(|tensor| <FloatTensor<Self>>::new(tensor));
        (y, mean, variance)
    }

    fn normalization_by(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        spec: NormSpec,
    ) -> FloatTensor<Self> {
        let given = [mean, variance].map(|tensor| tensor.into_primitive());
        normalized_on_graph::<B, C>([x, gamma, beta, residual], Some(given), spec).0
    }

    fn normalization_gradient(
        _x: FloatTensor<Self>,
        _gamma: FloatTensor<Self>,
        _beta: FloatTensor<Self>,
        _mean: FloatTensor<Self>,
        _variance: FloatTensor<Self>,
        _residual: FloatTensor<Self>,
        _dy: FloatTensor<Self>,
        _spec: NormSpec,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{ONCE}")
    }

    fn pooling(x: FloatTensor<Self>, spec: PoolSpec) -> FloatTensor<Self> {
        match Pooled.prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let state = (prep.checkpoint(&x), spec.clone());
                prep.finish(state, B::pooling(x.into_primitive(), spec))
            }
            OpsKind::UnTracked(prep) => prep.finish(B::pooling(x.into_primitive(), spec)),
        }
    }

    fn pooling_gradient(
        _x: FloatTensor<Self>,
        _dy: FloatTensor<Self>,
        _spec: PoolSpec,
    ) -> FloatTensor<Self> {
        unreachable!("{ONCE}")
    }

    fn weighted_sum(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        spec: SumSpec,
    ) -> FloatTensor<Self> {
        let tensors = [a, b, c, weights];
        let nodes = tensors.each_ref().map(|tensor| tensor.node());
        match WeightedSum.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let states = tensors.each_ref().map(|tensor| prep.checkpoint(tensor));
                let [a, b, c, weights] = tensors.map(|tensor| tensor.into_primitive());
                prep.finish((states, spec), B::weighted_sum(a, b, c, weights, spec))
            }
            OpsKind::UnTracked(prep) => {
                let [a, b, c, weights] = tensors.map(|tensor| tensor.into_primitive());
                prep.finish(B::weighted_sum(a, b, c, weights, spec))
            }
        }
    }

    fn weighted_sum_gradient(
        _a: FloatTensor<Self>,
        _b: FloatTensor<Self>,
        _c: FloatTensor<Self>,
        _weights: FloatTensor<Self>,
        _dy: FloatTensor<Self>,
        _spec: SumSpec,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{ONCE}")
    }
}
