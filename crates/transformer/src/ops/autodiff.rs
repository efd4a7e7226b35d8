//! The gradients of our operations, by hand.

use std::fmt::Debug;

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend};
use updraft_simd::{NodeLayer, Products};

use super::burn_autodiff;
use super::extension::{AttentionPlan, TransformerBackend, TransformerGradients};
use crate::kernels::Dropout;

/// What the gradient of an operation needs beside the operands: nothing, statistics, or the result.
type Kept<B, const K: usize> = [FloatTensor<B>; K];

/// The gradients of `N` operands, from these, what was kept, the result's gradient and the plan, which
/// only attention reads.
type GradientsOf<B, const N: usize, const K: usize> =
    fn([FloatTensor<B>; N], Kept<B, K>, FloatTensor<B>, AttentionPlan) -> [FloatTensor<B>; N];

/// An operation of `N` operands with a gradient by hand.
#[derive(Debug)]
struct ByHand<B: Backend, const N: usize, const K: usize> {
    gradients_of: GradientsOf<B, N, K>,
    layer: NodeLayer,
}

impl<B: Backend, const N: usize, const K: usize> Backward<B, N> for ByHand<B, N, K> {
    type State = ([NodeId; N], Kept<B, K>, AttentionPlan);

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        // Attention has four products in its gradient and two in its result; the others have none.
        let _pass = self.layer.time_backward(2);
        let dy = gradients.consume::<B>(&ops.node);
        let (nodes, kept, plan) = ops.state;
        let operands = nodes.map(|node| checkpointer.retrieve_node_output(node));
        let all = (self.gradients_of)(operands, kept, dy, plan);
        for (parent, gradient) in ops.parents.into_iter().zip(all) {
            if let Some(node) = parent {
                gradients.register::<B>(node.id, gradient);
            }
        }
    }
}

/// Computes an operation below the graph and records its gradient there; `compute` returns the result
/// and what the gradient needs.
fn on_graph<B: Backend, C: CheckpointStrategy, const N: usize, const K: usize>(
    operands: [FloatTensor<Autodiff<B, C>>; N],
    plan: AttentionPlan,
    compute: impl FnOnce([FloatTensor<B>; N]) -> (FloatTensor<B>, Kept<B, K>),
    gradients_of: GradientsOf<B, N, K>,
) -> (FloatTensor<Autodiff<B, C>>, Kept<B, K>) {
    let nodes = operands.each_ref().map(|tensor| tensor.node());
    let operation = ByHand { gradients_of, layer: NodeLayer::current() };
    match operation.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let nodes = operands.each_ref().map(|tensor| prep.checkpoint(tensor));
            let (y, kept) = compute(operands.map(|tensor| tensor.into_primitive()));
            (prep.finish((nodes, kept.clone(), plan), y), kept)
        }
        OpsKind::UnTracked(prep) => {
            let (y, kept) = compute(operands.map(|tensor| tensor.into_primitive()));
            (prep.finish(y), kept)
        }
    }
}

/// Dropout, whose gradient has the mask of the result.
#[derive(Debug)]
struct Dropped(NodeLayer);

impl<B: TransformerBackend> Backward<B, 1> for Dropped {
    type State = Dropout;

    fn backward(self, ops: Ops<Dropout, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let _pass = self.0.time_backward(1);
        let dy = gradients.consume::<B>(&ops.node);
        if let [Some(node)] = ops.parents {
            gradients.register::<B>(node.id, B::dropout(dy, ops.state));
        }
    }
}

/// A linear layer of input and weights, and of a bias if there are three operands.
#[derive(Debug)]
struct Linear(NodeLayer);

impl<B: TransformerGradients, const N: usize> Backward<B, N> for Linear {
    type State = ([NodeId; N], Products);

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let wanted = [0, 1, 2].map(|operand| ops.parents.get(operand).is_some_and(Option::is_some));
        let _pass = self.0.time_backward(u64::from(wanted[0]) + u64::from(wanted[1]));
        let dy = gradients.consume::<B>(&ops.node);
        let [x, weight] =
            [0, 1].map(|operand| checkpointer.retrieve_node_output(ops.state.0[operand]));
        let all = B::linear_gradient(x, weight, dy, wanted, ops.state.1);
        for (parent, gradient) in ops.parents.into_iter().zip(all) {
            if let (Some(node), Some(gradient)) = (parent, gradient) {
                gradients.register::<B>(node.id, gradient);
            }
        }
    }
}

