//! The parts of a file in their order: constants, inputs, nodes and outputs.

use std::rc::Rc;

use super::constant::Constant;
use super::error::{ImportError, Read};
use super::importer::{Importer, Meaning};
use super::message::{Model, Node, ValueInfo, is_own};
use super::real::Real;
use crate::network::graph::{Layer, Value};
use crate::network::model::QuantizedModel;

/// The first version of the operators in which scales have an axis.
const LEAST_VERSION: u64 = 13;

impl QuantizedModel {
    /// A model from the bytes of an ONNX file in QDQ form, operator set 13 or later, such as
    /// `onnxruntime.quantization.quantize_static` writes with `quant_format=QuantFormat.QDQ`.
    ///
    /// Integer weights and biases, and the scale and zero point of each tensor are those of the
    /// file; weights with which a batch norm or a scale and shift is merged are coded anew.
    /// Activations are uint8 or int8, weights int8, or uint8 with the zero point 128, with one scale
    /// or one for each output channel. A layer runs in int8 if it reads codes, its weights are
    /// integers and its result is rounded to codes, and otherwise in f32; the [`plan`](Self::plan)
    /// lists both. Numbers that the file rounds to codes are rounded, also between two layers in f32
    /// and for an output: by a layer of the plan whose name ends in `.codes`.
    ///
    /// The file does not say how it was calibrated: [`calibrated`](Self::calibrated) reports
    /// [`Calibration::MinMax`](crate::Calibration::MinMax) of 0 samples. An output that the file
    /// does not quantize has no range: [`run_codes`](Self::run_codes) rounds it to whole numbers
    /// between −128 and 127, or, if it is a fully connected layer in int8, to codes of all its
    /// possible sums.
    ///
    /// At most a small multiple of the bytes is allocated, for any bytes.
    ///
    /// # Errors
    /// [`ImportError`] for bytes of another format, a model that is not quantized, and an
    /// operation, a setting or a type that is not supported, with the name of its node.
    ///
    /// # Source
    /// The operators of [ONNX](https://onnx.ai/onnx/operators/), in particular `QuantizeLinear` and
    /// `DequantizeLinear`.
    pub fn from_onnx(bytes: &[u8]) -> Result<Self, ImportError> {
        let model = Model::read(bytes)?;
        if model.version < LEAST_VERSION {
            return Err(ImportError::Version { version: model.version });
        }
        let mut importer = Importer::new(bytes.len());
        for tensor in &model.initializers {
            let constant = Constant::try_new(tensor, tensor.name)?;
            importer.meanings.insert(tensor.name, Meaning::Constant(Rc::new(constant)));
        }
        for input in &model.inputs {
            importer.input(input)?;
        }
        for node in &model.nodes {
            let name = if node.name.is_empty() {
                node.outputs.first().copied().unwrap_or_default()
            } else {
                node.name
            };
            importer.place = [node.operation.to_owned(), name.to_owned()];
            importer.node(node)?;
        }
        importer.place = ["file".to_owned(), "outputs".to_owned()];
        if !importer.has_codes {
            return Err(ImportError::NotQuantized);
        }
        for &name in &model.outputs {
            importer.output(name)?;
        }
        importer.assemble()
    }
}

impl<'a> Importer<'a> {
    fn input(&mut self, input: &ValueInfo<'a>) -> Read<()> {
        // Older files list constants among the inputs.
        if self.meanings.contains_key(input.name) {
            return Ok(());
        }
        if input.element != 1 {
            return Err(ImportError::Element {
                tensor: input.name.to_owned(),
                got: input.element,
                expected: "1 (float) of an input; a QuantizeLinear makes its codes",
            });
        }
        let unknown = || {
            let sides = input.sides.iter().map(|side| match side {
                Ok(side) => side.to_string(),
                Err(name) => (*name).to_owned(),
            });
            let shape = format!("[{}]", sides.collect::<Vec<_>>().join(", "));
            ImportError::Shape { input: input.name.to_owned(), shape }
        };
        let Some((batch, sides)) = input.sides.split_first() else { return Err(unknown()) };
        self.batch = self.batch.or_else(|| batch.ok().filter(|&batch| batch > 0));
        let known = sides.iter().map(|side| match side {
            Ok(side @ 1..) => usize::try_from(*side).map_err(|_| unknown()),
            _ => Err(unknown()),
        });
        let shape = known.collect::<Read<Vec<_>>>()?;
        self.names.insert(input.name.to_owned(), 1);
        let value = self.graph.input(input.name, &shape);
        let value = self.record(value, &[])?;
        self.meanings.insert(input.name, Meaning::Real(Real::of(value, false, &shape)));
        Ok(())
    }

