//! The time of rounding weights by the results of each layer: ResNet-18 on images of 32 × 32, with
//! random weights and 128 calibration samples.
//!
//! `cargo run --release -p updraft-quant --example rounding_time`

#![expect(clippy::print_stdout, reason = "an example that prints")]

use std::error::Error;
use std::time::Instant;

use updraft_quant::slices::Pooling;
use updraft_quant::{
    Calibration, Graph, Observation, Quantization, Rounding, Value, WeightFormat, Window,
};

/// Calibration samples, and numbers of each.
const SAMPLES: usize = 128;
const SIDE: usize = 32;

/// Numbers between −1 and 1 without a pattern.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// A convolution that keeps the variance of rectified numbers.
fn convolution(
    graph: &mut Graph,
    x: Value,
    [outputs, kernel, stride]: [usize; 3],
) -> Result<Value, Box<dyn Error>> {
    let inputs = graph.shape(x)[0];
    let each = inputs * kernel * kernel;
    let scale = (6.0 / each as f32).sqrt();
    let mut weights = numbers((outputs + each) as u64, outputs * each);
    weights.iter_mut().for_each(|weight| *weight *= scale);
    let window =
        Window { stride: [stride; 2], padding: [kernel / 2; 2], ..Window::new([kernel; 2]) };
    Ok(graph.convolution("conv", x, window, 1, &weights, &vec![0.0; outputs])?)
}

fn resnet18() -> Result<Graph, Box<dyn Error>> {
    let mut graph = Graph::new();
    let image = graph.input("image", &[3, SIDE, SIDE])?;
    let stem = convolution(&mut graph, image, [64, 3, 1])?;
    let mut x = graph.rectifier("relu", stem);
    for (channels, first) in [(64, 1), (128, 2), (256, 2), (512, 2)] {
        for stride in [first, 1] {
            let y = convolution(&mut graph, x, [channels, 3, stride])?;
            let y = graph.rectifier("relu", y);
            let y = convolution(&mut graph, y, [channels, 3, 1])?;
            if stride == 2 {
                x = convolution(&mut graph, x, [channels, 1, 2])?;
            }
            let sum = graph.add("sum", y, x)?;
            x = graph.rectifier("relu", sum);
        }
    }
    let side = graph.shape(x)[1];
    let mean = graph.pool("mean", x, Window::new([side; 2]), Pooling::MeanOfImage)?;
    graph.linear("answers", mean, &numbers(1, 512 * 10), &[0.0; 10])?;
    Ok(graph)
}

fn main() -> Result<(), Box<dyn Error>> {
    let graph = resnet18()?;
    let samples = numbers(2, SAMPLES * 3 * SIDE * SIDE);
    for (name, rounding) in [("GPTQ", Rounding::Gptq), ("AdaRound", Rounding::AdaRound)] {
        let by = Quantization::new(Calibration::MinMax).weights(WeightFormat::INT4);
        let by = by.rounding(rounding).float_tail();
        let started = Instant::now();
        let observation = Observation::try_new(&graph, [&samples], &by)?;
        let model = observation.try_quantize(&by)?;
        let seconds = started.elapsed().as_secs_f64();
        let layers = model.rounded_layers();
        let gains = layers.iter().filter_map(|layer| Some(layer.rounded_db? - layer.nearest_db?));
        let gain = gains.sum::<f64>() / layers.len() as f64;
        println!(
            "{name}: {seconds:.0} s, {} layers, {gain:.1} dB less noise in the mean",
            layers.len()
        );
    }
    Ok(())
}
