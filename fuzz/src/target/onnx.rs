//! ONNX files in QDQ form.

use updraft_quant::slices::{Pooling, Resizing};
use updraft_quant::{
    Binary, Calibration, Function, Graph, GraphError, Quantization, QuantizedModel, Unary, Window,
};

/// What is read is written and read again, as a file of this crate.
pub(super) fn model(bytes: &[u8]) {
    if let Ok(model) = QuantizedModel::from_onnx(bytes) {
        let written = model.to_bytes();
        let again = QuantizedModel::try_from_bytes(&written).expect("it was written");
        assert_eq!(again.to_bytes(), written);
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let samples: Vec<f32> = (0..64).map(|i| (i * 37 % 64) as f32 / 32.0 - 1.0).collect();
    let mut files = Vec::new();
    for graph in [image(), row(), tokens()] {
        let graph = graph.expect("a network");
        for by in [Quantization::new(Calibration::MinMax), keeping("first")] {
            let model = QuantizedModel::try_quantize(&graph, [samples.as_slice()], by);
            files.push(model.expect("a model").to_onnx().expect("no layer is burn's"));
        }
    }
    files.extend(repeated());
    files
}

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let len = if len < 128 { vec![len as u8] } else { vec![len as u8 | 128, (len >> 7) as u8] };
    [&[(number << 3) | 2][..], &len, content].concat()
}

/// Small files with a constant, a function, axes or attributes that many nodes read or have, and one
/// that computes a shape and takes places of axes.
fn repeated() -> Vec<Vec<u8>> {
    let node = |operation: &str, inputs: &[&str], output: &str, end: &[u8]| {
        let inputs: Vec<u8> = inputs.iter().flat_map(|name| field(1, name.as_bytes())).collect();
        let own = [field(2, output.as_bytes()), field(4, operation.as_bytes())].concat();
        field(1, &[&inputs[..], &own, end].concat())
    };
    // `x` of a batch and so many axes of two numbers.
    let input = |axes: usize| {
        let sides = [field(1, &field(2, b"n")), field(1, &[8, 2]).repeat(axes)].concat();
        let kind = field(1, &[&[8, 1][..], &field(2, &sides)].concat());
        field(11, &[field(1, b"x"), field(2, &kind)].concat())
    };
    let constant = |name: &str, element: u8, sides: &[u8], raw: &[u8]| {
        let sides: Vec<u8> = sides.iter().flat_map(|&side| [8, side]).collect();
        let named = [field(8, name.as_bytes()), field(9, raw)].concat();
        field(5, &[&sides[..], &[16, element], &named].concat())
    };
    let ones = [1.0_f32.to_le_bytes(); 2].concat();
    let c = constant("c", 1, &[2], &ones);
    let name = |at: usize| format!("n{at}");
    let norm = |at: usize| node("BatchNormalization", &["x", "c", "c", "c", "c"], &name(at), &[]);
    let dequantize = |at: usize| node("DequantizeLinear", &["codes", "c"], &name(at), &[]);
    let negative = |at: usize| {
        let read = if at == 0 { "x".to_owned() } else { name(at.min(10) - 1) };
        node("Neg", &[&read], &name(at), &[])
    };
    let attributes = field(5, &[]).repeat(20);
    let list = |name: &str, values: &[i64]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        constant(name, 7, &[values.len() as u8], &bytes)
    };
    let axis = |axis: u8| field(5, &[&field(1, b"axis")[..], &[24, axis, 160, 1, 2]].concat());
    let output = |name: &str| field(12, &field(1, name.as_bytes()));
    let shapes = [
        input(3),
        constant("half", 1, &[], &0.5_f32.to_le_bytes()),
        list("zero", &[0]),
        list("one", &[1]),
        list("end", &[i64::MAX]),
        list("rest", &[2, -1]),
        list("wide", &[1, 2, 1, 3]),
        list("pads", &[0, 0, 1, 0, 0, 0, 2, 0]),
        node("QuantizeLinear", &["x", "half"], "codes", &[]),
        node("DequantizeLinear", &["codes", "half"], "r", &[]),
        node("Shape", &["r"], "s", &[]),
        node("Gather", &["s", "zero"], "b", &[]),
        node("Slice", &["s", "one", "end", "zero"], "sides", &[]),
        node("Concat", &["b", "rest"], "to", &axis(0)),
        node("Reshape", &["r", "to"], "flat", &[]),
        node("Slice", &["r", "zero", "one", "one"], "part", &[]),
        node("Split", &["part", "one"], "whole", &axis(1)),
        node("Gather", &["r", "one"], "row", &axis(3)),
        node("Unsqueeze", &["flat", "one"], "more", &[]),
        node("Squeeze", &["more", "one"], "less", &[]),
        node("Expand", &["row", "wide"], "repeated", &[]),
        node("Pad", &["r", "pads"], "padded", &[]),
        node("Relu", &["padded"], "y", &[]),
        output("whole"),
        output("less"),
        output("repeated"),
        output("y"),
    ];
    let all = |of: &dyn Fn(usize) -> Vec<u8>| (0..20).flat_map(of).collect::<Vec<u8>>();
    let graphs = [
        [input(1), c.clone(), all(&norm)].concat(),
        [input(1), c, constant("codes", 3, &[2, 0], &[]), all(&dequantize)].concat(),
        [input(9), node("Relu", &["x"], "y", &[])].concat(),
        [input(1), all(&negative)].concat(),
        [input(1), node("Relu", &["x"], "y", &attributes)].concat(),
        shapes.concat(),
    ];
    // The operator set 13.
    graphs.iter().map(|graph| [field(7, graph), field(8, &[16, 13])].concat()).collect()
}

