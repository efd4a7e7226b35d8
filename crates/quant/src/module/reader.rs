//! From burn's recorded operations to a graph, one operation after the other.

use std::collections::HashMap;

use burn::backend::ir::{
    ActivationOperationIr, BaseOperationIr, FloatOperationIr, ModuleOperationIr, OperationIr,
    TensorId, TensorIr,
};
use burn::module::Module;
use burn::tensor::{DType, Tensor};

use super::constant::Constant;
use super::error::{CaptureError, Place};
use super::record::{Recording, kind, layer_of, record};
use crate::network::{Function, Graph, GraphError, Value};

impl Graph {
    /// The graph of a burn module, as it computes after training.
    ///
    /// `forward` runs the module on images `[batch, channels, height, width]`, without change to
    /// its code: burn records the operations on a device of its own, for batches of two sizes. Of
    /// what is computed from one tensor number by number, whatever its form, comes one
    /// [function](Self::function); what does not depend on the image is computed here and now.
    /// Layers are named by the paths of their parameters, others by their operation and number.
    ///
    /// # Errors
    /// [`CaptureError`] names the operation and its place if a graph does not have it, or if the
    /// module does other things for other batches.
    ///
    /// # Panics
    /// Where `forward` does, for images of this shape.
    pub fn try_capture<M: Module, const D: usize>(
        module: &M,
        image: [usize; 3],
        forward: impl Fn(&M, Tensor<4>) -> Tensor<D>,
    ) -> Result<Self, CaptureError> {
        let start = Place { operation: "input".into(), index: 0, after: String::new() };
        let graph = Self::try_new(image).map_err(|source| CaptureError::Layer {
            place: start.clone(),
            source: source.into(),
        })?;
        let recording = record(module, image, forward)?;
        let input = Meaning::Value {
            value: graph.input(),
            function: Function::identity(),
            shape: image.to_vec(),
        };
        let meanings = HashMap::from([(recording.input, input)]);
        let counts = HashMap::new();
        Reader { recording: &recording, graph, meanings, place: start, counts }.read()
    }
}

/// What a recorded tensor is.
#[derive(Debug, Clone)]
pub(super) enum Meaning {
    /// The same for every image.
    Constant(Constant),
    /// A function of a value, number by number; the shape is that of one image's part.
    Value { value: Value, function: Function, shape: Vec<usize> },
}

pub(super) struct Reader<'a> {
    recording: &'a Recording,
    pub(super) graph: Graph,
    meanings: HashMap<TensorId, Meaning>,
    place: Place,
    /// How many layers there are of each kind without parameters.
    counts: HashMap<&'static str, usize>,
}

pub(super) type Read<T> = Result<T, CaptureError>;

