//! From burn's recorded operations to a graph, one operation after the other.

use std::collections::HashMap;

use burn::backend::ir::{OperationIr, TensorId, TensorIr};
use burn::module::Module;
use burn::tensor::DType;

use super::constant::Constant;
use super::error::{CaptureError, Place};
use super::record::{Recording, kind, layer_of, record};
use super::tensors::{Shapes, Tensors};
use crate::clip::Clip;
use crate::network::{Graph, GraphError, Value};
use crate::operation::{self, Function};
use crate::view::View;

impl Graph {
    /// The graph of a burn module in inference mode.
    ///
    /// `forward` runs the module on batches of samples of `shapes`, without change to its code:
    /// `[3, 32, 32]` stands for a `Tensor<4>` whose first axis is the batch, a tuple of shapes for a
    /// tuple of tensors. burn records the operations on a device of its own, for batches of two
    /// sizes. Element-wise operations on one tensor become one
    /// [function](Self::function); values that do not depend on the input are computed at capture.
    /// Operations without a kernel are left to burn: they run in f32, sample by sample, and may
    /// print burn's message of a panic while it is tried whether they can.
    /// Layers are named by the paths of their parameters, others by their operation and number;
    /// inputs are `input`, outputs `output`, with numbers where there are several.
    ///
    /// # Errors
    /// [`CaptureError`] names the operation and its position if it is random, joins samples of the
    /// batch or cannot be left to burn, or if the module's operations depend on the batch size.
    ///
    /// # Panics
    /// If `forward` panics for samples of these shapes.
    pub fn try_capture<M: Module, S: Shapes, O: Tensors>(
        module: &M,
        shapes: S,
        forward: impl Fn(&M, S::Tensors) -> O,
    ) -> Result<Self, CaptureError> {
        let place = Place { operation: "input".into(), index: 0, after: String::new() };
        let (mut graph, shapes) = (Self::new(), shapes.list());
        let named = |kind: &str, index: usize, count: usize| match count {
            1 => kind.to_owned(),
            _ => format!("{kind}{index}"),
        };
        let mut values = Vec::new();
        for (index, shape) in shapes.iter().enumerate() {
            let value = graph.input(&named("input", index, shapes.len()), shape);
            let value = value.map_err(|source| CaptureError::Layer {
                place: place.clone(),
                source: source.into(),
            })?;
            values.push(Meaning::of(value, View::of(shape)));
        }
        let recording = record(module, &shapes, forward)?;
        let meanings = recording.inputs.iter().copied().zip(values).collect();
        let (in_burn, counts) = (HashMap::new(), HashMap::new());
        let mut reader = Reader { recording: &recording, graph, meanings, in_burn, place, counts };
        reader.read()?;
        for (index, output) in recording.outputs.iter().enumerate() {
            if let Some(&index) = reader.in_burn.get(output) {
                let operation = &recording.operations[index];
                reader.place.operation = kind(operation);
                let place = Place { index, ..reader.place };
                let dtype = operation.outputs().next().expect("it gives the output").dtype;
                return Err(CaptureError::DType { place, dtype });
            }
            if !matches!(reader.meanings.get(output), Some(Meaning::Value { .. })) {
                return Err(CaptureError::Constant);
            }
            let (value, shape) = reader.value_of(*output)?;
            let name = named("output", index, recording.outputs.len());
            reader.graph.output_as(&name, value, shape);
        }
        Ok(reader.graph)
    }
}

/// The meaning of a recorded tensor.
#[derive(Debug, Clone)]
pub(crate) enum Meaning {
    /// The same for every sample.
    Constant(Constant),
    /// A function of a value, number by number, seen along burn's axes of one sample.
    Value { value: Value, function: Function, view: View },
}

impl Meaning {
    pub(super) fn of(value: Value, view: View) -> Self {
        Self::Value { value, function: Function::identity(), view }
    }
}

