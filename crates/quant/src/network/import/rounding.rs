//! Which layers and outputs read numbers as a `QuantizeLinear` rounds them, and layers that round
//! for those that compute in f32.

use std::collections::{HashMap, HashSet, VecDeque};

use super::assemble::{finished, refused};
use super::error::Read;
use super::importer::{GivenLayer, Importer};
use crate::clip::Clip;
use crate::network::fuse::{Step, Steps};
use crate::network::graph::{Graph, Layer};
use crate::network::layer::{Form, QuantizedLayer};
use crate::network::plan::Reason;
use crate::operation::{Shapes, clipping};
use crate::scheme::ActivationScheme;

impl Importer<'_> {
    /// Rounds before a maximum and before another order of numbers instead of after it, so that both
    /// are of codes. It does not matter, unless their numbers are also read unrounded.
    pub(super) fn round_earlier(&mut self) {
        let mut readers = vec![0_usize; self.layers.len()];
        let read = self.layers.iter().flat_map(|layer| layer.unrounded.iter().copied());
        let outputs = self.outputs.iter().filter(|&&(_, is_rounded)| !is_rounded);
        read.chain(outputs.map(|&(value, _)| value)).for_each(|value| readers[value] += 1);
        for index in (0..self.layers.len()).rev() {
            let node = &self.graph.nodes[index];
            let (Layer::Work(work), Some(scheme)) = (&node.layer, node.scheme) else { continue };
            let is_kept = work.operation.keeps_scheme() && readers[index] == 0;
            let &[input] = &node.inputs[..] else { continue };
            let before = self.graph.nodes[input].scheme;
            if is_kept
                && self.layers[index].unrounded == [input]
                && before.is_none_or(|before| before == scheme)
            {
                self.layers[index].unrounded.clear();
                readers[input] -= 1;
                self.graph.nodes[index].scheme = None;
                self.graph.nodes[input].scheme = Some(scheme);
            }
        }
    }
}

/// How the steps and the outputs read tensors.
#[derive(Debug, Default)]
pub(super) struct Readings {
    /// For each input of each step, whether it reads rounded numbers.
    steps: Vec<Vec<bool>>,
    /// For each output, whether it has rounded numbers.
    outputs: Vec<bool>,
    /// The steps that read numbers before they are rounded.
    pub(super) readers: HashSet<usize>,
    /// The steps whose results other steps read so.
    pub(super) results: HashSet<usize>,
    /// The steps whose results an output has so.
    pub(super) unrounded_outputs: HashSet<usize>,
}

/// The layers of a graph and the steps that they are parts of.
struct Parts<'a> {
    graph: &'a Graph,
    layers: &'a [GivenLayer],
    /// The step of each layer.
    owners: Vec<Option<usize>>,
    /// The tensor of each input of the graph.
    inputs: HashMap<usize, usize>,
}

impl Parts<'_> {
    fn tensor(&self, value: usize) -> Option<usize> {
        let of_step = self.owners[value].map(|step| self.inputs.len() + step);
        of_step.or_else(|| self.inputs.get(&value).copied())
    }

    /// Whether a value is that of limits which its step applies to numbers of codes.
    fn is_of_codes(&self, mut value: usize) -> bool {
        loop {
            let node = &self.graph.nodes[value];
            if !matches!(node.layer, Layer::Clip(_))
                || node.scheme.is_some()
                || self.owners[value].is_none()
                || self.owners[value] != self.owners[node.inputs[0]]
            {
                return false;
            }
            value = node.inputs[0];
            if self.graph.nodes[value].scheme.is_some() {
                return true;
            }
        }
    }

    /// The value whose tensor a step reads, and whether rounded: the step may contain a scale and
    /// shift of it.
    fn read(&self, step: &Step, mut value: usize, mut is_rounded: bool) -> (usize, bool) {
        loop {
            let node = &self.graph.nodes[value];
            let is_input = self.tensor(value).is_some_and(|tensor| step.inputs.contains(&tensor));
            if is_input || !matches!(node.layer, Layer::Affine(_)) {
                return (value, is_rounded || self.is_of_codes(value));
            }
            let input = node.inputs[0];
            is_rounded = !self.layers[value].unrounded.contains(&input);
            value = input;
        }
    }
}

