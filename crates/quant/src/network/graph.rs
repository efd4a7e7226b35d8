//! A network's layers and their weights in f32, each checked when it is added.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::clip::Clip;
use crate::operation::{OperationError, Parameters, Work};
use crate::scheme::ActivationScheme;

/// The output of a layer: a tensor for each sample, whose first axis is the channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value(pub(super) usize);

/// Errors of adding a layer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// An input without numbers.
    #[error("input `{name}` of {shape:?}, channels first, contains no numbers")]
    Empty {
        /// The input.
        name: String,
        /// What was given.
        shape: Vec<usize>,
    },
    /// The layer does not fit its inputs, or its parameters are not finite.
    #[error("layer `{layer}`: {cause}")]
    Layer {
        /// The layer.
        layer: String,
        /// What is wrong.
        cause: OperationError,
    },
}

impl GraphError {
    pub(crate) fn layer(layer: &str, cause: OperationError) -> Self {
        Self::Layer { layer: layer.to_owned(), cause }
    }
}

/// An input or an output of a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// The shape of one sample, channels first.
    pub shape: Vec<usize>,
}

impl Port {
    /// Numbers of one sample.
    #[must_use]
    pub fn numbers(&self) -> usize {
        self.shape.iter().product()
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Layer {
    Input,
    Work(Work),
    /// `x·weight + bias`, channel by channel.
    Affine(Arc<Parameters>),
    Clip(Clip),
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) layer: Layer,
    pub(super) inputs: Vec<usize>,
    pub(super) shape: Vec<usize>,
    /// The scheme of its output, if it is not that of its observed range.
    pub(super) scheme: Option<ActivationScheme>,
}

/// A network of layers; if no output is named, it is that of the last layer.
///
/// Layers are added in order, each by the values it reads. Weights are in burn's order, which is
/// that of ONNX: `[outputs, inputs / groups, height, width]`, `[outputs, inputs]`.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    pub(super) nodes: Vec<Node>,
    outputs: Vec<(Port, Value)>,
}

impl Graph {
    /// A graph without layers.
    #[must_use]
    pub const fn new() -> Self {
        Self { nodes: Vec::new(), outputs: Vec::new() }
    }

    /// Adds an input, by the shape of one sample: `[features]`,
    /// `[channels, length]`, `[channels, height, width]`, and so on.
    ///
    /// # Errors
    /// [`GraphError::Empty`] if the shape has no numbers.
    pub fn input(&mut self, name: &str, shape: &[usize]) -> Result<Value, GraphError> {
        if shape.is_empty() || shape.contains(&0) {
            return Err(GraphError::Empty { name: name.to_owned(), shape: shape.to_vec() });
        }
        Ok(self.push(name, Layer::Input, &[], shape.to_vec()))
    }

    /// Adds an output with a name; outputs are in the order of these calls.
    ///
    /// # Panics
    /// If the value is another graph's.
    pub fn output(&mut self, name: &str, value: Value) {
        self.output_as(name, value, self.shape(value).to_vec());
    }

    /// The same numbers in another shape.
    pub(crate) fn output_as(&mut self, name: &str, value: Value, shape: Vec<usize>) {
        self.outputs.push((Port { name: name.to_owned(), shape }, value));
    }

    /// The shape of one sample of a value, channels first.
    ///
    /// # Panics
    /// If the value is another graph's.
    #[must_use]
    pub fn shape(&self, value: Value) -> &[usize] {
        &self.nodes[value.0].shape
    }

    /// Sets the scheme of a value, such as one that was learnt in training: calibration does not
    /// change it, and in f32 the value is rounded to its codes.
    ///
    /// A value whose codes are those of its input, such as the maximum of windows, keeps the scheme
    /// of the input.
    ///
    /// # Panics
    /// If the value is another graph's.
    pub fn set_scheme(&mut self, value: Value, scheme: ActivationScheme) {
        self.nodes[value.0].scheme = Some(scheme);
    }

    /// The scheme of a value that [`set_scheme`](Self::set_scheme) set.
    ///
    /// # Panics
    /// If the value is another graph's.
    #[must_use]
    pub fn scheme(&self, value: Value) -> Option<ActivationScheme> {
        self.nodes[value.0].scheme
    }

    /// Whether some value has a scheme that was set: then its outputs in f32 depend on where
    /// rounding falls, and differ by steps between two ways to compute them.
    #[must_use]
    pub fn has_schemes(&self) -> bool {
        self.nodes.iter().any(|node| node.scheme.is_some())
    }

    /// The inputs, in order.
    pub(super) fn inputs(&self) -> impl Iterator<Item = Port> {
        let inputs = self.nodes.iter().filter(|node| matches!(node.layer, Layer::Input));
        inputs.map(|node| Port { name: node.name.clone(), shape: node.shape.clone() })
    }

    /// The outputs, in order.
    pub(super) fn outputs(&self) -> Vec<(Port, Value)> {
        match self.nodes.last() {
            Some(node) if self.outputs.is_empty() => {
                let port = Port { name: "answer".to_owned(), shape: node.shape.clone() };
                vec![(port, Value(self.nodes.len() - 1))]
            }
            _ => self.outputs.clone(),
        }
    }

    /// The same layers with other outputs.
    pub(super) fn with_outputs(&self, nodes: impl Iterator<Item = usize>) -> Self {
        let output = |node: usize| {
            let Node { name, shape, .. } = &self.nodes[node];
            (Port { name: name.clone(), shape: shape.clone() }, Value(node))
        };
        Self { nodes: self.nodes.clone(), outputs: nodes.map(output).collect() }
    }

    /// Adds an operation that fits the values that it reads.
    pub(crate) fn layer(
        &mut self,
        name: &str,
        work: Work,
        inputs: &[Value],
    ) -> Result<Value, GraphError> {
        let x: Vec<_> = inputs.iter().map(|&value| self.shape(value).to_vec()).collect();
        let shape = work.operation.shape(&x, work.parameters.lens());
        let checked = shape.and_then(|shape| work.parameters.check_finite().map(|()| shape));
        let shape = checked.map_err(|cause| GraphError::layer(name, cause))?;
        Ok(self.push(name, Layer::Work(work), inputs, shape))
    }

    /// The number of layers, and of inputs.
    #[cfg(feature = "burn")]
    pub(crate) const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Removes the last layers, which no other reads.
    #[cfg(feature = "burn")]
    pub(crate) fn truncate(&mut self, len: usize) {
        self.nodes.truncate(len);
    }

    pub(crate) fn push(
        &mut self,
        name: &str,
        layer: Layer,
        inputs: &[Value],
        shape: Vec<usize>,
    ) -> Value {
        let inputs = inputs.iter().map(|value| value.0).collect();
        self.nodes.push(Node { name: name.to_owned(), layer, inputs, shape, scheme: None });
        Value(self.nodes.len() - 1)
    }
}
