//! Layers joined into steps: batch norms in the weights beside them, rectifiers in what they cut.

use updraft_conv::slices::{ConvGeometry, ConvShape};

use super::function::Function;
use super::graph::{Graph, Node, Operation};
use crate::kernels::Pooling;

/// What a step computes, before it is rectified.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    Convolution {
        geometry: ConvGeometry,
        weights: Vec<f32>,
        bias: Vec<f32>,
        /// The positive factor of a second tensor that is read, and added.
        addend: Option<f32>,
    },
    /// Each summand has a positive factor.
    Add {
        factors: [f32; 2],
    },
    Pool {
        geometry: ConvGeometry,
        pooling: Pooling,
    },
    Linear {
        weights: Vec<f32>,
        bias: Vec<f32>,
    },
    Function(Function),
    Multiply,
    Concatenate,
    Softmax,
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

impl Step {
    /// Multiplications, each with its addition, for one image.
    pub(super) fn multiply_adds(&self) -> usize {
        match &self.work {
            Work::Convolution { geometry, .. } => geometry.operations() / 2,
            Work::Linear { weights, .. } => weights.len(),
            _ => 0,
        }
    }

    /// Whether it is the mean over each whole image, rectified or not.
    pub(super) fn is_mean_of_images(&self) -> bool {
        let Work::Pool { geometry, pooling: Pooling::MeanOfImage } = &self.work else {
            return false;
        };
        let ConvShape { input, kernel, padding, .. } = *geometry.shape();
        kernel == input && padding == [0, 0]
    }
}

/// The steps of a graph, in order; the last one gives its answer.
///
/// A batch norm or a rectifier joins the step that it follows if nothing else reads that step. A
/// batch norm that cannot waits for what reads it: it goes into the weights after it, or into the
/// factors of a sum. Elsewhere both become a convolution of one pixel, each channel for itself.
///
/// Where sums are joined, one of a convolution and another tensor is the convolution's last act.
pub(super) fn steps(graph: &Graph, joins_sums: bool) -> Vec<Step> {
    let mut readers = vec![0; graph.nodes.len()];
    graph.nodes.iter().flat_map(|node| &node.inputs).for_each(|&input| readers[input] += 1);
    let mut fusion = Fusion { steps: Vec::new(), held: vec![Held::of(0)] };
    for node in &graph.nodes[1..] {
        fusion.take(graph, node, readers[node.inputs[0]] == 1);
    }
    let last = graph.nodes.len() - 1;
    let tensor = fusion.settle(graph, last);
    let mut steps = reached(fusion.steps, tensor);
    if joins_sums && join_sums(&mut steps) {
        let last = steps.len();
        steps = reached(steps, last);
    }
    steps
}

/// Gives each sum of a convolution that nothing else reads the convolution's work, too, and leaves
/// that for nobody; whether there was one.
fn join_sums(steps: &mut [Step]) -> bool {
    let mut readers = vec![0; steps.len() + 1];
    steps.iter().flat_map(|step| &step.inputs).for_each(|&input| readers[input] += 1);
    let mut has_joined = false;
    for index in 0..steps.len() {
        let (before, [step, ..]) = steps.split_at_mut(index) else { unreachable!("it is there") };
        let Work::Add { factors } = step.work else { continue };
        let is_free = |tensor: usize| {
            tensor > 0
                && readers[tensor] == 1
                && !before[tensor - 1].is_rectified
                && matches!(before[tensor - 1].work, Work::Convolution { addend: None, .. })
        };
        let Some(own) = step.inputs.iter().position(|&tensor| is_free(tensor)) else { continue };
        let convolution = &before[step.inputs[own] - 1];
        let mut work = convolution.work.clone();
        if let Work::Convolution { weights, bias, addend, .. } = &mut work {
            weights.iter_mut().chain(bias).for_each(|value| *value *= factors[own]);
            *addend = Some(factors[1 - own]);
        }
        step.work = work;
        step.name = format!("{}+{}", convolution.name, step.name);
        step.inputs = vec![convolution.inputs[0], step.inputs[1 - own]];
        has_joined = true;
    }
    has_joined
}

/// Where a node's value is: in a tensor, still to be scaled and shifted channel by channel.
#[derive(Debug, Clone)]
struct Held {
    tensor: usize,
    affine: Option<Affine>,
}

#[derive(Debug, Clone)]
struct Affine {
    scale: Vec<f32>,
    shift: Vec<f32>,
    name: String,
}

impl Held {
    const fn of(tensor: usize) -> Self {
        Self { tensor, affine: None }
    }
}

impl Affine {
    /// The factor of a value that is nothing but multiplied by one positive number.
    fn factor(&self) -> Option<f32> {
        let first = self.scale[0];
        let is_factor = first.is_normal()
            && first > 0.0
            && self.scale.iter().all(|&scale| scale == first)
            && self.shift.iter().all(|&shift| shift == 0.0);
        is_factor.then_some(first)
    }

    /// The same after another one.
    fn after(mut self, first: &Self) -> Self {
        for channel in 0..self.scale.len() {
            self.shift[channel] += first.shift[channel] * self.scale[channel];
            self.scale[channel] *= first.scale[channel];
        }
        self.name = format!("{}+{}", first.name, self.name);
        self
    }
}

#[derive(Debug)]
struct Fusion {
    steps: Vec<Step>,
    /// What is known of each node.
    held: Vec<Held>,
}