impl Readings {
    /// The readings of steps by the layers that are parts of each.
    pub(super) fn new(
        graph: &Graph,
        steps: &Steps,
        parts: &[Vec<usize>],
        layers: &[GivenLayer],
        outputs: &[(usize, bool)],
    ) -> Self {
        let mut owners = vec![None; layers.len()];
        for (step, parts) in parts.iter().enumerate() {
            parts.iter().for_each(|&part| owners[part] = Some(step));
        }
        let nodes = graph.nodes.iter().enumerate();
        let inputs = nodes.filter(|(_, node)| matches!(node.layer, Layer::Input));
        let inputs = inputs.enumerate().map(|(tensor, (value, _))| (value, tensor)).collect();
        let of = Parts { graph, layers, owners, inputs };
        let mut readings = Self::default();
        for (index, (step, parts)) in steps.list.iter().zip(parts).enumerate() {
            readings.add(&of, index, step, parts);
        }
        for &(value, is_rounded) in outputs {
            let is_rounded = is_rounded || of.is_of_codes(value);
            readings.outputs.push(is_rounded);
            if !is_rounded {
                readings.unrounded_outputs.extend(of.owners[value]);
            }
        }
        readings
    }

    fn add(&mut self, of: &Parts<'_>, index: usize, step: &Step, parts: &[usize]) {
        let mut of_tensors: HashMap<Option<usize>, VecDeque<bool>> = HashMap::new();
        let mut is_rounded_everywhere = true;
        for &part in parts {
            let unrounded = &of.layers[part].unrounded;
            for &value in &of.graph.nodes[part].inputs {
                if of.owners[value] == Some(index)
                    || of.owners[value].is_some() && parts.contains(&value)
                {
                    continue;
                }
                let is_rounded = !unrounded.contains(&value);
                let (read, is_read_rounded) = of.read(step, value, is_rounded);
                if !is_read_rounded || !is_rounded && !of.is_of_codes(value) {
                    self.readers.insert(index);
                }
                if !is_read_rounded {
                    self.results.extend(of.owners[read]);
                }
                is_rounded_everywhere &= is_read_rounded;
                of_tensors.entry(of.tensor(read)).or_default().push_back(is_read_rounded);
            }
        }
        let positions = step.inputs.iter().map(|&tensor| {
            let next = of_tensors.get_mut(&Some(tensor)).and_then(VecDeque::pop_front);
            next.unwrap_or(is_rounded_everywhere)
        });
        self.steps.push(positions.collect());
    }
}

/// The tensors that stand for one of the file.
#[derive(Debug, Clone, Copy)]
struct Forms {
    /// Before it is rounded.
    exact: usize,
    /// Read as codes.
    coded: usize,
    /// Rounded, for layers in f32 and outputs.
    rounded: usize,
}

/// Layers with those that round between them.
#[derive(Debug, Default)]
pub(super) struct Rounded {
    inputs: usize,
    pub(super) layers: Vec<QuantizedLayer>,
    pub(super) schemes: Vec<ActivationScheme>,
    names: HashSet<String>,
    forms: Vec<Forms>,
}

