//! Plans of the faster arithmetic for each layer.

use std::error::Error;

use updraft_quant::slices::{Isa, Pooling};
use updraft_quant::{
    Arithmetic, Calibration, Graph, Quantization, QuantizedModel, Reason, Value, Window, Workspace,
};
use updraft_testing::scattered;

const SIDE: usize = 20;
const CHANNELS: usize = 64;
const SAMPLES: usize = 3;

fn convolution(graph: &mut Graph, name: &str, x: Value, outputs: usize, side: usize) -> Value {
    grouped(graph, name, x, outputs, (side, 1))
}

fn grouped(
    graph: &mut Graph,
    name: &str,
    x: Value,
    outputs: usize,
    (side, groups): (usize, usize),
) -> Value {
    let each = graph.shape(x)[0] / groups * side * side;
    let weights = scattered(name.len() as u32, outputs * each);
    let weights: Vec<f32> = weights.iter().map(|w| w * (3.0 / each as f32).sqrt()).collect();
    let window = Window { padding: [side / 2; 2], ..Window::new([side; 2]) };
    let bias = scattered(3, outputs);
    graph.convolution(name, x, window, groups, &weights, &bias).expect("a valid layer")
}

/// Convolutions of groups of four channels with a residual sum, the largest of windows, one of 1×1
/// and one of 5×5, a mean and a product.
fn network() -> Graph {
    let mut graph = Graph::new();
    let image = graph.input("image", &[3, SIDE, SIDE]).expect("a valid input");
    let stem = convolution(&mut graph, "stem", image, CHANNELS, 3);
    let stem = graph.rectifier("stem.relu", stem);
    let first = grouped(&mut graph, "first", stem, CHANNELS, (3, CHANNELS / 4));
    let first = graph.rectifier("first.relu", first);
    let second = grouped(&mut graph, "second", first, CHANNELS, (3, CHANNELS / 4));
    let sum = graph.add("sum", stem, second).expect("equal shapes");
    let sum = graph.rectifier("sum.relu", sum);
    let half = Window { stride: [2; 2], ..Window::new([2; 2]) };
    let most = graph.pool("most", sum, half, Pooling::Maximum).expect("it fits");
    let point = convolution(&mut graph, "point", most, CHANNELS, 1);
    let last = convolution(&mut graph, "last", point, CHANNELS, 5);
    let mean = graph.pool("mean", last, Window::new([SIDE / 2; 2]), Pooling::MeanOfImage);
    let weights = scattered(9, 10 * CHANNELS);
    graph.linear("answers", mean.expect("it fits"), &weights, &scattered(8, 10)).expect("it fits");
    graph
}

fn samples() -> Vec<f32> {
    scattered(1, SAMPLES * 3 * SIDE * SIDE)
}

fn quantized() -> QuantizedModel {
    let by = Quantization::new(Calibration::MinMax);
    QuantizedModel::try_quantize(&network(), [samples()], by).expect("calibrated")
}

fn answers(model: &QuantizedModel, threads: usize) -> Vec<f32> {
    let mut y = vec![0.0; SAMPLES * 10];
    model.run(Isa::detect().dot(), &samples(), &mut y, &mut Workspace::new(), threads);
    y
}

fn bits(y: &[f32]) -> Vec<u32> {
    y.iter().map(|y| y.to_bits()).collect()
}

fn faster_in_f32(model: &QuantizedModel) -> Vec<String> {
    let faster = Arithmetic::F32(Reason::Faster);
    let layers = model.plan().layers.into_iter();
    layers.filter(|layer| layer.arithmetic == faster).map(|layer| layer.name).collect()
}

#[test]
fn with_avx2_alone_convolutions_of_few_channels_run_in_f32_and_nothing_else_does() {
    let model = quantized();
    let planned = model.for_processor(Isa::Avx2);
    assert_eq!(faster_in_f32(&planned), ["first+first.relu", "second+sum+sum.relu"]);
    let share = planned.plan().int8_share();
    assert!(0.8 < share && share < 0.99, "{share}");
    for isa in [Isa::AvxVnni, Isa::Avx512Vnni, Isa::NeonDot, Isa::Portable] {
        assert!(model.speed_plan(isa).is_int8(), "{isa}");
        assert!(faster_in_f32(&model.for_processor(isa)).is_empty(), "{isa}");
    }
}

