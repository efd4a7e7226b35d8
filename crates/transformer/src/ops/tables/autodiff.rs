//! The gradients of the operations of tables, by hand.

use std::fmt::Debug;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, Backend};
use updraft_simd::NodeLayer;

use super::extension::{MOST_PARENTS, Parameters, PerceptronPlan, TableBackend, TableGradients};

/// The gradients of the first operand, if it is wanted, and of the others, from what was kept and the
/// result's gradient.
type GradientsOf<B, S> =
    fn(S, FloatTensor<B>, bool) -> (Option<FloatTensor<B>>, Vec<FloatTensor<B>>);

/// An operation of one operand and any number of parameters, at most `N` together.
#[derive(Debug)]
struct OfParameters<B: Backend, S> {
    gradients_of: GradientsOf<B, S>,
    layer: NodeLayer,
}

impl<B: Backend, S: Clone + Send + Debug + 'static, const N: usize> Backward<B, N>
    for OfParameters<B, S>
{
    type State = S;

    fn backward(self, ops: Ops<S, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let _pass = self.layer.time_backward(2);
        let dy = gradients.consume::<B>(&ops.node);
        let mut parents = ops.parents.into_iter();
        let first = parents.next().flatten();
        let (of_first, of_others) = (self.gradients_of)(ops.state, dy, first.is_some());
        if let (Some(node), Some(gradient)) = (first, of_first) {
            gradients.register::<B>(node.id, gradient);
        }
        for (parent, gradient) in parents.zip(of_others) {
            if let Some(node) = parent {
                gradients.register::<B>(node.id, gradient);
            }
        }
    }
}

/// A cross-entropy, whose gradient was computed with it.
#[derive(Debug)]
struct CrossEntropy(NodeLayer);

impl<B: TableGradients> Backward<B, 1> for CrossEntropy {
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let _pass = self.0.time_backward(1);
        let dy = gradients.consume::<B>(&ops.node);
        if let [Some(node)] = ops.parents {
            gradients.register::<B>(node.id, B::cross_entropy_gradient(ops.state, dy));
        }
    }
}

/// Records the gradient of a result on the graph.
fn record<B: Backend, C: CheckpointStrategy, S: Clone + Send + Debug + 'static>(
    nodes: Vec<NodeGuard>,
    y: FloatTensor<B>,
    state: S,
    gradients_of: GradientsOf<B, S>,
) -> FloatTensor<Autodiff<B, C>> {
    match nodes.len() {
        ..=8 => of_count::<B, C, S, 8>(nodes, y, state, gradients_of),
        9..=32 => of_count::<B, C, S, 32>(nodes, y, state, gradients_of),
        _ => of_count::<B, C, S, MOST_PARENTS>(nodes, y, state, gradients_of),
    }
}

fn of_count<
    B: Backend,
    C: CheckpointStrategy,
    S: Clone + Send + Debug + 'static,
    const N: usize,
>(
    mut nodes: Vec<NodeGuard>,
    y: FloatTensor<B>,
    state: S,
    gradients_of: GradientsOf<B, S>,
) -> FloatTensor<Autodiff<B, C>> {
    // The number of parents is a constant of the type: the others have no gradient.
    nodes.resize_with(N, || <FloatTensor<Autodiff<B, C>>>::new(y.clone()).node());
    let nodes: [NodeGuard; N] = nodes.try_into().expect("as many as the type has");
    let operation = OfParameters { gradients_of, layer: NodeLayer::current() };
    match Backward::<B, N>::prepare::<C>(operation, nodes).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish(state, y),
        OpsKind::UnTracked(prep) => prep.finish(y),
    }
}

/// The tensors below the graph, and their nodes behind that of the first operand.
fn below<B: Backend, C: CheckpointStrategy>(
    first: &FloatTensor<Autodiff<B, C>>,
    Parameters(parameters): Parameters<Autodiff<B, C>>,
) -> (Vec<FloatTensor<B>>, Vec<NodeGuard>) {
    let nodes = std::iter::once(first.node()).chain(parameters.iter().map(|one| one.node()));
    let nodes = nodes.collect();
    (parameters.into_iter().map(|one| one.into_primitive()).collect(), nodes)
}

impl<B: TableGradients, C: CheckpointStrategy> TableBackend for Autodiff<B, C> {
    fn row_features(
        classes: IntTensor<Self>,
        numbers: FloatTensor<Self>,
        parameters: Parameters<Self>,
        columns: usize,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (parameters, nodes) = below::<B, C>(&numbers, parameters);
        let numbers = numbers.into_primitive();
        let (y, waves) = B::row_features(
            classes.clone(),
            numbers.clone(),
            Parameters(parameters.clone()),
            columns,
        );
        let kept = [y.clone(), waves.clone()];
        let state = (classes, numbers, parameters, columns, kept);
        let y = record::<B, C, _>(nodes, y, state, |state, dy, of_numbers| {
            let (classes, numbers, parameters, columns, [y, waves]) = state;
            let passed = [y, waves, dy];
            B::row_features_gradient(classes, numbers, parameters, columns, passed, of_numbers)
        });
        (y, <FloatTensor<Self>>::new(waves))
    }

    fn perceptron(
        x: FloatTensor<Self>,
        parameters: Parameters<Self>,
        plan: PerceptronPlan,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (parameters, nodes) = below::<B, C>(&x, parameters);
        let x = x.into_primitive();
        let (y, hidden) = B::perceptron(x.clone(), Parameters(parameters.clone()), plan);
        let state = (x, parameters, plan, hidden.clone());
        let y =
            record::<B, C, _>(nodes, y, state, |(x, parameters, plan, hidden), dy, of_inputs| {
                B::perceptron_gradient(parameters, plan, [x, hidden, dy], of_inputs)
            });
        (y, <FloatTensor<Self>>::new(hidden))
    }

    fn cross_entropy(
        logits: FloatTensor<Self>,
        labels: IntTensor<Self>,
        smoothing: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let node = logits.node();
        let (loss, slopes) = B::cross_entropy(logits.into_primitive(), labels, smoothing);
        let loss = match CrossEntropy(NodeLayer::current())
            .prepare::<C>([node])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => prep.finish(slopes.clone(), loss),
            OpsKind::UnTracked(prep) => prep.finish(loss),
        };
        (loss, <FloatTensor<Self>>::new(slopes))
    }
}