fn keeping(layer: &str) -> Quantization {
    Quantization::new(Calibration::MinMax).separate_sums().keep([layer])
}

fn ramp(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i % 7) as f32 - 3.0).collect()
}

fn image() -> Result<Graph, GraphError> {
    let mut graph = Graph::new();
    let image = graph.input("x", &[2, 4, 4])?;
    let same = Window { padding: [1; 2], ..Window::new([3; 2]) };
    let half = Window { stride: [2; 2], ..Window::new([2; 2]) };
    let maps = graph.convolution("first", image, same, 1, &ramp(36), &[0.5, -0.5])?;
    let sum = graph.add("sum", maps, image)?;
    let sum = graph.rectifier("relu", sum);
    let most = graph.pool("most", sum, half, Pooling::Maximum)?;
    let large = graph.resize("large", most, [4, 4], Resizing::Nearest)?;
    let both = graph.concatenate("both", &[large, sum], 0)?;
    let mean = graph.pool("mean", both, Window::new([4; 2]), Pooling::MeanOfImage)?;
    graph.linear("y", mean, &ramp(12), &ramp(3))?;
    Ok(graph)
}

fn tokens() -> Result<Graph, GraphError> {
    let mut graph = Graph::new();
    let line = graph.input("x", &[2, 4])?;
    let normal = graph.normalize("norm", line, 1e-3)?;
    let wide = graph.convolution("first", normal, Window::new([1; 2]), 1, &ramp(8), &ramp(4))?;
    let heads = graph.rearrange("heads", wide, &[2, 4, 2], &[[2, 8], [4, 1], [2, 4]], 0)?;
    let scores = graph.matrix_product("scores", heads, heads, [false, true])?;
    let shares = graph.softmax("shares", scores, 2)?;
    let mixed = graph.matrix_product("mixed", shares, heads, [false; 2])?;
    let back = graph.rearrange("back", mixed, &[4, 4], &[[2, 8], [2, 1], [4, 2]], 0)?;
    let more = graph.extend("token", back, &ramp(4), false)?;
    let placed = graph.shift("positions", more, &ramp(20))?;
    let padded = graph.pad("padded", placed, &[0, 1], &[0, 0])?;
    graph.linear("y", padded, &ramp(48), &ramp(2))?;
    Ok(graph)
}

fn row() -> Result<Graph, GraphError> {
    let mut graph = Graph::new();
    let row = graph.input("x", &[8])?;
    let hidden = graph.linear("first", row, &ramp(32), &ramp(4))?;
    let x = Function::identity();
    let silu = Function::binary(Binary::Multiply, &x, &x.then(Unary::Sigmoid));
    let curved = graph.function("curved", hidden, &silu)?;
    let product = graph.multiply("product", curved, hidden)?;
    graph.linear("y", product, &ramp(8), &ramp(2))?;
    Ok(graph)
}
