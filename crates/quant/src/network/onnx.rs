//! A quantized model as an ONNX file of `QuantizeLinear` and `DequantizeLinear` pairs.

use updraft_conv::slices::ConvGeometry;

use super::layer::{Kernel, Source};
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
    /// turn into integer kernels.
    ///
    /// The last layer's answer is `[batch, features]` if it is a fully connected one.
    #[must_use]
    pub fn to_onnx(&self) -> Vec<u8> {
        let mut model = Model::new("updraft-quant");
        let mut values = vec![coded(&mut model, "image", self.schemes[0], "t0")];
        for (index, layer) in self.layers.iter().enumerate() {
            let inputs: Vec<String> =
                layer.inputs.iter().map(|&tensor| values[tensor].clone()).collect();
            let name = format!("layer{index}");
            let is_last = index + 1 == self.layers.len();
            let mut value = match &layer.source {
                Source::Add => {
                    model.node("Add", &[&inputs[0], &inputs[1]], &name, &[]);
                    name
                }
                Source::Pool { geometry, pooling } => {
                    let mut attributes = window(geometry);
                    let operator = match pooling {
                        Pooling::Maximum => "MaxPool",
                        Pooling::MeanOfImage | Pooling::MeanWithPadding => {
                            let counts = i64::from(*pooling == Pooling::MeanWithPadding);
                            attributes.push(("count_include_pad", Attribute::Integer(counts)));
                            "AveragePool"
                        }
                    };
                    model.node(operator, &[&inputs[0]], &name, &attributes);
                    name
                }
                Source::Convolution { geometry, weights } => {
                    let shape = geometry.shape();
                    let each = [shape.channels[0] / shape.groups, shape.kernel[0], shape.kernel[1]];
                    let [w, b] = parameters(&mut model, &name, weights, &each);
                    let mut attributes = window(geometry);
                    attributes.push(("group", Attribute::Integer(shape.groups as i64)));
                    model.node("Conv", &[&inputs[0], &w, &b], &name, &attributes);
                    name
                }
                Source::Linear { weights } => {
                    let flat = format!("{name}.flat");
                    model.node("Flatten", &[&inputs[0]], &flat, &[]);
                    let [w, b] = parameters(&mut model, &name, weights, &[weights.each()]);
                    let attributes = [("transB", Attribute::Integer(1))];
                    model.node("Gemm", &[&flat, &w, &b], &name, &attributes);
                    // The next layer of images would not know a row of numbers.
                    if matches!(layer.kernel, Kernel::Answer(_)) || is_last {
                        name
                    } else {
                        let [channels, height, width] = self.shapes[index + 1];
                        let shape = [0, channels as i64, height as i64, width as i64];
                        let (shape_name, image) =
                            (format!("{name}.shape"), format!("{name}.image"));
                        model.initializer(&shape_name, &Tensor::integers(&shape));
                        model.node("Reshape", &[&name, &shape_name], &image, &[]);
                        image
                    }
                }
            };
            if layer.is_rectified {
                let cut = format!("{value}.cut");
                model.node("Relu", &[&value], &cut, &[]);
                value = cut;
            }
            if !matches!(layer.kernel, Kernel::Answer(_)) {
                value =
                    coded(&mut model, &value, self.schemes[index + 1], &format!("t{}", index + 1));
            }
            values.push(value);
        }
        let [image, answer] = self.shapes();
        let is_flat =
            matches!(self.layers.last().map(|layer| &layer.source), Some(Source::Linear { .. }));
        let answer = if is_flat { &answer[..1] } else { &answer[..] };
        model.node("Identity", &[&values[self.layers.len()]], "answer", &[]);
        model.finish(("image", &image), ("answer", answer))
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
        ("weights", Tensor::new(Element::I8, &shape, &bytes), weights.scales()),
        ("bias", Tensor::new(Element::I32, &[channels], &bias), of_bias.as_slice()),
    ];
    codes.map(|(part, tensor, scales)| {
        let [codes, scale, real] =
            ["codes", "scale", "real"].map(|kind| format!("{name}.{part}.{kind}"));
        let scales: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        model.initializer(&codes, &tensor);
        model.initializer(&scale, &Tensor::new(Element::F32, &[channels], &scales));
        let attributes = [("axis", Attribute::Integer(0))];
        model.node("DequantizeLinear", &[&codes, &scale], &real, &attributes);
        real
    })
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
