//! Fusion of layers into steps: batch norms into neighboring weights, clips into bounds of codes.

use std::sync::Arc;

use super::graph::{Graph, Layer, Node, Port};
use crate::clip::Clip;
use crate::operation::{Parameters, Shapes, Work, clipping, pointwise};
use crate::scheme::ActivationScheme;

/// Fused layers.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// The names of its layers, joined by `+`.
    pub(super) name: String,
    pub(super) work: Work,
    /// The limits of its output.
    pub(super) clip: Clip,
    /// The tensors that it reads.
    pub(super) inputs: Vec<usize>,
    pub(super) shapes: Shapes,
    /// The scheme of its output, if it was set.
    pub(super) scheme: Option<ActivationScheme>,
}

impl Step {
    /// Whether a user's name means it: its own, or that of one of its layers.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name == name || self.name.split('+').any(|part| part == name)
    }

    pub(super) fn has_weights(&self) -> bool {
        !self.work.parameters.weights.is_empty()
    }

    /// Multiplications, each with its addition, for one sample.
    pub(super) fn multiply_adds(&self) -> usize {
        self.work.operation.multiply_adds(&self.shapes)
    }
}

/// An output of a network: a tensor with a name and a shape.
#[derive(Debug, Clone)]
pub(super) struct Output {
    pub(super) port: Port,
    pub(super) tensor: usize,
}

/// The steps of a graph, in order. The first tensors are its inputs, then the output of each step.
#[derive(Debug, Clone)]
pub(super) struct Steps {
    pub(super) inputs: Vec<Port>,
    /// The scheme of each input, if it was set.
    pub(super) input_schemes: Vec<Option<ActivationScheme>>,
    pub(super) list: Vec<Step>,
    pub(super) outputs: Vec<Output>,
}

impl Steps {
    /// Fuses the layers of a graph.
    ///
    /// A batch norm or a clip is fused into the step before it if no other step reads that one. A
    /// batch norm that cannot is fused into its reader: into the weights after it, or into the
    /// factors of a sum. Otherwise it becomes a depthwise convolution of one pixel, and a clip a
    /// function.
    ///
    /// If sums are fused, a convolution adds another tensor to its result.
    pub(super) fn new(graph: &Graph, joins_sums: bool) -> Self {
        let outputs = graph.outputs();
        let mut readers = vec![0; graph.nodes.len()];
        let read = graph.nodes.iter().flat_map(|node| node.inputs.iter().copied());
        read.chain(outputs.iter().map(|(_, value)| value.0)).for_each(|node| readers[node] += 1);
        let inputs: Vec<Port> = graph.inputs().collect();
        let mut fusion = Fusion { inputs: 0, first: inputs.len(), steps: vec![], held: vec![] };
        for node in &graph.nodes {
            let is_alone = node.inputs.first().is_some_and(|&input| readers[input] == 1);
            let held = fusion.take(graph, node, is_alone);
            fusion.held.push(held);
            if let Some(scheme) = node.scheme {
                // What is rounded is computed: nothing is left to a reader.
                let tensor = fusion.settle(graph, fusion.held.len() - 1);
                if let Some(index) = tensor.checked_sub(fusion.first) {
                    fusion.steps[index].scheme = Some(scheme);
                }
            }
        }
        let settled = outputs.into_iter().map(|(port, value)| {
            let tensor = fusion.settle(graph, value.0);
            Output { port, tensor }
        });
        let outputs = settled.collect();
        let of_inputs = graph.nodes.iter().filter(|node| matches!(node.layer, Layer::Input));
        let input_schemes = of_inputs.map(|node| node.scheme).collect();
        let mut steps = Self { inputs, input_schemes, list: fusion.steps, outputs };
        steps.keep_reached();
        if joins_sums && steps.join_sums() {
            steps.keep_reached();
        }
        steps
    }

    /// Whether the graph rounds the output of some step itself.
    pub(super) fn have_schemes(&self) -> bool {
        self.list.iter().any(|step| step.scheme.is_some())
    }

