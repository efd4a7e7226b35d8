//! Writes a model's ONNX file with images and its own outputs for them, for
//! `crates/quant/tests/same_answers.py` to compare.
//!
//! `cargo run -p updraft-quant --example answers -- RUN/model.int8 FOLDER`; without a model it takes
//! networks of all operations, with random weights.

use std::error::Error;
use std::fs;
use std::path::Path as FilePath;

use updraft_quant::slices::{Isa, Pooling, Resizing};
use updraft_quant::{
    Binary, Calibration, Function, Graph, Quantization, QuantizedModel, Unary, Window, Workspace,
};

/// Enough images to distinguish 99.5 % from less.
const IMAGES: usize = 2000;

/// Steps of a ramp from one corner of an image to the other, with noise of the same size.
fn images(each: usize) -> Vec<f32> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    let mut values = Vec::with_capacity(IMAGES * each);
    for _ in 0..IMAGES {
        let (level, slope) = (next(), next());
        values.extend((0..each).map(|at| level + slope * at as f32 / each as f32 + next()));
    }
    values
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Every operation of convolutional networks once at least.
fn all_operations() -> Result<QuantizedModel, Box<dyn Error>> {
    let weights = |count: usize| -> Vec<f32> {
        images(count).into_iter().take(count).map(|value| value / 3.0).collect()
    };
    let mut graph = Graph::new();
    let x = graph.input("image", &[3, 12, 10])?;
    let same = Window { padding: [1; 2], ..Window::new([3, 3]) };
    let stem = graph.convolution("stem", x, same, 1, &weights(8 * 27), &[0.1; 8])?;
    let stem = graph.rectifier("relu", stem);
    let half = Window { stride: [2; 2], ..Window::new([2, 2]) };
    let mut parts = Vec::new();
    for (pooling, resizing) in [
        (Pooling::Maximum, Resizing::Nearest),
        (Pooling::MeanOfImage, Resizing::NearestExact),
        (Pooling::MeanWithPadding, Resizing::Linear),
        (Pooling::Maximum, Resizing::LinearCorners),
    ] {
        let small = graph.pool("small", stem, half, pooling)?;
        parts.push(graph.resize("large", small, [12, 10], resizing)?);
    }
    let all = graph.concatenate("all", &parts, 0)?;
    let deep = graph.convolution("deep", all, same, 8, &weights(8 * 4 * 9), &[0.0; 8])?;
    let sum = graph.add("sum", deep, stem)?;
    let x = Function::identity();
    let silu = Function::binary(Binary::Multiply, &x, &x.then(Unary::Sigmoid));
    let curved = graph.function("silu", sum, &silu)?;
    let mean = graph.pool("mean", curved, Window::new([12, 10]), Pooling::MeanOfImage)?;
    let gate = graph.linear("gate", mean, &weights(64), &[0.5; 8])?;
    let gate = graph.function("sigmoid", gate, &x.then(Unary::Sigmoid))?;
    let gated = graph.multiply("gated", curved, gate)?;
    let blocks = graph.depth_to_space("blocks", gated, 2)?;
    let folded = graph.convolution("folded", blocks, half, 1, &weights(8 * 8), &[0.0; 8])?;
    let tiny = graph.resize("tiny", folded, [3, 4], Resizing::Linear)?;
    let head = graph.linear("head", tiny, &weights(10 * 96), &[0.0; 10])?;
    graph.softmax("shares", head, 0)?;
    let by = Quantization::new(Calibration::MinMax).separate_sums();
    Ok(QuantizedModel::try_quantize(&graph, [images(360)], by)?)
}

