//! The state of an import: the graph so far, and the meaning of each name of the file.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::constant::{Coded, Constant};
use super::error::{ImportError, Read};
use super::message::Node;
use super::real::Real;
use super::sides::Sides;
use super::weights::GivenWeights;
use crate::clip::Clip;
use crate::network::graph::{Graph, GraphError, Layer, Value};
use crate::network::protobuf::Element;
use crate::operation::clipping;
use crate::scheme::ActivationScheme;

/// The most numbers of one sample of all tensors together, as of a model's file.
const MOST_NUMBERS: usize = 1 << 31;

/// Numbers of weights, padding, and scales and shifts of channels that layers may have, beside a
/// multiple of the file's bytes: its tensors may be read several times.
const MOST_ADDED: usize = 1 << 20;
const TIMES: usize = 16;

/// The meaning of a name of the file.
#[derive(Debug, Clone)]
pub(super) enum Meaning<'a> {
    Constant(Rc<Constant<'a>>),
    /// A constant that was dequantized.
    Coded(Rc<Coded<'a>>),
    /// Integers of which some depend on the length of the batch.
    Sides(Rc<Sides>),
    /// A tensor's codes, and their type in the file.
    Codes(Real, ActivationScheme, Element),
    Real(Real),
}

/// What the file has for a layer of the graph.
#[derive(Debug, Clone, Default)]
pub(super) struct GivenLayer {
    /// The layers whose results it reads before they are rounded.
    pub(super) unrounded: Vec<usize>,
    /// Whether its weights are in f32.
    pub(super) is_float: bool,
    pub(super) weights: Option<GivenWeights>,
}

/// A file on its way to a graph.
#[derive(Debug)]
pub(super) struct Importer<'a> {
    pub(super) graph: Graph,
    /// One for each layer of the graph, whose names are unique and have no `+`.
    pub(super) layers: Vec<GivenLayer>,
    /// The value of each output, and whether it is rounded.
    pub(super) outputs: Vec<(usize, bool)>,
    pub(super) meanings: HashMap<&'a str, Meaning<'a>>,
    /// How often a name was given.
    pub(super) names: HashMap<String, usize>,
    /// The length of the first axis, if the file fixes it.
    pub(super) batch: Option<i64>,
    /// Numbers of one sample of all tensors.
    numbers: usize,
    /// The numbers that layers may still have.
    allowance: usize,
    /// The current operation and its node.
    pub(super) place: [String; 2],
    pub(super) has_codes: bool,
}