    /// The range of every tensor outside of which no step that reads it returns anything else than
    /// at the nearer end; infinite for inputs and outputs of the network.
    pub(super) fn live_ranges(&self) -> Vec<[f32; 2]> {
        let tensors = self.inputs.len() + self.list.len();
        let mut ranges = vec![[f32::INFINITY, f32::NEG_INFINITY]; tensors];
        let everywhere = [f32::NEG_INFINITY, f32::INFINITY];
        let read = self.list.iter().flat_map(|step| {
            let range = step.work.operation.live_range();
            step.inputs.iter().map(move |&tensor| (tensor, range))
        });
        let outputs = self.outputs.iter().map(|output| (output.tensor, everywhere));
        for (tensor, [low, high]) in read.chain(outputs) {
            let range = &mut ranges[tensor];
            *range = [range[0].min(low), range[1].max(high)];
        }
        ranges[..self.inputs.len()].fill(everywhere);
        // A tensor that no step reads.
        ranges.iter_mut().filter(|range| range[0] > range[1]).for_each(|range| *range = everywhere);
        ranges
    }

    /// The shape of every tensor.
    pub(super) fn shapes(&self) -> impl Iterator<Item = &Vec<usize>> {
        let inputs = self.inputs.iter().map(|port| &port.shape);
        inputs.chain(self.list.iter().map(|step| &step.shapes.y))
    }

    /// Fuses each sum with a step that no other step reads, if that step can add, and
    /// leaves that step without readers; returns whether there was one.
    fn join_sums(&mut self) -> bool {
        let first = self.inputs.len();
        let mut readers = vec![0; first + self.list.len()];
        let read = self.list.iter().flat_map(|step| step.inputs.iter().copied());
        read.chain(self.outputs.iter().map(|output| output.tensor))
            .for_each(|tensor| readers[tensor] += 1);
        let mut has_joined = false;
        for index in 0..self.list.len() {
            let (before, [step, ..]) = self.list.split_at_mut(index) else {
                unreachable!("it is there")
            };
            let Some(factors) = step.work.operation.summands() else { continue };
            if step.shapes.x[0] != step.shapes.x[1] {
                continue;
            }
            let joined = (0..2).find_map(|own| {
                let tensor = step.inputs[own];
                let adding = &before[tensor.checked_sub(first)?];
                // A tensor with a scheme of its own is rounded before it is added.
                let is_free =
                    readers[tensor] == 1 && adding.clip.is_identity() && adding.scheme.is_none();
                let factors = [factors[own], factors[1 - own]];
                let Work { operation, parameters } = &adding.work;
                let work = is_free.then(|| operation.with_addend(parameters, factors)).flatten()?;
                Some((own, adding, work))
            });
            let Some((own, adding, work)) = joined else { continue };
            step.work = work;
            step.name = format!("{}+{}", adding.name, step.name);
            step.inputs = vec![adding.inputs[0], step.inputs[1 - own]];
            step.shapes.x[0] = adding.shapes.x[0].clone();
            has_joined = true;
        }
        has_joined
    }

    /// Removes the steps that no output depends on.
    fn keep_reached(&mut self) {
        let first = self.inputs.len();
        let mut is_reached = vec![false; first + self.list.len()];
        self.outputs.iter().for_each(|output| is_reached[output.tensor] = true);
        for (index, step) in self.list.iter().enumerate().rev() {
            if is_reached[first + index] {
                step.inputs.iter().for_each(|&input| is_reached[input] = true);
            }
        }
        let mut renumbered: Vec<usize> = (0..first).collect();
        let mut count = first;
        for &is_reached in &is_reached[first..] {
            renumbered.push(count);
            count += usize::from(is_reached);
        }
        let mut reached = is_reached[first..].iter();
        self.list.retain(|_| *reached.next().expect("one for each step"));
        let inputs = self.list.iter_mut().flat_map(|step| &mut step.inputs);
        let outputs = self.outputs.iter_mut().map(|output| &mut output.tensor);
        inputs.chain(outputs).for_each(|tensor| *tensor = renumbered[*tensor]);
    }
}

/// The tensor of a node's value, with a pending scale and shift per channel.
#[derive(Debug, Clone)]
struct Held {
    tensor: usize,
    affine: Option<Affine>,
}

