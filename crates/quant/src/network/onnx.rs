//! A quantized model as an ONNX file of `QuantizeLinear` and `DequantizeLinear` pairs.

use updraft_conv::slices::ConvGeometry;

use super::function::{Binary, Function, Line, Unary};
use super::fuse::Work;
use super::layer::{Kernel, QuantizedLayer, Source};
use super::model::QuantizedModel;
use super::protobuf::{Attribute, Element, Model, Tensor};
use crate::kernels::Pooling;
use crate::scheme::ActivationScheme;
use crate::weights::QuantizedWeights;

impl QuantizedModel {
    /// The model as the bytes of an ONNX file, operator set 19.
    ///
    /// Input `image`, `[batch, channels, height, width]`, and output `answer` are f32. Every tensor
    /// between layers passes a `QuantizeLinear` and a `DequantizeLinear` with its scheme, weights
    /// and biases a `DequantizeLinear` with one scale for each channel: the form that runtimes
    /// turn into integer kernels. Layers that stay in f32 are written in f32;
    /// onnxruntime's optimizer quantizes the weights of those that stand between codes by itself,
    /// unless its optimizations are switched off. A convolution that adds the other summand of a
    /// residual sum has no codes behind it, so that other runtimes compute it in f32;
    /// [`Quantization::separate_sums`](crate::Quantization::separate_sums) keeps the two apart.
    ///
    /// The last layer's answer is `[batch, features]` if it is a fully connected one.
    #[must_use]
    pub fn to_onnx(&self) -> Vec<u8> {
        let mut model = Model::new("updraft-quant");
        let mut values = vec![Values::of(coded(&mut model, "image", self.schemes[0], "t0"))];
        for index in 0..self.layers.len() {
            let given = self.layer_to_onnx(&mut model, index, &values);
            values.push(given);
        }
        let [image, answer] = self.shapes();
        let answer = if self.ends_flat() { &answer[..1] } else { &answer[..] };
        model.node("Identity", &[&values[self.layers.len()].float], "answer", &[]);
        model.finish(("image", &image), ("answer", answer))
    }

    /// Whether the answer is a row of numbers.
    fn ends_flat(&self) -> bool {
        self.layers.last().is_some_and(|layer| match &layer.source {
            Source::Linear { .. } => true,
            Source::Float { step, .. } => matches!(step.work, Work::Linear { .. }),
            _ => false,
        })
    }

