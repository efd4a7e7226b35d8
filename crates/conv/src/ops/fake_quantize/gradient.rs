//! The gradients of a fake quantization: of its numbers and of the steps.

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};

use super::gradient_scale;
use crate::kernels::Isa;
use crate::ops::extension::ConvGradients;
use crate::ops::graph::{on_graph, register};

#[derive(Debug)]
struct FakeQuantization;

impl<B: ConvGradients> Backward<B, 3> for FakeQuantization {
    /// The tensors, the codes above the lowest, and the factor of the steps' gradients.
    type State = ([NodeId; 3], u32, f32, Isa);

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let (nodes, levels, scale, isa) = ops.state;
        let tensors = nodes.map(|node| checkpointer.retrieve_node_output(node));
        let all = B::fake_quantization_gradient(tensors, dy, levels, scale, isa);
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B, 3>(gradients, parents, all);
    }
}

/// A fake quantization of numbers by steps and the lowest code, on the graph.
pub(in crate::ops) fn quantized<B: ConvGradients + Backend, C: CheckpointStrategy>(
    tensors: [FloatTensor<Autodiff<B, C>>; 3],
    levels: u32,
    isa: Isa,
) -> FloatTensor<Autodiff<B, C>> {
    let (dims, steps) = (tensors[0].shape(), tensors[1].shape().num_elements());
    let scale = gradient_scale(&dims, steps, levels);
    let state = |nodes, ()| (nodes, levels, scale, isa);
    let compute = |[x, steps, lowest]: [FloatTensor<B>; 3]| {
        (B::fake_quantization(x, steps, lowest, levels, isa), ())
    };
    on_graph::<B, C, _, _, 3>(FakeQuantization, tensors, state, compute).0
}