    fn output(&mut self, name: &'a str) -> Read<()> {
        let real = self.real(name)?;
        self.check_batch(&real)?;
        // The numbers of an output are in the order of its value, along any axes.
        let mut real = if self.is_whole(&real) { real } else { self.placed(real)? };
        if real.is_coded && self.is_product(real.value) {
            // The sums of a product that is an output are not rounded: codes are read instead.
            real.value = self.recoded(&real)?;
        }
        self.outputs.push((real.value.0, real.is_coded));
        self.graph.output_as(name, real.value, real.shape());
        Ok(())
    }

    /// Whether a value is a matrix product, possibly within limits.
    fn is_product(&self, value: Value) -> bool {
        let mut node = &self.graph.nodes[value.0];
        loop {
            match &node.layer {
                Layer::Work(work) => return work.operation.is_product(),
                Layer::Clip(_) | Layer::Affine(_) => node = &self.graph.nodes[node.inputs[0]],
                Layer::Input => return false,
            }
        }
    }

    fn node(&mut self, node: &Node<'a>) -> Read<()> {
        if !is_own(node.domain) {
            let [operation, node_name] = self.place.clone();
            let operation = format!("{}.{operation}", node.domain);
            return Err(ImportError::Operation { operation, node: node_name });
        }
        if self.folded(node)? {
            return Ok(());
        }
        match node.operation {
            "Constant" => self.constant_node(node),
            "QuantizeLinear" => self.quantize_linear(node),
            "DequantizeLinear" => self.dequantize_linear(node),
            "Identity" | "Dropout" => {
                let meaning = self.meaning(node, 0)?;
                self.set(node, meaning)
            }
            "Conv" => self.convolution(node),
            "ConvTranspose" => self.transposed(node),
            "Gemm" | "MatMul" => self.product(node),
            "BatchNormalization" => self.batch_normalization(node),
            "MaxPool" | "AveragePool" => self.pool(node),
            "GlobalAveragePool" | "GlobalMaxPool" | "ReduceMean" => self.pool_images(node),
            "LayerNormalization" => self.layer_normalization(node),
            "Shape" => self.shape_of(node),
            "Flatten" | "Reshape" | "Squeeze" | "Unsqueeze" => self.reshape(node),
            "Slice" => self.slice(node),
            "Split" => self.split(node),
            "Gather" => self.gather(node),
            "Expand" => self.expand(node),
            "Pad" => self.pad(node),
            "Concat" => self.concatenate(node),
            "Transpose" => self.transpose(node),
            "DepthToSpace" => self.depth_to_space(node),
            "Softmax" => self.softmax(node),
            "Resize" => self.resize(node),
            "Add" | "Sub" | "Mul" | "Div" | "Min" | "Max" | "Pow" | "Greater" => self.binary(node),
            "Where" => self.choice(node),
            _ => self.unary(node),
        }
    }

    fn constant_node(&mut self, node: &Node<'a>) -> Read<()> {
        let name = node.outputs.first().copied().unwrap_or_default();
        let attribute = node.attributes.first();
        let constant = match attribute.map(|attribute| (attribute.name, attribute)) {
            Some(("value", attribute)) => match &attribute.tensor {
                Some(tensor) => Constant::try_new(tensor, name)?,
                None => return self.refuse("its value is no tensor"),
            },
            Some(("value_float", attribute)) => {
                Constant::of_reals(&[], &[attribute.real.unwrap_or_default()])
            }
            Some(("value_ints", attribute)) => Constant::of_integers(&attribute.integers),
            _ => return self.refuse("it must have a tensor, a float or a list of integers"),
        };
        self.set(node, Meaning::Constant(Rc::new(constant)))
    }
}