/// A block of a vision transformer: patches, a class token, positions, attention of two heads and a
/// perceptron.
fn transformer() -> Result<QuantizedModel, Box<dyn Error>> {
    const WIDTH: usize = 16;
    const TOKENS: usize = 10;
    // Without their mean, so that no class is the greatest of all images.
    let weights = |count: usize| -> Vec<f32> {
        let values: Vec<f32> = images(count).into_iter().take(count).collect();
        let mean = values.iter().sum::<f32>() / count as f32;
        values.iter().map(|value| (value - mean) / 2.0).collect()
    };
    let linear = |graph: &mut Graph, name: &str, x, [inputs, outputs]: [usize; 2]| {
        let weights = weights(inputs * outputs);
        graph.convolution(name, x, Window::new([1, 1]), 1, &weights, &vec![0.25; outputs])
    };
    let mut graph = Graph::new();
    let x = graph.input("image", &[3, 12, 12])?;
    let patches = Window { stride: [4; 2], ..Window::new([4, 4]) };
    let x = graph.convolution("patches", x, patches, 1, &weights(WIDTH * 48), &[0.0; WIDTH])?;
    let x = graph.rearrange("line", x, &[WIDTH, TOKENS - 1], &[[WIDTH * (TOKENS - 1), 1]], 0)?;
    let x = graph.extend("class", x, &[0.5; WIDTH], false)?;
    let x = graph.shift("positions", x, &weights(WIDTH * TOKENS))?;
    let normal = graph.normalize("norm", x, 1e-5)?;
    let mut heads = Vec::new();
    for name in ["query", "key", "value"] {
        let y = linear(&mut graph, name, normal, [WIDTH, WIDTH])?;
        // [heads · 8, tokens] as [heads, 8, tokens].
        let shape = [2, WIDTH / 2, TOKENS];
        heads.push(graph.rearrange("heads", y, &shape, &[[WIDTH * TOKENS, 1]], 0)?);
    }
    let scores = graph.matrix_product("scores", heads[0], heads[1], [true, false])?;
    let scores = graph.affine("scale", scores, &[0.35; 2], &[0.0; 2])?;
    let shares = graph.softmax("shares", scores, 2)?;
    let context = graph.matrix_product("context", shares, heads[2], [false, true])?;
    // [heads, tokens, 8] as [heads · 8, tokens].
    let axes = [[2, TOKENS * 8], [8, 1], [TOKENS, 8]];
    let context = graph.rearrange("join", context, &[WIDTH, TOKENS], &axes, 0)?;
    let attended = linear(&mut graph, "output", context, [WIDTH, WIDTH])?;
    let x = graph.add("residual", attended, x)?;
    let normal = graph.normalize("second norm", x, 1e-5)?;
    let wide = linear(&mut graph, "wide", normal, [WIDTH, 4 * WIDTH])?;
    let identity = Function::identity();
    let silu = Function::binary(Binary::Multiply, &identity, &identity.then(Unary::Sigmoid));
    let wide = graph.function("silu", wide, &silu)?;
    let narrow = linear(&mut graph, "narrow", wide, [4 * WIDTH, WIDTH])?;
    let x = graph.add("second residual", narrow, x)?;
    let turned = graph.concatenate("twice", &[x, narrow], 1)?;
    let class = graph.rearrange("token", turned, &[WIDTH], &[[WIDTH, 2 * TOKENS]], 0)?;
    graph.linear("head", class, &weights(10 * WIDTH), &[0.0; 10])?;
    let by = Quantization::new(Calibration::MinMax).separate_sums();
    Ok(QuantizedModel::try_quantize(&graph, [images(3 * 144)], by)?)
}

/// An image resized to larger, smaller and equal sides, by whole and by broken factors, in every
/// way.
fn every_resize() -> Result<QuantizedModel, Box<dyn Error>> {
    let mut graph = Graph::new();
    let x = graph.input("image", &[2, 7, 5])?;
    for sides in [[7, 5], [14, 10], [10, 12], [5, 3], [3, 17]] {
        for resizing in
            [Resizing::Nearest, Resizing::NearestExact, Resizing::Linear, Resizing::LinearCorners]
        {
            let resized = graph.resize("resized", x, sides, resizing)?;
            graph.output(&format!("{resizing:?} {sides:?}"), resized);
        }
    }
    let by = Quantization::new(Calibration::MinMax);
    Ok(QuantizedModel::try_quantize(&graph, [images(70)], by)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [model, folder] => {
            write(&QuantizedModel::try_from_bytes(&fs::read(model)?)?, FilePath::new(folder))
        }
        [folder] => {
            let folder = FilePath::new(folder);
            write(&all_operations()?, folder)?;
            write(&transformer()?, &folder.join("transformer"))?;
            write(&every_resize()?, &folder.join("resize"))
        }
        _ => Err("expected a model's file, if any, and a folder to write to".into()),
    }
}

/// Writes a model as ONNX, images, and the model's answers.
fn write(model: &QuantizedModel, folder: &FilePath) -> Result<(), Box<dyn Error>> {
    let x = images(model.inputs()[0].numbers());
    let answers = model.outputs().map(|port| vec![0.0; IMAGES * port.numbers()]);
    let mut answers: Vec<Vec<f32>> = answers.collect();
    let mut slices: Vec<&mut [f32]> = answers.iter_mut().map(|all| &mut all[..]).collect();
    model.run_all(Isa::detect(), &[&x], &mut slices, &mut Workspace::new(), 1);
    fs::create_dir_all(folder)?;
    fs::write(folder.join("model.onnx"), model.to_onnx()?)?;
    fs::write(folder.join("images.f32"), bytes(&x))?;
    fs::write(folder.join("answers.f32"), bytes(&answers.concat()))?;
    Ok(())
}