    /// Adds the nodes of a layer.
    fn layer_to_onnx(&self, model: &mut Model, index: usize, values: &[Values]) -> Values {
        let layer = &self.layers[index];
        let name = format!("layer{index}");
        let read = |position: usize| {
            let values = &values[layer.inputs[position]];
            if layer.is_float() { values.float.clone() } else { values.coded.clone() }
        };
        let flat = format!("{name}.flat");
        let mut value = match &layer.source {
            Source::Add { factors } => {
                let both: Vec<String> = (0..2)
                    .map(|position| self.summand(model, layer, position, factors[position], &name))
                    .collect();
                sum(model, [&both[0], &both[1]], name)
            }
            Source::Convolution { geometry, weights, addend } => {
                let [w, b] = parameters(model, &name, weights, &kernel_of(geometry));
                model.node("Conv", &[&read(0), &w, &b], &name, &convolution(geometry));
                match addend {
                    None => name,
                    Some(factor) => {
                        let other = self.summand(model, layer, 1, *factor, &name);
                        sum(model, [&name, &other], format!("{name}.sum"))
                    }
                }
            }
            Source::Linear { weights } => {
                model.node("Flatten", &[&read(0)], &flat, &[]);
                let [w, b] = parameters(model, &name, weights, &[weights.each()]);
                model.node("Gemm", &[&flat, &w, &b], &name, &TRANSPOSED);
                self.as_image(model, index, name)
            }
            Source::Float { step, .. } => match &step.work {
                Work::Convolution { geometry, weights, bias, addend } => {
                    let each = kernel_of(geometry);
                    let [w, b] = float_parameters(model, &name, weights, bias, &each);
                    model.node("Conv", &[&read(0), &w, &b], &name, &convolution(geometry));
                    match addend {
                        None => name,
                        Some(factor) => {
                            let other = scaled(model, &read(1), *factor, &format!("{name}.1"));
                            sum(model, [&name, &other], format!("{name}.sum"))
                        }
                    }
                }
                Work::Linear { weights, bias } => {
                    model.node("Flatten", &[&read(0)], &flat, &[]);
                    let each = [weights.len() / bias.len()];
                    let [w, b] = float_parameters(model, &name, weights, bias, &each);
                    model.node("Gemm", &[&flat, &w, &b], &name, &TRANSPOSED);
                    self.as_image(model, index, name)
                }
                Work::Add { factors } => {
                    let [a, b] = [0, 1].map(|position| {
                        let of_summand = format!("{name}.{position}");
                        scaled(model, &read(position), factors[position], &of_summand)
                    });
                    sum(model, [&a, &b], name)
                }
                Work::Pool { geometry, pooling } => pool(model, geometry, *pooling, &read(0), name),
                Work::Function(function) => program(model, function, &read(0), name),
                Work::Multiply => multiplied(model, [&read(0), &read(1)], name),
                Work::Concatenate => joined(model, layer.inputs.len(), read, name),
                Work::Softmax => {
                    model.node("Softmax", &[&read(0)], &name, &[("axis", Attribute::Integer(1))]);
                    name
                }
            },
            Source::Pool { geometry, pooling } => pool(model, geometry, *pooling, &read(0), name),
            Source::Function(function) => program(model, function, &read(0), name),
            Source::Multiply => multiplied(model, [&read(0), &read(1)], name),
            Source::Concatenate => joined(model, layer.inputs.len(), read, name),
        };
        if layer.is_rectified {
            let cut = format!("{value}.cut");
            model.node("Relu", &[&value], &cut, &[]);
            value = cut;
        }
        // Codes that nobody reads tell other runtimes that the numbers may be rounded to them.
        let stays_real = layer.is_float() && !self.is_read_as_codes(index + 1);
        if matches!(layer.kernel, Kernel::Answer(_)) || stays_real {
            return Values::of(value);
        }
        let tensor = format!("t{}", index + 1);
        let coded = coded(model, &value, self.schemes[index + 1], &tensor);
        if layer.is_float() { Values { float: value, coded } } else { Values::of(coded) }
    }

    /// A summand multiplied by its factor: its codes, taken back by another scale.
    fn summand(
        &self,
        model: &mut Model,
        layer: &QuantizedLayer,
        position: usize,
        factor: f32,
        name: &str,
    ) -> String {
        let tensor = layer.inputs[position];
        if factor == 1.0 {
            return format!("t{tensor}.real");
        }
        let scheme = self.schemes[tensor];
        let scaled = format!("{name}.scaled{position}");
        let scale = constant(model, &scaled, scheme.scale() * factor);
        let [codes, zero] = ["codes", "zero"].map(|part| format!("t{tensor}.{part}"));
        model.node("DequantizeLinear", &[&codes, &scale, &zero], &scaled, &[]);
        scaled
    }

    /// A row of numbers as an image of one pixel, which layers of images know.
    fn as_image(&self, model: &mut Model, index: usize, name: String) -> String {
        if index + 1 == self.layers.len() {
            return name;
        }
        let [channels, height, width] = self.shapes[index + 1];
        let shape = [0, channels as i64, height as i64, width as i64];
        let (shape_name, image) = (format!("{name}.shape"), format!("{name}.image"));
        model.initializer(&shape_name, &Tensor::integers(&shape));
        model.node("Reshape", &[&name, &shape_name], &image, &[]);
        image
    }
}

/// The names of a tensor's value: as layers in f32 read it, and through its codes.
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

const TRANSPOSED: [(&str, Attribute); 1] = [("transB", Attribute::Integer(1))];