impl Reader<'_> {
    fn read(mut self) -> Read<Graph> {
        let recording = self.recording;
        for (index, operation) in recording.operations.iter().enumerate() {
            let layer = layer_of(recording, operation);
            self.place.index = index;
            self.place.operation = kind(operation);
            let meaning = self.operation(operation, layer.as_deref())?;
            let mut outputs = operation.outputs();
            let out = outputs.next().ok_or_else(|| self.unsupported("it gives no tensor"))?;
            if outputs.next().is_some() {
                return Err(self.unsupported("it gives several tensors"));
            }
            self.meanings.insert(out.id, meaning);
            if let Some(layer) = layer {
                self.place.after = layer;
            }
        }
        match self.meanings.get(&recording.output) {
            Some(Meaning::Value { .. }) => {}
            _ => return Err(CaptureError::Constant),
        }
        let (answer, _) = self.value_of(recording.output)?;
        self.graph.end_at(answer);
        Ok(self.graph)
    }

    fn operation(&mut self, operation: &OperationIr, layer: Option<&str>) -> Read<Meaning> {
        match operation {
            OperationIr::BaseFloat(operation) => self.base(operation),
            OperationIr::NumericFloat(_, operation) => self.numeric(operation),
            OperationIr::Float(_, FloatOperationIr::Matmul(matmul)) => {
                self.linear(&matmul.lhs, &matmul.rhs, None, layer)
            }
            OperationIr::Float(_, operation) => self.float(operation),
            OperationIr::Activation(ActivationOperationIr::Softmax(softmax)) => {
                self.softmax(&softmax.input, softmax.axis)
            }
            OperationIr::Activation(operation) => self.activation(operation),
            OperationIr::Module(operation) => match operation {
                ModuleOperationIr::Conv2d(conv) => self.convolution(conv, layer),
                ModuleOperationIr::Linear(linear) => {
                    self.linear(&linear.x, &linear.weight, linear.bias.as_ref(), layer)
                }
                ModuleOperationIr::BatchNorm(norm) => self.batch_norm(norm, layer),
                ModuleOperationIr::AvgPool2d(pool) => self.average_pool(pool),
                ModuleOperationIr::AdaptiveAvgPool2d(pool) => self.adaptive_pool(pool),
                ModuleOperationIr::MaxPool2d(pool) => self.max_pool(pool),
                _ => Err(self.unsupported("there is no such layer")),
            },
            _ => Err(self.unsupported("there is no such operation")),
        }
    }

    fn base(&mut self, operation: &BaseOperationIr) -> Read<Meaning> {
        match operation {
            BaseOperationIr::Reshape(reshape) => self.reshape(&reshape.input, &reshape.out),
            BaseOperationIr::Cast(cast) => match cast.out.dtype {
                DType::F32 => self.meaning(&cast.input),
                dtype => Err(CaptureError::DType { place: self.place.clone(), dtype }),
            },
            BaseOperationIr::Cat(cat) => self.concatenate(&cat.tensors, cat.dim),
            BaseOperationIr::Slice(slice) => {
                let constant = self.constant(&slice.tensor, "it cuts a part out of each image")?;
                let part = constant.slice(&slice.ranges);
                part.map(Meaning::Constant).ok_or_else(|| self.unsupported("it goes by steps"))
            }
            BaseOperationIr::SwapDims(swap) => {
                let constant = self.constant(&swap.input, "it turns the axes of each image")?;
                let mut axes: Vec<usize> = (0..constant.shape.len()).collect();
                axes.swap(swap.dim1, swap.dim2);
                Ok(Meaning::Constant(constant.permute(&axes)))
            }
            BaseOperationIr::Permute(permute) => {
                let constant = self.constant(&permute.input, "it turns the axes of each image")?;
                Ok(Meaning::Constant(constant.permute(&permute.axes)))
            }
            BaseOperationIr::Expand(expand) => {
                let constant = self.constant(&expand.input, "it repeats each image")?;
                let expanded = constant.expand(&expand.out.shape.to_vec());
                expanded.map(Meaning::Constant).ok_or_else(|| self.unsupported("its shapes differ"))
            }
            BaseOperationIr::Zeros(zeros) => {
                Ok(Meaning::Constant(Constant::full(&zeros.out.shape.to_vec(), 0.0)))
            }
            BaseOperationIr::Ones(ones) => {
                Ok(Meaning::Constant(Constant::full(&ones.out.shape.to_vec(), 1.0)))
            }
            BaseOperationIr::MaskWhere(mask) => self.choose(&mask.mask, &mask.value, &mask.tensor),
            BaseOperationIr::MaskFill(fill) => {
                let value = Function::constant(fill.value.elem::<f32>());
                self.choose_number(&fill.mask, &value, &fill.tensor)
            }
            _ => Err(self.unsupported("there is no such operation")),
        }
    }

    /// Only a way to say the same numbers of an image in another shape.
    fn reshape(&mut self, input: &TensorIr, out: &TensorIr) -> Read<Meaning> {
        match self.meaning(input)? {
            Meaning::Constant(constant) => {
                Ok(Meaning::Constant(constant.reshape(&out.shape.to_vec())))
            }
            Meaning::Value { value, function, .. } => {
                let batch = input.shape[0];
                let whole = self.graph.shape(value);
                let shape: Vec<usize> = out.shape.iter().skip(1).copied().collect();
                let is_flat = shape == [whole.iter().product::<usize>()];
                if out.shape[0] == batch && (is_flat || shape == whole) {
                    return Ok(Meaning::Value { value, function, shape });
                }
                let told = format!(
                    "it takes {:?} to {:?}, which is no flattening",
                    input.shape.to_vec(),
                    out.shape.to_vec()
                );
                Err(self.unsupported(&told))
            }
        }
    }

    pub(super) fn meaning(&self, tensor: &TensorIr) -> Read<Meaning> {
        // Masks are functions that give 0 and 1.
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

    /// A tensor that does not depend on the image.
    pub(super) fn constant(&self, tensor: &TensorIr, otherwise: &str) -> Read<Constant> {
        match self.meaning(tensor)? {
            Meaning::Constant(constant) => Ok(constant),
            Meaning::Value { .. } => Err(self.unsupported(otherwise)),
        }
    }

    /// A tensor that does, as a value of the graph, with the shape of one image's part.
    pub(super) fn value(&mut self, tensor: &TensorIr) -> Read<(Value, Vec<usize>)> {
        let meaning = self.meaning(tensor)?;
        self.meanings.insert(tensor.id, meaning);
        self.value_of(tensor.id)
    }

    fn value_of(&mut self, id: TensorId) -> Read<(Value, Vec<usize>)> {
        let Some(Meaning::Value { value, function, shape }) = self.meanings.get(&id).cloned()
        else {
            return Err(self.unsupported("its input does not depend on the image"));
        };
        let kind = match function.line() {
            _ if function.is_rectifier() => "relu",
            Some(_) => "scale",
            None => "function",
        };
        if function.is_identity() {
            return Ok((value, shape));
        }
        let name = self.numbered(kind);
        let given = self.graph.function(&name, value, &function);
        let value = self.layer(given)?;
        let function = Function::identity();
        self.meanings.insert(id, Meaning::Value { value, function, shape: shape.clone() });
        Ok((value, shape))
    }

    pub(super) fn given(&self, value: Value, shape: Vec<usize>) -> Meaning {
        Meaning::Value { value, function: Function::identity(), shape }
    }

    /// A name for a layer without parameters.
    pub(super) fn numbered(&mut self, kind: &'static str) -> String {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        format!("{kind}{count}")
    }

    pub(super) fn layer<T>(&self, result: Result<T, GraphError>) -> Read<T> {
        result.map_err(|source| CaptureError::Layer {
            place: self.place.clone(),
            source: source.into(),
        })
    }

    pub(super) fn unsupported(&self, what: &str) -> CaptureError {
        CaptureError::Unsupported { place: self.place.clone(), what: what.to_owned() }
    }
}