impl<'a> Importer<'a> {
    /// An import of so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            graph: Graph::new(),
            layers: Vec::new(),
            outputs: Vec::new(),
            meanings: HashMap::new(),
            names: HashMap::new(),
            batch: None,
            numbers: 0,
            allowance: bytes.saturating_mul(TIMES).saturating_add(MOST_ADDED),
            place: ["file".to_owned(), "inputs".to_owned()],
            has_codes: false,
        }
    }

    /// The meaning of a node's input.
    pub(super) fn meaning(&self, node: &Node<'a>, at: usize) -> Read<Meaning<'a>> {
        let Some(name) = node.input(at) else { return self.refuse("an input is left out") };
        self.meaning_of(name)
    }

    pub(super) fn meaning_of(&self, name: &str) -> Read<Meaning<'a>> {
        let missing = || {
            let [operation, node] = self.place.clone();
            ImportError::Missing { operation, node, name: name.to_owned() }
        };
        self.meanings.get(name).cloned().ok_or_else(missing)
    }

    pub(super) fn set(&mut self, node: &Node<'a>, meaning: Meaning<'a>) -> Read<()> {
        let Some(&name) = node.outputs.first() else { return self.refuse("it has no output") };
        self.meanings.insert(name, meaning);
        Ok(())
    }

    /// Sets the output of a node to a new value of the graph.
    pub(super) fn set_value(&mut self, node: &Node<'a>, value: Value, is_coded: bool) -> Read<()> {
        let real = Real::of(value, is_coded, self.graph.shape(value));
        self.set(node, Meaning::Real(real))
    }

    /// The same for a value that is not rounded, whose shape in the file may have fewer axes.
    pub(super) fn set_shaped(
        &mut self,
        node: &Node<'a>,
        value: Value,
        shape: &[usize],
    ) -> Read<()> {
        self.set(node, Meaning::Real(Real::of(value, false, shape)))
    }

    /// Real numbers that depend on the input, possibly by a function that is still to be computed.
    pub(super) fn pending(&self, name: &str) -> Read<Real> {
        match self.meaning_of(name)? {
            Meaning::Real(real) => Ok(real),
            Meaning::Codes(..) => self.refuse("it reads codes; a DequantizeLinear must be between"),
            Meaning::Constant(_) | Meaning::Coded(_) => {
                self.refuse("it reads a constant where a tensor must depend on the input")
            }
            Meaning::Sides(_) => {
                self.refuse("it computes with the length of the batch, which the file leaves open")
            }
        }
    }

    /// Real numbers that a layer computes.
    pub(super) fn real(&mut self, name: &'a str) -> Read<Real> {
        let mut real = self.pending(name)?;
        let Some(function) = real.function.take() else { return Ok(real) };
        if real.count() < self.numbers_of(real.value) {
            // Of a part of a value, the function is computed for that part alone.
            real = self.placed(real)?;
        }
        if function.clip().is_none() && function.line().is_some() {
            self.add_numbers(2 * self.graph.shape(real.value)[0])?;
        }
        let layer = self.name(name);
        let computed = self.graph.function(&layer, real.value, &function);
        let value = self.record(computed, &[&real])?;
        real.is_coded &= value == real.value;
        real.value = value;
        self.meanings.insert(name, Meaning::Real(real.clone()));
        Ok(real)
    }

    pub(super) fn input_real(&mut self, node: &Node<'a>, at: usize) -> Read<Real> {
        let Some(name) = node.input(at) else { return self.refuse("an input is left out") };
        self.real(name)
    }

    /// The scheme of a value's codes.
    pub(super) fn scheme_of(&self, value: Value) -> Option<ActivationScheme> {
        let mut index = value.0;
        loop {
            let node = &self.graph.nodes[index];
            if node.scheme.is_some() {
                return node.scheme;
            }
            match &node.layer {
                Layer::Work(work)
                    if work.operation.keeps_scheme() && self.layers[index].unrounded.is_empty() =>
                {
                    index = node.inputs[0];
                }
                _ => return None,
            }
        }
    }

    /// The codes of a tensor in a scheme.
    pub(super) fn quantize(&mut self, name: &'a str, scheme: ActivationScheme) -> Read<Real> {
        let mut real = self.real(name)?;
        self.has_codes = true;
        match self.scheme_of(real.value) {
            Some(own) if own == scheme => {}
            None if !real.is_coded => self.graph.set_scheme(real.value, scheme),
            _ => {
                real.value = self.recoded(&real)?;
                self.graph.set_scheme(real.value, scheme);
            }
        }
        real.is_coded = true;
        Ok(real)
    }

    /// Codes of a value whose numbers the same layer also reads before they are rounded are those of
    /// a layer of their own.
    pub(super) fn separate(&mut self, reads: &mut [Real]) -> Read<()> {
        let unrounded = reads.iter().filter(|read| !read.is_coded).map(|read| read.value.0);
        let unrounded: HashSet<usize> = unrounded.collect();
        for read in reads {
            if read.is_coded && unrounded.contains(&read.value.0) {
                read.value = self.recoded(read)?;
            }
        }
        Ok(())
    }

    /// The same codes, or other ones of the same numbers, by a layer of its own.
    pub(super) fn recoded(&mut self, x: &Real) -> Read<Value> {
        let name = self.name("codes");
        let value = self.graph.layer(&name, clipping(Clip::IDENTITY), &[x.value]);
        let value = self.record(value, &[x])?;
        if let Some(scheme) = self.scheme_of(x.value) {
            self.graph.set_scheme(value, scheme);
        }
        Ok(value)
    }

    /// A name for a layer that no other has.
    pub(super) fn name(&mut self, name: &str) -> String {
        let name = if name.is_empty() { "layer" } else { name }.replace('+', "_");
        loop {
            let count = self.names.entry(name.clone()).or_insert(0);
            *count += 1;
            let unique = match *count {
                1 => return name,
                count => format!("{name}.{count}"),
            };
            if !self.names.contains_key(&unique) {
                self.names.insert(unique.clone(), 1);
                return unique;
            }
        }
    }

    /// A name for the layer of the current node.
    pub(super) fn layer_name(&mut self) -> String {
        let name = self.place[1].clone();
        self.name(&name)
    }

    /// A value that was added to the graph, with the values that it reads.
    pub(super) fn record(
        &mut self,
        value: Result<Value, GraphError>,
        reads: &[&Real],
    ) -> Read<Value> {
        let value = value.map_err(|cause| ImportError::Graph { cause })?;
        if value.0 < self.layers.len() {
            return Ok(value);
        }
        let sides = self.graph.shape(value).iter();
        let len = sides.clone().try_fold(1_usize, |product, &side| product.checked_mul(side));
        self.numbers = self.numbers.saturating_add(len.unwrap_or(usize::MAX));
        if self.numbers > MOST_NUMBERS {
            return Err(ImportError::TooLarge { what: "tensors of more than 2³¹ numbers" });
        }
        let unrounded = reads.iter().filter(|real| !real.is_coded).map(|real| real.value.0);
        let unrounded = unrounded.collect();
        self.layers.push(GivenLayer { unrounded, ..GivenLayer::default() });
        Ok(value)
    }

    /// Counts numbers of a layer.
    pub(super) fn add_numbers(&mut self, count: usize) -> Read<()> {
        let what =
            "more numbers of padding and of weights that are read again than its bytes allow";
        let rest = self.allowance.checked_sub(count);
        self.allowance = rest.ok_or(ImportError::TooLarge { what })?;
        Ok(())
    }

    /// The error of the current node.
    pub(super) fn refuse<T>(&self, reason: &'static str) -> Read<T> {
        let [operation, node] = self.place.clone();
        Err(ImportError::Unsupported { operation, node, reason })
    }

    /// The current operation and its node.
    pub(super) fn place(&self) -> [String; 2] {
        self.place.clone()
    }
}
