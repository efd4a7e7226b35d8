//! Files of networks in eight bits.

use std::collections::HashMap;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use sha2::{Digest, Sha256};
use updraft_quant::slices::{Pooling, Resizing};
use updraft_quant::{
    Binary, Calibration, Function, Graph, GraphError, Quantization, QuantizedModel, Unary,
    WeightFormat, Window,
};

/// The key of the header in a file's metadata, and the tensor with the hash of everything else.
const KEY: &str = "updraft-quant";
const HASH: &str = "sha256";

/// Any bytes as a file, and as a header, a zero, and a file of tensors, joined with the hash that
/// fits them: so an input stays a whole file when its header changes.
pub(super) fn model(bytes: &[u8]) {
    read(bytes);
    let Some(end) = bytes.iter().position(|&byte| byte == 0) else { return };
    let (header, tensors) = (&bytes[..end], &bytes[end + 1..]);
    if let (Ok(header), Ok(tensors)) =
        (std::str::from_utf8(header), SafeTensors::deserialize(tensors))
    {
        read(&sealed(header, &tensors));
    }
}

/// What is read is written to be read again.
fn read(bytes: &[u8]) {
    if let Ok(model) = QuantizedModel::try_from_bytes(bytes) {
        let written = model.to_bytes();
        let again = QuantizedModel::try_from_bytes(&written).expect("it was written");
        assert_eq!(again.to_bytes(), written);
    }
}

fn sealed(header: &str, tensors: &SafeTensors<'_>) -> Vec<u8> {
    let mut tensors = tensors.tensors();
    tensors.retain(|(name, _)| name != HASH);
    tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut hash = Sha256::new();
    hash.update(header);
    for (name, tensor) in &tensors {
        hash.update(name);
        hash.update(tensor.data());
    }
    let hash = hash.finalize();
    let hash = TensorView::new(Dtype::U8, vec![32], &hash).expect("32 bytes");
    tensors.push((HASH.to_owned(), hash));
    let metadata = HashMap::from([(KEY.to_owned(), header.to_owned())]);
    safetensors::serialize(tensors, Some(metadata)).expect("whole tensors")
}

/// A file as an input of [`model`].
fn parts(file: &[u8]) -> Vec<u8> {
    let tensors = SafeTensors::deserialize(file).expect("a file");
    let (_, metadata) = SafeTensors::read_metadata(file).expect("a file");
    let header = metadata.metadata().as_ref().and_then(|all| all.get(KEY)).expect("a header");
    let tensors = tensors.tensors().into_iter().filter(|(name, _)| name != HASH);
    let tensors = safetensors::serialize(tensors, None).expect("whole tensors");
    [header.as_bytes(), &[0], &tensors].concat()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let samples: Vec<f32> = (0..64).map(|i| (i * 37 % 64) as f32 / 32.0 - 1.0).collect();
    let packed = WeightFormat::try_new(4).and_then(|four| four.try_groups_of(2));
    let packed = packed.and_then(WeightFormat::try_asymmetric).expect("a format");
    let int8 = || Quantization::new(Calibration::MinMax);
    let mut files = Vec::new();
    for graph in [image(), blocks(), tokens(), curves()] {
        let graph = graph.expect("a network");
        for by in [int8(), int8().keep(["first"]), int8().weights(packed)] {
            let model = QuantizedModel::try_quantize(&graph, [samples.as_slice()], by);
            files.push(model.expect("a model").to_bytes());
        }
    }
    let whole = files[0].clone();
    files.iter().map(|file| parts(file)).chain([whole]).collect()
}

fn ramp(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i % 7) as f32 - 3.0).collect()
}

fn image() -> Result<Graph, GraphError> {
    let mut graph = Graph::new();
    let image = graph.input("image", &[2, 4, 4])?;
    let same = Window { padding: [1; 2], ..Window::new([3; 2]) };
    let half = Window { stride: [2; 2], ..Window::new([2; 2]) };
    let maps = graph.convolution("first", image, same, 1, &ramp(36), &[0.5, -0.5])?;
    let maps = graph.rectifier("relu", maps);
    let sum = graph.add("sum", maps, image)?;
    let deep = graph.convolution("depthwise", sum, same, 2, &ramp(18), &[0.0, 0.1])?;
    let most = graph.pool("most", deep, half, Pooling::Maximum)?;
    let large = graph.resize("large", most, [4, 4], Resizing::Linear)?;
    let both = graph.concatenate("both", &[large, sum], 0)?;
    let mean = graph.pool("mean", both, Window::new([4; 2]), Pooling::MeanOfImage)?;
    graph.linear("answer", mean, &ramp(12), &ramp(3))?;
    Ok(graph)
}

fn blocks() -> Result<Graph, GraphError> {
    let mut graph = Graph::new();
    let image = graph.input("image", &[2, 4, 4])?;
    let blocks = graph.convolution("first", image, Window::new([1; 2]), 1, &ramp(8), &ramp(4))?;
    let fine = graph.depth_to_space("fine", blocks, 2)?;
    let scaled = graph.affine("scaled", fine, &[0.5], &[0.25])?;
    graph.resize("near", scaled, [5, 7], Resizing::Nearest)?;
    Ok(graph)
}

fn tokens() -> Result<Graph, GraphError> {
    let mut graph = Graph::new();
    let line = graph.input("line", &[8, 4])?;
    let line = graph.affine("scaled", line, &ramp(8), &ramp(8))?;
    let line = graph.extend("class", line, &ramp(8), false)?;
    let line = graph.shift("places", line, &ramp(40))?;
    let line = graph.normalize("norm", line, 1e-5)?;
    let pairs = graph.matrix_product("pairs", line, line, [true, false])?;
    let shares = graph.softmax("shares", pairs, 1)?;
    let mixed = graph.matrix_product("mixed", line, shares, [false, true])?;
    let turned = graph.rearrange("turned", mixed, &[5, 8], &[[5, 1], [8, 5]], 0)?;
    graph.linear("first", turned, &ramp(80), &ramp(2))?;
    Ok(graph)
}

fn curves() -> Result<Graph, GraphError> {
    let mut graph = Graph::new();
    let row = graph.input("row", &[32])?;
    let hidden = graph.linear("first", row, &ramp(128), &ramp(4))?;
    let x = Function::identity();
    let silu = Function::binary(Binary::Multiply, &x, &x.then(Unary::Sigmoid));
    let above = Function::binary(Binary::Greater, &x, &Function::constant(1.0));
    let curved = graph.function("curved", hidden, &Function::choose(&above, &x, &silu))?;
    let product = graph.multiply("product", curved, hidden)?;
    let shares = graph.softmax("shares", product, 0)?;
    graph.output("shares", shares);
    let answer = graph.linear("answer", product, &ramp(8), &ramp(2))?;
    graph.output("answer", answer);
    Ok(graph)
}
