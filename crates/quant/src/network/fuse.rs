//! Layers joined into steps: batch norms in the weights before them, rectifiers in what they cut.

use updraft_conv::slices::{ConvGeometry, ConvShape};

use super::graph::{Graph, Operation};
use crate::kernels::Pooling;

/// What a step computes, before it is rectified.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    Convolution { geometry: ConvGeometry, weights: Vec<f32>, bias: Vec<f32> },
    Add,
    Pool { geometry: ConvGeometry, pooling: Pooling },
    Linear { weights: Vec<f32>, bias: Vec<f32> },
}

/// Some layers that run as one. Step `i` gives tensor `i + 1`; tensor 0 is the input.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    /// The names of its layers, joined by `+`.
    pub(super) name: String,
    pub(super) work: Work,
    pub(super) is_rectified: bool,
    /// The tensors that it reads.
    pub(super) inputs: Vec<usize>,
    /// Channels, height and width of what it gives.
    pub(super) shape: [usize; 3],
}

/// The steps of a graph, in order; the last one gives its answer.
///
/// A batch norm or a rectifier joins the step that it follows if nothing else reads that step;
/// elsewhere it becomes a convolution of one pixel, each channel for itself.
pub(super) fn steps(graph: &Graph) -> Vec<Step> {
    let mut readers = vec![0; graph.nodes.len()];
    graph.nodes.iter().flat_map(|node| &node.inputs).for_each(|&input| readers[input] += 1);
    let mut steps: Vec<Step> = Vec::new();
    // The tensor that holds each node's value.
    let mut tensor_of = vec![0; graph.nodes.len()];
    for (index, node) in graph.nodes.iter().enumerate().skip(1) {
        let first = node.inputs[0];
        let before = (readers[first] == 1 && tensor_of[first] > 0).then(|| tensor_of[first] - 1);
        let joined = before.is_some_and(|before| join(&mut steps[before], &node.operation));
        if joined {
            let before = tensor_of[first] - 1;
            steps[before].name = format!("{}+{}", steps[before].name, node.name);
            tensor_of[index] = tensor_of[first];
            continue;
        }
        let [channels, height, width] = node.shape;
        let work = match node.operation.clone() {
            Operation::Input => unreachable!("only the first node is the input"),
            Operation::Convolution { geometry, weights, bias } => {
                Work::Convolution { geometry, weights, bias }
            }
            Operation::Add => Work::Add,
            Operation::Pool { geometry, pooling } => Work::Pool { geometry, pooling },
            Operation::Linear { weights, bias } => Work::Linear { weights, bias },
            Operation::Affine { scale, shift } => {
                let geometry = pointwise(channels, [height, width]);
                Work::Convolution { geometry, weights: scale, bias: shift }
            }
            Operation::Rectifier => {
                let geometry = pointwise(channels, [height, width]);
                let (weights, bias) = (vec![1.0; channels], vec![0.0; channels]);
                Work::Convolution { geometry, weights, bias }
            }
        };
        steps.push(Step {
            name: node.name.clone(),
            work,
            is_rectified: node.operation == Operation::Rectifier,
            inputs: node.inputs.iter().map(|&input| tensor_of[input]).collect(),
            shape: node.shape,
        });
        tensor_of[index] = steps.len();
    }
    reached(steps, tensor_of[graph.nodes.len() - 1])
}

/// The steps that lead to a tensor, which the last of them gives.
fn reached(steps: Vec<Step>, tensor: usize) -> Vec<Step> {
    let mut is_reached = vec![false; steps.len() + 1];
    is_reached[tensor] = true;
    for (index, step) in steps.iter().enumerate().rev() {
        if is_reached[index + 1] {
            step.inputs.iter().for_each(|&input| is_reached[input] = true);
        }
    }
    let mut renumbered = vec![0; steps.len() + 1];
    let mut kept: Vec<Step> = Vec::new();
    for (index, mut step) in steps.into_iter().enumerate() {
        if is_reached[index + 1] {
            step.inputs.iter_mut().for_each(|input| *input = renumbered[*input]);
            kept.push(step);
            renumbered[index + 1] = kept.len();
        }
    }
    kept
}

/// Takes an operation into the step before it, if that is possible.
fn join(step: &mut Step, operation: &Operation) -> bool {
    match operation {
        Operation::Rectifier => {
            // A greatest number keeps the codes of its input, which know no bound.
            let is_maximum = matches!(step.work, Work::Pool { pooling: Pooling::Maximum, .. });
            step.is_rectified |= !is_maximum;
            !is_maximum
        }
        Operation::Affine { scale, shift } if !step.is_rectified => match &mut step.work {
            Work::Convolution { weights, bias, .. } | Work::Linear { weights, bias } => {
                let each = weights.len() / bias.len();
                for (channel, weights) in weights.chunks_exact_mut(each).enumerate() {
                    weights.iter_mut().for_each(|weight| *weight *= scale[channel]);
                    bias[channel] = bias[channel] * scale[channel] + shift[channel];
                }
                true
            }
            Work::Add | Work::Pool { .. } => false,
        },
        _ => false,
    }
}

fn pointwise(channels: usize, image: [usize; 2]) -> ConvGeometry {
    let shape = ConvShape::new(1, [channels; 2], image, [1, 1]);
    ConvGeometry::try_new(ConvShape { groups: channels, ..shape })
        .expect("a value of a graph is not empty")
}