impl Fusion {
    fn take(&mut self, graph: &Graph, node: &Node, is_alone: bool) {
        if is_alone && node.operation == Operation::Rectifier {
            self.settle(graph, node.inputs[0]);
        }
        let first = self.held[node.inputs[0]].clone();
        let before = (is_alone && first.tensor > 0 && first.affine.is_none())
            .then(|| &mut self.steps[first.tensor - 1]);
        if let Some(before) = before
            && join(before, &node.operation)
        {
            before.name = format!("{}+{}", before.name, node.name);
            self.held.push(first);
            return;
        }
        if let Operation::Affine { scale, shift } = &node.operation {
            let (scale, shift, name) = (scale.clone(), shift.clone(), node.name.clone());
            let mut affine = Affine { scale, shift, name };
            if let Some(first) = &first.affine {
                affine = affine.after(first);
            }
            self.held.push(Held { tensor: first.tensor, affine: Some(affine) });
            return;
        }
        let mut name = node.name.clone();
        let (work, inputs) = match (node.operation.clone(), first.affine) {
            (Operation::Convolution { geometry, mut weights, mut bias }, Some(affine))
                if geometry.shape().padding == [0, 0] || affine.shift.iter().all(|&s| s == 0.0) =>
            {
                let groups = geometry.shape().groups;
                into_weights(&mut weights, &mut bias, &affine, groups);
                name = format!("{}+{name}", affine.name);
                (Work::Convolution { geometry, weights, bias, addend: None }, vec![first.tensor])
            }
            (Operation::Linear { mut weights, mut bias }, Some(affine)) => {
                into_weights(&mut weights, &mut bias, &affine, 1);
                name = format!("{}+{name}", affine.name);
                (Work::Linear { weights, bias }, vec![first.tensor])
            }
            (Operation::Add, _) => {
                let [(a, of_a), (b, of_b)] =
                    [0, 1].map(|index| self.summand(graph, node.inputs[index]));
                (Work::Add { factors: [of_a, of_b] }, vec![a, b])
            }
            (operation, _) => {
                let inputs = node.inputs.iter().map(|&input| self.settle(graph, input)).collect();
                (work_of(operation, node.shape), inputs)
            }
        };
        let is_rectified = node.operation == Operation::Rectifier;
        self.push(Step { name, work, is_rectified, inputs, shape: node.shape });
        self.held.push(Held::of(self.steps.len()));
    }

    /// A summand's tensor and factor.
    fn summand(&mut self, graph: &Graph, node: usize) -> (usize, f32) {
        match self.held[node].affine.as_ref().map(Affine::factor) {
            None => (self.held[node].tensor, 1.0),
            Some(Some(factor)) => (self.held[node].tensor, factor),
            Some(None) => (self.settle(graph, node), 1.0),
        }
    }

    /// The tensor of a node's value, computed by a step of its own if it is not there yet.
    fn settle(&mut self, graph: &Graph, node: usize) -> usize {
        let held = &mut self.held[node];
        if let Some(Affine { scale, shift, name }) = held.affine.take() {
            let shape = graph.nodes[node].shape;
            let geometry = pointwise(shape);
            let (weights, bias) = (scale, shift);
            let work = Work::Convolution { geometry, weights, bias, addend: None };
            let inputs = vec![held.tensor];
            held.tensor = self.steps.len() + 1;
            self.push(Step { name, work, is_rectified: false, inputs, shape });
        }
        self.held[node].tensor
    }

    fn push(&mut self, step: Step) {
        self.steps.push(step);
    }
}

fn work_of(operation: Operation, shape: [usize; 3]) -> Work {
    match operation {
        Operation::Input => unreachable!("only the first node is the input"),
        Operation::Affine { .. } | Operation::Add => unreachable!("taken before"),
        Operation::Convolution { geometry, weights, bias } => {
            Work::Convolution { geometry, weights, bias, addend: None }
        }
        Operation::Linear { weights, bias } => Work::Linear { weights, bias },
        Operation::Pool { geometry, pooling } => Work::Pool { geometry, pooling },
        Operation::Function(function) => Work::Function(function),
        Operation::Multiply => Work::Multiply,
        Operation::Concatenate => Work::Concatenate,
        Operation::Softmax => Work::Softmax,
        Operation::Rectifier => {
            let (weights, bias) = (vec![1.0; shape[0]], vec![0.0; shape[0]]);
            Work::Convolution { geometry: pointwise(shape), weights, bias, addend: None }
        }
    }
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
            let is_cut = match step.work {
                Work::Convolution { .. } | Work::Add { .. } | Work::Linear { .. } => true,
                Work::Pool { pooling, .. } => pooling != Pooling::Maximum,
                Work::Function(_) | Work::Multiply | Work::Concatenate | Work::Softmax => false,
            };
            step.is_rectified |= is_cut;
            is_cut
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
            _ => false,
        },
        _ => false,
    }
}

/// Takes what each input channel is scaled and shifted by into weights
/// `[outputs][inputs / groups][…]`.
fn into_weights(weights: &mut [f32], bias: &mut [f32], affine: &Affine, groups: usize) {
    let outputs = bias.len();
    let inputs = affine.scale.len() / groups;
    let each = weights.len() / outputs / inputs;
    for (output, weights) in weights.chunks_exact_mut(inputs * each).enumerate() {
        let group = output / (outputs / groups);
        let mut shifted = f64::from(bias[output]);
        for (input, weights) in weights.chunks_exact_mut(each).enumerate() {
            let channel = group * inputs + input;
            for weight in weights {
                shifted += f64::from(*weight) * f64::from(affine.shift[channel]);
                *weight *= affine.scale[channel];
            }
        }
        bias[output] = shifted as f32;
    }
}

fn pointwise([channels, height, width]: [usize; 3]) -> ConvGeometry {
    let shape = ConvShape::new(1, [channels; 2], [height, width], [1, 1]);
    ConvGeometry::try_new(ConvShape { groups: channels, ..shape })
        .expect("a value of a graph is not empty")
}