#[derive(Debug, Clone)]
struct Affine {
    by: Arc<Parameters>,
    name: String,
}

#[derive(Debug)]
struct Fusion {
    /// The number of inputs so far, and in total.
    inputs: usize,
    first: usize,
    steps: Vec<Step>,
    /// The state of each node.
    held: Vec<Held>,
}

impl Fusion {
    fn take(&mut self, graph: &Graph, node: &Node, is_alone: bool) -> Held {
        match &node.layer {
            Layer::Input => {
                self.inputs += 1;
                Held { tensor: self.inputs - 1, affine: None }
            }
            Layer::Clip(by) => {
                let tensor = self.settle(graph, node.inputs[0]);
                if let Some(step) = self.before(tensor, is_alone)
                    && step.work.operation.may_be_clipped()
                    && step.scheme.is_none_or(|scheme| node.scheme.is_none() && by.is_exact(scheme))
                {
                    step.clip = step.clip.then(*by);
                    step.name = format!("{}+{}", step.name, node.name);
                    return Held { tensor, affine: None };
                }
                self.push(graph, node.name.clone(), clipping(*by), vec![tensor], node)
            }
            Layer::Affine(by) => {
                let Held { tensor, affine } = self.held[node.inputs[0]].clone();
                if affine.is_none()
                    && let Some(step) = self.before(tensor, is_alone)
                    && step.clip.is_identity()
                    && step.scheme.is_none()
                    && let Some(scaled) =
                        step.work.operation.scale_output(&step.work.parameters, by)
                {
                    step.work.parameters = scaled.into();
                    step.name = format!("{}+{}", step.name, node.name);
                    return Held { tensor, affine: None };
                }
                let affine = match affine {
                    None => Affine { by: by.clone(), name: node.name.clone() },
                    Some(first) => Affine {
                        by: first.by.scaled(by).into(),
                        name: format!("{}+{}", first.name, node.name),
                    },
                };
                Held { tensor, affine: Some(affine) }
            }
            Layer::Work(work) => {
                let (mut work, mut name) = (work.clone(), node.name.clone());
                let mut inputs = Vec::new();
                for (position, &input) in node.inputs.iter().enumerate() {
                    let Held { tensor, affine } = &self.held[input];
                    let scaled = affine.as_ref().and_then(|affine| {
                        work.operation.scale_input(&work.parameters, position, &affine.by)
                    });
                    match (scaled, affine) {
                        (Some(scaled), Some(affine)) => {
                            work = scaled;
                            inputs.push(*tensor);
                            if node.inputs.len() == 1 {
                                name = format!("{}+{name}", affine.name);
                            }
                        }
                        _ => inputs.push(self.settle(graph, input)),
                    }
                }
                self.push(graph, name, work, inputs, node)
            }
        }
    }

    /// The step that computes a tensor, if another layer can be fused into it.
    fn before(&mut self, tensor: usize, is_alone: bool) -> Option<&mut Step> {
        let index = tensor.checked_sub(self.first).filter(|_| is_alone)?;
        Some(&mut self.steps[index])
    }

    /// The tensor of a node's value, computed by a separate step if needed.
    fn settle(&mut self, graph: &Graph, node: usize) -> usize {
        let Held { tensor, affine } = &mut self.held[node];
        if let Some(Affine { by, name }) = affine.take() {
            let (work, inputs) = (pointwise(by.as_ref().clone()), vec![*tensor]);
            self.held[node] = self.push(graph, name, work, inputs, &graph.nodes[node]);
        }
        self.held[node].tensor
    }

    fn push(
        &mut self,
        graph: &Graph,
        name: String,
        work: Work,
        inputs: Vec<usize>,
        node: &Node,
    ) -> Held {
        let x = node.inputs.iter().map(|&input| graph.nodes[input].shape.clone()).collect();
        let shapes = Shapes { x, y: node.shape.clone() };
        let clip = Clip::IDENTITY;
        self.steps.push(Step { name, work, clip, inputs, shapes, scheme: None });
        Held { tensor: self.first + self.steps.len() - 1, affine: None }
    }
}
