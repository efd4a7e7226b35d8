//! The gradients of batch normalization, by hand.

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::tensor::FloatTensor;

use super::extension::{NormSpec, NormalizationBackend, NormalizationGradientBackend};
use crate::ops::graph::{on_graph, register, with_optional};
use crate::ops::operand::Operand;

/// A normalization of input, factors and summands, and of a residual if there are four tensors.
#[derive(Debug)]
struct BatchNorm;

impl<B: NormalizationGradientBackend, const N: usize> Backward<B, N> for BatchNorm {
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
        let ([mean, variance], residual) = (statistics, residual.into());
        let of = B::normalization_gradient(x, gamma, beta, mean, variance, residual, dy, spec);
        let all = [of.x, of.gamma, of.beta].into_iter().chain(of.residual.given());
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B, N>(gradients, parents, all);
    }
}

/// The result with the statistics: the given ones, or the batch's.
fn normalized<B: NormalizationGradientBackend, C: CheckpointStrategy, const N: usize>(
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

impl<B: NormalizationGradientBackend, C: CheckpointStrategy> NormalizationBackend
    for Autodiff<B, C>
{
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
}
