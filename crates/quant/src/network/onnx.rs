//! A quantized model as an ONNX file in QDQ form.

use super::layer::QuantizedLayer;
use super::model::QuantizedModel;
use super::protobuf::{self, Attribute, AttributeField, Element, Tensor};
use crate::clip::Clip;
use crate::operation::{Parameters, Shapes, plane};
use crate::scheme::ActivationScheme;
use crate::weights::QuantizedWeights;

/// A layer that an ONNX file cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("layer `{layer}` is computed by burn; ONNX does not have it")]
pub struct ExportError {
    /// The layer.
    pub layer: String,
}

impl QuantizedModel {
    /// The model as the bytes of an ONNX file, operator set 19.
    ///
    /// Inputs and outputs are f32, `[batch, channels, …]`, by the names that the graph has for
    /// them. Every tensor between layers passes a `QuantizeLinear` and a `DequantizeLinear` with its
    /// scheme, weights and biases a `DequantizeLinear` with one scale for each channel: the form
    /// that runtimes replace by integer kernels. Layers that stay in f32 are written in f32;
    /// onnxruntime's optimizer quantizes the weights of those between codes by itself,
    /// unless its optimizations are switched off. A convolution that adds the other summand of a
    /// residual sum has no codes after it, so that other runtimes compute it in f32;
    /// [`Quantization::separate_sums`](crate::Quantization::separate_sums) keeps the two separate.
    /// Layers that run in f32 because they are faster on this processor are written in int8. If
    /// weights alone are quantized, they pass a `DequantizeLinear`, and no tensor does.
    ///
    /// # Errors
    /// [`ExportError`] names a layer that burn computes, which ONNX does not have.
    pub fn to_onnx(&self) -> Result<Vec<u8>, ExportError> {
        match self.layers.iter().find(|layer| layer.operation.is_in_burn()) {
            Some(layer) => Err(ExportError { layer: layer.name.clone() }),
            None => Ok(self.in_int8().export()),
        }
    }

    fn export(&self) -> Vec<u8> {
        let mut graph = protobuf::Graph::default();
        let mut values = Vec::new();
        for (tensor, port) in self.inputs.iter().enumerate() {
            values.push(Values::of(match self.is_coded(tensor) {
                true => coded(&mut graph, &port.name, self.schemes[tensor], tensor),
                false => port.name.clone(),
            }));
        }
        for layer in &self.layers {
            let tensor = values.len();
            let name = format!("layer{}", tensor - self.inputs.len());
            let node = &mut Node { graph: &mut graph, model: self, layer, values: &values, name };
            let mut value = layer.operation.export(node);
            value = node.clipped(value, layer.clip);
            // Unread codes signal to other runtimes that the values may be rounded.
            let may_be_real = layer.is_float() || layer.is_product() && self.is_output(tensor);
            if may_be_real && !self.is_coded(tensor) {
                values.push(Values::of(value));
                continue;
            }
            let coded = coded(&mut graph, &value, self.schemes[tensor], tensor);
            let float = if layer.is_float() { value } else { coded.clone() };
            values.push(Values { float, coded });
        }
        for output in &self.outputs {
            let (value, name) = (&values[output.tensor].float, output.port.name.clone());
            let is_shaped = output.port.shape == self.shapes[output.tensor];
            let shape = (!is_shaped).then(|| {
                let initializer = shape_of(&format!("{name}.shape"), &output.port.shape);
                graph.initializer.push(initializer);
                format!("{name}.shape")
            });
            match shape {
                Some(shape) => graph.add("Reshape", &[value, &shape], name, vec![]),
                None => graph.add("Identity", &[value], name, vec![]),
            };
        }
        graph.into_file(self.inputs.iter(), self.outputs())
    }

    fn is_output(&self, tensor: usize) -> bool {
        self.outputs.iter().any(|output| output.tensor == tensor)
    }
}

/// The names of a tensor's value: for layers in f32, and dequantized from its codes.
#[derive(Debug)]
struct Values {
    float: String,
    coded: String,
}

impl Values {
    fn of(name: String) -> Self {
        Self { float: name.clone(), coded: name }
    }
}

/// The position of an operation in a file.
pub(crate) struct Node<'a> {
    graph: &'a mut protobuf::Graph,
    model: &'a QuantizedModel,
    layer: &'a QuantizedLayer,
    values: &'a [Values],
    name: String,
}