pub(crate) struct Reader<'a> {
    pub(super) recording: &'a Recording,
    pub(crate) graph: Graph,
    pub(super) meanings: HashMap<TensorId, Meaning>,
    /// The operations that compute tensors which the graph has no values for.
    pub(super) in_burn: HashMap<TensorId, usize>,
    pub(super) place: Place,
    /// The number of layers of each kind without parameters.
    counts: HashMap<String, usize>,
}

pub(crate) type Read<T> = Result<T, CaptureError>;

impl Reader<'_> {
    fn read(&mut self) -> Read<()> {
        let recording = self.recording;
        for (index, recorded) in recording.operations.iter().enumerate() {
            let layer = layer_of(recording, recorded);
            self.place.index = index;
            self.place.operation = kind(recorded);
            if let Err(error) = self.read_one(recorded, layer.as_deref()) {
                let is_other =
                    matches!(error, CaptureError::Unsupported { .. } | CaptureError::DType { .. });
                if !is_other || !self.leave_to_burn(index, layer.as_deref())? {
                    return Err(error);
                }
            }
            if let Some(layer) = layer {
                self.place.after = layer;
            }
        }
        Ok(())
    }

    /// Reads an operation that the graph has, or changes nothing.
    fn read_one(&mut self, recorded: &OperationIr, layer: Option<&str>) -> Read<()> {
        let layers = self.graph.len();
        let counts = self.counts.clone();
        let before: Vec<_> = recorded
            .inputs()
            .map(|tensor| (tensor.id, self.meanings.get(&tensor.id).cloned()))
            .collect();
        let read = self.try_read_one(recorded, layer);
        if read.is_err() {
            self.graph.truncate(layers);
            self.counts = counts;
            for (id, meaning) in before {
                match meaning {
                    Some(meaning) => self.meanings.insert(id, meaning),
                    None => self.meanings.remove(&id),
                };
            }
        }
        read
    }

    fn try_read_one(&mut self, recorded: &OperationIr, layer: Option<&str>) -> Read<()> {
        let mut outputs = recorded.outputs();
        let out = outputs.next().ok_or_else(|| self.unsupported("it gives no tensor"))?;
        if outputs.next().is_some() {
            return Err(self.unsupported("it gives several tensors"));
        }
        let mut meaning = match self.order(recorded)? {
            Some(meaning) => meaning,
            None => operation::record(self, recorded, layer)?
                .ok_or_else(|| self.unsupported("there is no such operation"))?,
        };
        // The graph has the same numbers for any axes of length 1 in burn.
        if let Meaning::Value { view, .. } = &mut meaning {
            let reason = "its last windows reach beyond the image";
            let seen = view.reshaped(&self.recording.of_sample(&out.shape));
            *view = seen.ok_or_else(|| self.unsupported(reason))?;
        }
        self.meanings.insert(out.id, meaning);
        Ok(())
    }

    pub(crate) fn meaning(&self, tensor: &TensorIr) -> Read<Meaning> {
        if self.in_burn.contains_key(&tensor.id) {
            return Err(self.unsupported("it reads a tensor that the graph does not have"));
        }
        // Masks are functions with the values 0 and 1.
        if !matches!(tensor.dtype, DType::F32 | DType::Bool(_)) {
            return Err(CaptureError::DType { place: self.place.clone(), dtype: tensor.dtype });
        }
        if let Some(meaning) = self.meanings.get(&tensor.id) {
            return Ok(meaning.clone());
        }
        let data = self.recording.values.get(&tensor.id);
        let constant = data.and_then(Constant::try_from_data);
        let constant = constant.ok_or_else(|| self.unsupported("it reads a tensor of nowhere"))?;
        Ok(Meaning::Constant(constant))
    }

    /// A tensor that does not depend on the input.
    pub(crate) fn constant(&self, tensor: &TensorIr, otherwise: &str) -> Read<Constant> {
        match self.meaning(tensor)? {
            Meaning::Constant(constant) => Ok(constant),
            Meaning::Value { .. } => Err(self.unsupported(otherwise)),
        }
    }

    /// A tensor that does depend on it, as a value of the graph in row-major order, with the shape of
    /// one sample.
    pub(crate) fn value(&mut self, tensor: &TensorIr) -> Read<(Value, Vec<usize>)> {
        if self.recording.joins_batch(&tensor.shape) {
            return Err(self.unsupported("its first axis is the batch with another axis"));
        }
        self.value_in_order(tensor)
    }

    /// The same also where the first axis is the batch with another axis behind it, which is then
    /// the first axis of the shape.
    pub(crate) fn value_in_order(&mut self, tensor: &TensorIr) -> Read<(Value, Vec<usize>)> {
        let meaning = self.meaning(tensor)?;
        self.meanings.insert(tensor.id, meaning);
        self.value_of(tensor.id)
    }

    fn value_of(&mut self, id: TensorId) -> Read<(Value, Vec<usize>)> {
        let (value, view) = self.viewed_of(id)?;
        let shape = view.shape();
        if view.is_whole(self.graph.shape(value).iter().product()) {
            return Ok((value, shape));
        }
        let value = self.rearranged(value, &view, &shape)?;
        self.meanings.insert(id, Meaning::of(value, View::of(&shape)));
        Ok((value, shape))
    }

    /// The same as a value of the graph in any order.
    pub(crate) fn viewed(&mut self, tensor: &TensorIr) -> Read<(Value, View)> {
        let meaning = self.meaning(tensor)?;
        self.meanings.insert(tensor.id, meaning);
        self.viewed_of(tensor.id)
    }

    fn viewed_of(&mut self, id: TensorId) -> Read<(Value, View)> {
        let Some(Meaning::Value { value, function, view }) = self.meanings.get(&id).cloned() else {
            return Err(self.unsupported("its input does not depend on the input"));
        };
        if function.is_identity() {
            return Ok((value, view));
        }
        let name = self.numbered(kind_of(&function));
        let given = self.graph.function(&name, value, &function);
        let value = self.added(given)?;
        self.meanings.insert(id, Meaning::of(value, view.clone()));
        Ok((value, view))
    }

    /// A name for a layer without parameters.
    pub(crate) fn numbered(&mut self, kind: &str) -> String {
        let count = self.counts.entry(kind.to_owned()).or_default();
        *count += 1;
        format!("{kind}{count}")
    }

    /// Records the output of a layer that was added.
    pub(crate) fn layer(&self, result: Result<Value, GraphError>) -> Read<Meaning> {
        let value = self.added(result)?;
        Ok(Meaning::of(value, View::of(self.graph.shape(value))))
    }

    pub(crate) fn added(&self, result: Result<Value, GraphError>) -> Read<Value> {
        result.map_err(|source| CaptureError::Layer {
            place: self.place.clone(),
            source: source.into(),
        })
    }

    /// A value whose first axis is the channels only.
    pub(crate) fn value_of_channels(&mut self, tensor: &TensorIr) -> Read<Value> {
        let (value, shape) = self.value(tensor)?;
        if shape.first() == self.graph.shape(value).first() {
            return Ok(value);
        }
        Err(self.unsupported("it takes the numbers of a flattened image for channels"))
    }

    /// The bias of a layer, zeros if it has none.
    pub(crate) fn bias(&self, bias: Option<&TensorIr>, outputs: usize) -> Read<Vec<f32>> {
        let reason = "its bias depends on the input";
        let bias = bias.map(|bias| self.constant(bias, reason)).transpose()?;
        Ok(bias.map_or(vec![0.0; outputs], |bias| bias.values))
    }

    /// The name of a layer: that of its parameters, if it has some.
    pub(crate) fn name_of(&mut self, layer: Option<&str>, kind: &'static str) -> String {
        layer.map_or_else(|| self.numbered(kind), str::to_owned)
    }

    pub(crate) fn unsupported(&self, what: &str) -> CaptureError {
        CaptureError::Unsupported { place: self.place.clone(), what: what.to_owned() }
    }
}

/// The name of a function's layer.
pub(super) fn kind_of(function: &Function) -> &'static str {
    match (function.clip(), function.line()) {
        (Some(Clip::RECTIFIER), _) => "relu",
        (Some(_), _) => "clip",
        (None, Some(_)) => "scale",
        (None, None) => "function",
    }
}