/// A number, given by the name.
fn constant(model: &mut Model, name: &str, value: f32) -> String {
    let name = format!("{name}.constant");
    model.initializer(&name, &Tensor::new(Element::F32, &[], &value.to_le_bytes()));
    name
}

fn pool(
    model: &mut Model,
    geometry: &ConvGeometry,
    pooling: Pooling,
    x: &str,
    name: String,
) -> String {
    let mut attributes = window(geometry);
    let operator = match pooling {
        Pooling::Maximum => "MaxPool",
        Pooling::MeanOfImage | Pooling::MeanWithPadding => {
            let counts = i64::from(pooling == Pooling::MeanWithPadding);
            attributes.push(("count_include_pad", Attribute::Integer(counts)));
            "AveragePool"
        }
    };
    model.node(operator, &[x], &name, &attributes);
    name
}

/// A value in f32 multiplied by a factor.
fn scaled(model: &mut Model, x: &str, factor: f32, name: &str) -> String {
    let factor = constant(model, name, factor);
    let scaled = format!("{name}.scaled");
    model.node("Mul", &[x, &factor], &scaled, &[]);
    scaled
}

fn sum(model: &mut Model, [a, b]: [&str; 2], name: String) -> String {
    model.node("Add", &[a, b], &name, &[]);
    name
}

fn multiplied(model: &mut Model, [a, b]: [&str; 2], name: String) -> String {
    model.node("Mul", &[a, b], &name, &[]);
    name
}

fn joined(model: &mut Model, count: usize, read: impl Fn(usize) -> String, name: String) -> String {
    let inputs: Vec<String> = (0..count).map(read).collect();
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    model.node("Concat", &inputs, &name, &[("axis", Attribute::Integer(1))]);
    name
}

/// A function, one operator a line.
fn program(model: &mut Model, function: &Function, x: &str, name: String) -> String {
    let mut values: Vec<String> = Vec::new();
    for (index, line) in function.lines().iter().enumerate() {
        let value = format!("{name}.{index}");
        let given = match *line {
            Line::X => x.to_owned(),
            Line::Constant(number) => constant(model, &value, number),
            Line::Unary(operation, a) => {
                model.node(unary(operation), &[&values[a]], &value, &[]);
                value
            }
            Line::Binary(Binary::Greater, [a, b]) => {
                let truth = format!("{value}.truth");
                model.node("Greater", &[&values[a], &values[b]], &truth, &[]);
                model.node("Cast", &[&truth], &value, &[("to", Attribute::Integer(1))]);
                value
            }
            Line::Binary(operation, [a, b]) => {
                model.node(binary(operation), &[&values[a], &values[b]], &value, &[]);
                value
            }
            Line::Choose([condition, yes, no]) => {
                let truth = format!("{value}.truth");
                // 9 is ONNX's number of the Boolean type.
                model.node("Cast", &[&values[condition]], &truth, &[("to", Attribute::Integer(9))]);
                model.node("Where", &[&truth, &values[yes], &values[no]], &value, &[]);
                value
            }
        };
        values.push(given);
    }
    values.pop().expect("a function has a line")
}

const fn unary(operation: Unary) -> &'static str {
    match operation {
        Unary::Rectifier => "Relu",
        Unary::Sigmoid => "Sigmoid",
        Unary::Tanh => "Tanh",
        Unary::Exponential => "Exp",
        Unary::Logarithm => "Log",
        Unary::SquareRoot => "Sqrt",
        Unary::Erf => "Erf",
        Unary::Absolute => "Abs",
        Unary::Negative => "Neg",
        Unary::Reciprocal => "Reciprocal",
    }
}

const fn binary(operation: Binary) -> &'static str {
    match operation {
        Binary::Add => "Add",
        Binary::Subtract => "Sub",
        Binary::Multiply => "Mul",
        Binary::Divide => "Div",
        Binary::Minimum => "Min",
        Binary::Maximum => "Max",
        Binary::Greater => "Greater",
        Binary::Power => "Pow",
    }
}