impl<'a> Node<'a> {
    pub(crate) const fn shapes(&self) -> &'a Shapes {
        &self.layer.shapes
    }

    /// A tensor that the operation reads.
    pub(crate) fn read(&self, position: usize) -> String {
        let values = &self.values[self.layer.inputs[position]];
        if self.layer.is_float() { values.float.clone() } else { values.coded.clone() }
    }

    /// The same in another shape.
    pub(crate) fn read_as(&mut self, position: usize, shape: &[usize]) -> String {
        let x = self.read(position);
        if self.shapes().x[position] == shape {
            return x;
        }
        self.reshaped(&x, shape, &format!("{}.{position}", self.name))
    }

    /// The same as an image, for operators with windows.
    pub(crate) fn read_image(&mut self, position: usize) -> String {
        let shape = &self.shapes().x[position];
        if shape.len() == 3 { self.read(position) } else { self.read_as(position, &plane(shape)) }
    }

    /// The same multiplied by a factor: codes are dequantized with another scale.
    pub(crate) fn read_scaled(&mut self, position: usize, factor: f32) -> String {
        let shape = if position == 0 { &self.shapes().x[0] } else { &self.shapes().y };
        if self.layer.is_float() {
            let x = self.read_as(position, shape);
            let factor = self.constant(&format!(".{position}"), factor);
            return self.push("Mul", &[&x, &factor], &format!(".{position}.scaled"), vec![]);
        }
        if factor == 1.0 {
            return self.read_as(position, shape);
        }
        let tensor = self.layer.inputs[position];
        let scaled = format!(".scaled{position}");
        let scale = self.constant(&scaled, self.model.schemes[tensor].scale() * factor);
        let [codes, zero] = ["codes", "zero"].map(|part| format!("t{tensor}.{part}"));
        let x = self.push("DequantizeLinear", &[&codes, &scale, &zero], &scaled, vec![]);
        if self.shapes().x[position] == *shape { x } else { self.reshaped(&x, shape, &x) }
    }

    /// Weights and bias, with a shape for each output's weights.
    pub(crate) fn parameters(&mut self, each: &[usize]) -> [String; 2] {
        let layer = self.layer;
        match layer.form.coded_weights() {
            Some((weights, _)) => self.codes(&weights, each),
            None => {
                let Parameters { weights, bias } = layer.form.float_parameters();
                let shape = [&[bias.len()], each].concat();
                [("weights", weights, &shape[..]), ("bias", bias, &shape[..1])].map(
                    |(part, values, shape)| {
                        let name = format!("{}.{part}", self.name);
                        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                        self.initializer(Tensor::new(&name, Element::F32, shape, bytes));
                        name
                    },
                )
            }
        }
    }

    /// Weights and bias, as integers that are dequantized.
    fn codes(&mut self, weights: &QuantizedWeights, each: &[usize]) -> [String; 2] {
        let channels = weights.channels();
        let shape = [&[channels], each].concat();
        let values = weights.values().iter().map(|&value| value as u8).collect();
        let bias = weights.bias().iter().flat_map(|bias| bias.to_le_bytes()).collect();
        let of_bias: Vec<f32> =
            weights.scales().iter().map(|scale| scale * weights.input().scale()).collect();
        let codes: [(_, _, _, Vec<u8>, _); 2] = [
            ("weights", Element::I8, &shape[..], values, weights.scales()),
            ("bias", Element::I32, &shape[..1], bias, &of_bias[..]),
        ];
        codes.map(|(part, element, shape, bytes, scales)| {
            let [codes, scale, zero, real] = ["codes", "scale", "zero", "real"]
                .map(|kind| format!("{}.{part}.{kind}", self.name));
            let scales = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
            // onnxruntime has integer kernels for weights whose zero points are written out.
            let zeros = vec![0; channels * bytes.len() / shape.iter().product::<usize>()];
            self.initializer(Tensor::new(&codes, element, shape, bytes));
            self.initializer(Tensor::new(&scale, Element::F32, &[channels], scales));
            self.initializer(Tensor::new(&zero, element, &[channels], zeros));
            let axis = vec![("axis", Attribute::Integer(0))];
            self.add("DequantizeLinear", &[&codes, &scale, &zero], real, axis)
        })
    }

    /// An operator over an image, whose value has the layer's shape.
    pub(crate) fn image(
        &mut self,
        operator: &str,
        inputs: &[&str],
        attributes: Vec<(&str, Attribute)>,
    ) -> String {
        let y = self.push(operator, inputs, "", attributes);
        let shape = &self.shapes().y;
        if shape.len() == 3 { y } else { self.reshaped(&y, shape, &y) }
    }

    /// Adds the limits of the layer's output, if it has some.
    fn clipped(&mut self, value: String, clip: Clip) -> String {
        let cut = format!("{value}.cut");
        match clip.limits() {
            _ if clip.is_identity() => value,
            [0.0, f32::INFINITY] => self.add("Relu", &[&value], cut, vec![]),
            limits => {
                // An input without a name is left out.
                let [low, high] =
                    [(".low", limits[0]), (".high", limits[1])].map(|(end, limit)| {
                        if limit.is_finite() { self.constant(end, limit) } else { String::new() }
                    });
                self.add("Clip", &[&value, &low, &high], cut, vec![])
            }
        }
    }

    /// Adds an operator; the name of its value is the layer's name with a suffix.
    pub(crate) fn push(
        &mut self,
        operator: &str,
        inputs: &[&str],
        end: &str,
        attributes: Vec<(&str, Attribute)>,
    ) -> String {
        self.add(operator, inputs, format!("{}{end}", self.name), attributes)
    }

    /// A number.
    pub(crate) fn constant(&mut self, end: &str, value: f32) -> String {
        let name = format!("{}{end}.constant", self.name);
        self.initializer(Tensor::new(&name, Element::F32, &[], value.to_le_bytes().to_vec()));
        name
    }

    /// A list of numbers.
    pub(crate) fn reals(&mut self, end: &str, values: &[f32]) -> String {
        let name = format!("{}{end}", self.name);
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.initializer(Tensor::new(&name, Element::F32, &[values.len()], bytes));
        name
    }

    /// A list of integers.
    pub(crate) fn integers(&mut self, end: &str, values: &[i64]) -> String {
        let name = format!("{}{end}", self.name);
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.initializer(Tensor::new(&name, Element::I64, &[values.len()], bytes));
        name
    }

    /// The biases of a layer in f32 as a constant of a sample's shape.
    pub(crate) fn numbers(&mut self, shape: &[usize]) -> String {
        let name = format!("{}.numbers", self.name);
        let bias = &self.layer.form.float_parameters().bias;
        let bytes = bias.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.initializer(Tensor::new(&name, Element::F32, &[&[1], shape].concat(), bytes));
        name
    }

    /// A value of the layer in a sample's shape.
    pub(crate) fn shaped(&mut self, x: &str, shape: &[usize]) -> String {
        self.reshaped(x, shape, x)
    }

    fn reshaped(&mut self, x: &str, shape: &[usize], name: &str) -> String {
        let tensor = shape_of(&format!("{name}.shape"), shape);
        self.initializer(tensor);
        self.add("Reshape", &[x, &format!("{name}.shape")], format!("{name}.shaped"), vec![])
    }

    fn initializer(&mut self, tensor: Tensor) {
        self.graph.initializer.push(tensor);
    }

    fn add(
        &mut self,
        operator: &str,
        inputs: &[&str],
        output: String,
        attributes: Vec<(&str, Attribute)>,
    ) -> String {
        self.graph.add(operator, inputs, output, attributes)
    }
}

