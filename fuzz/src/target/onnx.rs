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
    for graph in [image(), row()] {
        let graph = graph.expect("a network");
        for by in [Quantization::new(Calibration::MinMax), keeping("first")] {
            let model = QuantizedModel::try_quantize(&graph, [samples.as_slice()], by);
            files.push(model.expect("a model").to_onnx().expect("no layer is burn's"));
        }
    }
    files
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