fn linear<B: TransformerGradients, C: CheckpointStrategy, const N: usize>(
    operands: [FloatTensor<Autodiff<B, C>>; N],
    products: Products,
    compute: impl FnOnce([FloatTensor<B>; N]) -> FloatTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes = operands.each_ref().map(|tensor| tensor.node());
    match Linear(NodeLayer::current()).prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let nodes = operands.each_ref().map(|tensor| prep.checkpoint(tensor));
            let y = compute(operands.map(|tensor| tensor.into_primitive()));
            prep.finish((nodes, products), y)
        }
        OpsKind::UnTracked(prep) => {
            prep.finish(compute(operands.map(|tensor| tensor.into_primitive())))
        }
    }
}

impl<B: TransformerGradients, C: CheckpointStrategy> TransformerBackend for Autodiff<B, C> {
    fn multi_head_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        plan: AttentionPlan,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let compute = |[q, k, v]: [FloatTensor<B>; 3]| {
            let (y, log_sums) = B::multi_head_attention(q, k, v, plan);
            (y.clone(), [y, log_sums])
        };
        let (y, [_, log_sums]) =
            on_graph::<B, C, 3, 2>([q, k, v], plan, compute, B::attention_gradient);
        (y, <FloatTensor<Self>>::new(log_sums))
    }

    fn self_attention(
        qkv: FloatTensor<Self>,
        plan: AttentionPlan,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let compute = |[qkv]: [FloatTensor<B>; 1]| {
            let (y, log_sums) = B::self_attention(qkv, plan);
            (y.clone(), [y, log_sums])
        };
        let (y, [_, log_sums]) =
            on_graph::<B, C, 1, 2>([qkv], plan, compute, |[qkv], kept, dy, plan| {
                [B::self_attention_gradient(qkv, kept, dy, plan)]
            });
        (y, <FloatTensor<Self>>::new(log_sums))
    }

    fn norm_of_rows(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let compute = |[x, gamma, beta]: [FloatTensor<B>; 3]| {
            let (y, statistics) = B::norm_of_rows(x, gamma, beta, epsilon);
            (y, [statistics])
        };
        let (y, [statistics]) = on_graph::<B, C, 3, 1>(
            [x, gamma, beta],
            AttentionPlan::default(),
            compute,
            |operands, [statistics], dy, _| {
                let [x, gamma, _] = operands;
                B::layer_norm_gradient(x, gamma, statistics, dy)
            },
        );
        (y, <FloatTensor<Self>>::new(statistics))
    }

    fn linear_with_bias(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        products: Products,
    ) -> FloatTensor<Self> {
        linear::<B, C, 3>([x, weight, bias], products, |[x, weight, bias]| {
            B::linear_with_bias(x, weight, bias, products)
        })
    }

    fn linear_without_bias(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        products: Products,
    ) -> FloatTensor<Self> {
        linear::<B, C, 2>([x, weight], products, |[x, weight]| {
            B::linear_without_bias(x, weight, products)
        })
    }

    fn bias_gelu(x: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self> {
        let compute = |[x, bias]: [FloatTensor<B>; 2]| (B::bias_gelu(x, bias), []);
        let (y, []) = on_graph::<B, C, 2, 0>(
            [x, bias],
            AttentionPlan::default(),
            compute,
            |[x, bias], [], dy, _| B::bias_gelu_gradient(x, bias, dy),
        );
        y
    }

    fn dropout(x: FloatTensor<Self>, dropout: Dropout) -> FloatTensor<Self> {
        match Dropped(NodeLayer::current()).prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(dropout, B::dropout(x.into_primitive(), dropout)),
            OpsKind::UnTracked(prep) => prep.finish(B::dropout(x.into_primitive(), dropout)),
        }
    }

    fn burn_linear_with_bias(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        burn_autodiff::linear::<B, C, 3>([x, weight, bias], |[x, weight, bias]| {
            B::burn_linear_with_bias(x, weight, bias)
        })
    }

    fn burn_linear(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        burn_autodiff::linear::<B, C, 2>([x, weight], |[x, weight]| B::burn_linear(x, weight))
    }
}