impl protobuf::Graph {
    /// Adds an operator with one output, which is also its name.
    fn add(
        &mut self,
        operator: &str,
        inputs: &[&str],
        output: String,
        attributes: Vec<(&str, Attribute)>,
    ) -> String {
        let attributes = attributes.into_iter();
        self.node.push(protobuf::Node {
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![output.clone()],
            name: output.clone(),
            op_type: operator.to_owned(),
            attribute: attributes.map(|(name, value)| AttributeField::new(name, value)).collect(),
        });
        output
    }
}

/// Quantizes and dequantizes a value; returns the name of the result.
fn coded(
    graph: &mut protobuf::Graph,
    value: &str,
    scheme: ActivationScheme,
    tensor: usize,
) -> String {
    let [scale, zero, codes, real] =
        ["scale", "zero", "codes", "real"].map(|part| format!("t{tensor}.{part}"));
    let bytes = scheme.scale().to_le_bytes().to_vec();
    graph.initializer.push(Tensor::new(&scale, Element::F32, &[], bytes));
    graph.initializer.push(Tensor::new(&zero, Element::U8, &[], vec![scheme.zero_point()]));
    graph.add("QuantizeLinear", &[value, &scale, &zero], codes.clone(), vec![]);
    graph.add("DequantizeLinear", &[&codes, &scale, &zero], real, vec![])
}

/// A shape for `Reshape`, whose first axis is kept.
fn shape_of(name: &str, shape: &[usize]) -> Tensor {
    let sides = std::iter::once(0).chain(shape.iter().map(|&side| side as i64));
    let bytes = sides.flat_map(i64::to_le_bytes).collect();
    Tensor::new(name, Element::I64, &[1 + shape.len()], bytes)
}