impl Rounded {
    /// Adds a layer that rounds after each layer in f32, and after each input, of which the file
    /// rounds the numbers and which a layer in f32 or an output reads; redirects the outputs.
    pub(super) fn try_new(
        steps: &mut Steps,
        packed: Vec<QuantizedLayer>,
        schemes: &[ActivationScheme],
        readings: &Readings,
    ) -> Read<Self> {
        let inputs = steps.inputs.len();
        let of_steps = steps.list.iter().map(|step| step.scheme);
        let is_set: Vec<bool> =
            steps.input_schemes.iter().copied().chain(of_steps).map(|own| own.is_some()).collect();
        // What of each tensor is read, by outputs and layers in f32, and by others.
        let mut is_read = vec![[false; 2]; is_set.len()];
        let mut has_codes = vec![false; is_set.len()];
        for (layer, rounded) in packed.iter().zip(&readings.steps) {
            for (&input, &is_rounded) in layer.inputs.iter().zip(rounded) {
                match layer.is_float() {
                    true => is_read[input][usize::from(is_rounded)] = true,
                    false => has_codes[input] = true,
                }
            }
        }
        let is_rounded = |output: usize| readings.outputs.get(output).is_none_or(|&is| is);
        for (index, output) in steps.outputs.iter().enumerate() {
            is_read[output.tensor][usize::from(is_rounded(index))] = true;
        }
        let mut all = Self { inputs, schemes: schemes[..inputs].to_vec(), ..Self::default() };
        all.names.extend(steps.inputs.iter().map(|port| port.name.clone()));
        all.names.extend(packed.iter().map(|layer| layer.name.clone()));
        for tensor in 0..inputs {
            let port = &steps.inputs[tensor];
            let [is_read_exact, is_read_rounded] = is_read[tensor];
            let is_read_rounded = is_read_rounded && is_set[tensor];
            let mut coded = tensor;
            if is_read_exact && is_set[tensor] && (is_read_rounded || has_codes[tensor]) {
                // An input that a layer reads as codes is codes for every layer.
                coded = all.copy(tensor, &port.name, &port.shape, schemes[tensor], false)?;
            }
            let rounded = match is_read_rounded {
                true => all.copy(coded, &port.name, &port.shape, schemes[tensor], true)?,
                false => coded,
            };
            all.forms.push(Forms { exact: tensor, coded, rounded });
        }
        for (index, (mut layer, readings)) in packed.into_iter().zip(&readings.steps).enumerate() {
            let is_float = layer.is_float();
            for (input, &is_rounded) in layer.inputs.iter_mut().zip(readings) {
                let Forms { exact, coded, rounded } = all.forms[*input];
                *input = match (is_float, is_rounded) {
                    (false, _) => coded,
                    (true, false) => exact,
                    (true, true) => rounded,
                };
            }
            let tensor = inputs + index;
            let (name, shape) = (layer.name.clone(), layer.shapes.y.clone());
            let own = all.push(layer, schemes[tensor]);
            let rounded = match is_float && is_set[tensor] && is_read[tensor][1] {
                true => all.copy(own, &name, &shape, schemes[tensor], true)?,
                false => own,
            };
            all.forms.push(Forms { exact: own, coded: own, rounded });
        }
        for (index, output) in steps.outputs.iter_mut().enumerate() {
            let Forms { exact, rounded, .. } = all.forms[output.tensor];
            output.tensor = if is_rounded(index) { rounded } else { exact };
        }
        Ok(all)
    }

    fn push(&mut self, layer: QuantizedLayer, scheme: ActivationScheme) -> usize {
        self.layers.push(layer);
        self.schemes.push(scheme);
        self.inputs + self.layers.len() - 1
    }

    /// The same numbers, as they are or in codes.
    fn copy(
        &mut self,
        tensor: usize,
        name: &str,
        shape: &[usize],
        scheme: ActivationScheme,
        is_rounded: bool,
    ) -> Read<usize> {
        let mut own = format!("{name}.{}", if is_rounded { "codes" } else { "copy" });
        while !self.names.insert(own.clone()) {
            own.push('_');
        }
        let step = Step {
            name: own,
            work: clipping(Clip::IDENTITY),
            clip: Clip::IDENTITY,
            inputs: vec![tensor],
            shapes: Shapes { x: vec![shape.to_vec()], y: shape.to_vec() },
            scheme: Some(scheme),
        };
        let kept = (!is_rounded).then_some(Reason::Kept);
        let form = Form::try_new(&step, kept, Ok(None), &[scheme], scheme);
        let form = form.map_err(|error| refused(&step, error))?;
        Ok(self.push(finished(&step, form), scheme))
    }
}