#[test]
fn layers_that_are_faster_in_f32_multiply_the_numbers_of_their_codes() {
    let model = quantized();
    let planned = model.for_processor(Isa::Avx2);
    let right = network().forward(&samples()).remove(0);
    let energy: f32 = right.iter().map(|y| y * y).sum();
    let noise = |model: &QuantizedModel| -> f32 {
        answers(model, 1).iter().zip(&right).map(|(y, right)| (y - right).powi(2)).sum()
    };
    for noise in [noise(&model), noise(&planned)].map(|noise| noise / energy) {
        assert!(1e-7 < noise && noise < 1e-3, "{noise}");
    }
    assert_ne!(bits(&answers(&planned, 1)), bits(&answers(&model, 1)));
    let one = answers(&planned, 1);
    assert_eq!(bits(&answers(&planned, 2)), bits(&one), "two threads");
    assert_eq!(bits(&answers(&planned, 7)), bits(&one), "more threads than samples");
    assert_eq!(bits(&answers(&planned.in_int8(), 1)), bits(&answers(&model, 1)));
}

#[test]
fn a_file_has_every_weight_once_and_the_plan_of_each_class() -> Result<(), Box<dyn Error>> {
    let model = quantized();
    let plan = model.estimate_speed(Isa::Avx2).plan().clone();
    let stored = model.clone().with_speed_plan(&plan);
    let bytes = stored.to_bytes();
    assert!(bytes.len() < model.to_bytes().len() + 200, "{}", bytes.len());
    assert_eq!(stored.file_bytes(), model.file_bytes());
    assert_eq!(stored.for_processor(Isa::Avx2).to_bytes(), bytes, "of the model that runs");
    assert_eq!(stored.for_processor(Isa::Avx2).to_onnx(), model.to_onnx());
    let read = QuantizedModel::try_from_bytes(&bytes)?;
    assert_eq!(read.speed_plan(Isa::Avx2), plan);
    let [given, right] = [&read, &stored].map(|model| answers(&model.for_processor(Isa::Avx2), 1));
    assert_eq!(bits(&given), bits(&right));
    // Another class has another plan, and a second one of a class replaces the first.
    let int8 = model.estimate_speed(Isa::Avx512Vnni).plan().clone();
    let both = stored.with_speed_plan(&int8);
    assert_eq!(
        (both.speed_plan(Isa::Avx512Bf16), both.speed_plan(Isa::Avx2)),
        (int8, plan.clone())
    );
    assert_eq!(both.clone().with_speed_plan(&plan).to_bytes(), both.to_bytes());
    Ok(())
}

#[test]
fn a_measured_plan_is_that_of_its_table() {
    let model = quantized();
    let table = model.measure_speed(Isa::detect().dot(), &[1, 3]);
    assert!(table.is_measured && table.whole_ms.len() == 2, "{table}");
    assert_eq!(table.layers.len(), model.plan().layers.len());
    let is_time = |ms: &f64| *ms > 0.0 && *ms < 1e3;
    for layer in &table.layers {
        let both = [&layer.int8_ms, &layer.f32_ms].map(|ms| ms.as_ref().expect("it has both"));
        assert!(both.iter().all(|ms| ms.len() == 2 && ms.iter().all(is_time)), "{layer:?}");
        assert!(layer.to_codes_ms.iter().chain(&layer.to_numbers_ms).all(is_time), "{layer:?}");
    }
    // By the plan, the model is at least as fast as in one arithmetic.
    let relative = |form: usize| -> f64 { table.whole_ms.iter().map(|ms| ms[form] / ms[0]).sum() };
    assert!(relative(2) <= relative(0).min(relative(1)), "{table}");
    let planned = model.with_speed_plan(table.plan()).for_processor(Isa::detect());
    let in_f32: Vec<_> = table.layers.iter().filter(|layer| layer.is_in_f32).collect();
    assert_eq!(faster_in_f32(&planned), in_f32.iter().map(|l| l.name.clone()).collect::<Vec<_>>());
    assert!((table.int8_share() - planned.plan().int8_share()).abs() < 1e-9);
    let text = table.to_string();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_eq!(text.lines().count(), 2 + table.layers.len() + 2 + 1, "{text}");
}