/// Quantizes a value and takes it back; gives the name of the latter.
fn coded(model: &mut Model, value: &str, scheme: ActivationScheme, name: &str) -> String {
    let [scale, zero, codes, real] =
        ["scale", "zero", "codes", "real"].map(|part| format!("{name}.{part}"));
    model.initializer(&scale, &Tensor::new(Element::F32, &[], &scheme.scale().to_le_bytes()));
    model.initializer(&zero, &Tensor::new(Element::U8, &[], &[scheme.zero_point()]));
    model.node("QuantizeLinear", &[value, &scale, &zero], &codes, &[]);
    model.node("DequantizeLinear", &[&codes, &scale, &zero], &real, &[]);
    real
}

/// Weights and bias, as integers that are taken back; gives their names.
fn parameters(
    model: &mut Model,
    name: &str,
    weights: &QuantizedWeights,
    each: &[usize],
) -> [String; 2] {
    let channels = weights.channels();
    let mut shape = vec![channels];
    shape.extend(each);
    let bytes: Vec<u8> = weights.values().iter().map(|&value| value as u8).collect();
    let bias: Vec<u8> = weights.bias().iter().flat_map(|bias| bias.to_le_bytes()).collect();
    let of_bias: Vec<f32> =
        weights.scales().iter().map(|scale| scale * weights.input().scale()).collect();
    let codes = [
        ("weights", Element::I8, shape, bytes, weights.scales()),
        ("bias", Element::I32, vec![channels], bias, of_bias.as_slice()),
    ];
    codes.map(|(part, element, shape, bytes, scales)| {
        let [codes, scale, zero, real] =
            ["codes", "scale", "zero", "real"].map(|kind| format!("{name}.{part}.{kind}"));
        let scales: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        // onnxruntime has integer kernels for weights whose zero points are written out.
        let zeros = vec![0; channels * bytes.len() / shape.iter().product::<usize>()];
        model.initializer(&codes, &Tensor::new(element, &shape, &bytes));
        model.initializer(&scale, &Tensor::new(Element::F32, &[channels], &scales));
        model.initializer(&zero, &Tensor::new(element, &[channels], &zeros));
        let attributes = [("axis", Attribute::Integer(0))];
        model.node("DequantizeLinear", &[&codes, &scale, &zero], &real, &attributes);
        real
    })
}

/// Weights and bias in f32; gives their names.
fn float_parameters(
    model: &mut Model,
    name: &str,
    weights: &[f32],
    bias: &[f32],
    each: &[usize],
) -> [String; 2] {
    let mut shape = vec![bias.len()];
    shape.extend(each);
    [("weights", weights, shape), ("bias", bias, vec![bias.len()])].map(|(part, values, shape)| {
        let part = format!("{name}.{part}");
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        model.initializer(&part, &Tensor::new(Element::F32, &shape, &bytes));
        part
    })
}

/// What each output channel's weights are shaped like.
fn kernel_of(geometry: &ConvGeometry) -> [usize; 3] {
    let shape = geometry.shape();
    [shape.channels[0] / shape.groups, shape.kernel[0], shape.kernel[1]]
}

fn convolution(geometry: &ConvGeometry) -> Vec<(&'static str, Attribute)> {
    let mut attributes = window(geometry);
    attributes.push(("group", Attribute::Integer(geometry.shape().groups as i64)));
    attributes
}

fn window(geometry: &ConvGeometry) -> Vec<(&'static str, Attribute)> {
    let shape = geometry.shape();
    let both = |numbers: [usize; 2]| Attribute::Integers(numbers.map(|n| n as i64).to_vec());
    let pads = [shape.padding, shape.padding].concat().into_iter().map(|n| n as i64).collect();
    let mut attributes = vec![
        ("kernel_shape", both(shape.kernel)),
        ("strides", both(shape.stride)),
        ("pads", Attribute::Integers(pads)),
    ];
    // onnxruntime's integer mean knows no dilation, not even of 1.
    if shape.dilation != [1, 1] {
        attributes.push(("dilations", both(shape.dilation)));
    }
    attributes
}
