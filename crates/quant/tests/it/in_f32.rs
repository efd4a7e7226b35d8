//! Layers in f32, whose weights are packed once.

use updraft_quant::slices::{Isa, Pooling};
use updraft_quant::{
    Arithmetic, Calibration, Graph, Quantization, QuantizedModel, Reason, Value, Window, Workspace,
};
use updraft_testing::scattered;

const SAME: Window = Window { padding: [1; 2], ..Window::new([3, 3]) };

fn convolution(graph: &mut Graph, name: &str, x: Value, outputs: usize, groups: usize) -> Value {
    let each = graph.shape(x)[0] / groups * 9;
    let weights = scattered(name.len() as u32, outputs * each);
    let weights: Vec<f32> = weights.iter().map(|w| w * (3.0 / each as f32).sqrt()).collect();
    let bias = scattered(3, outputs);
    graph.convolution(name, x, SAME, groups, &weights, &bias).expect("a valid layer")
}

/// A stem, a residual sum, a depthwise layer, a mean and a product.
fn network(channels: usize, side: usize) -> Graph {
    let mut graph = Graph::new();
    let image = graph.input("image", &[3, side, side]).expect("a valid input");
    let stem = convolution(&mut graph, "stem", image, channels, 1);
    let stem = graph.rectifier("stem.relu", stem);
    let first = convolution(&mut graph, "first", stem, channels, 1);
    let first = graph.rectifier("first.relu", first);
    let second = convolution(&mut graph, "second", first, channels, 1);
    let sum = graph.add("sum", stem, second).expect("equal shapes");
    let sum = graph.rectifier("sum.relu", sum);
    let deep = convolution(&mut graph, "deep", sum, channels, channels);
    let mean = graph.pool("mean", deep, Window::new([side; 2]), Pooling::MeanOfImage);
    let weights: Vec<f32> = scattered(9, 10 * channels);
    graph.linear("answers", mean.expect("it fits"), &weights, &scattered(8, 10)).expect("it fits");
    graph
}

#[test]
fn layers_kept_in_f32_are_those_of_the_graph_with_the_same_bits_in_any_batch() {
    let side = 12;
    let graph = network(24, side);
    let samples = scattered(1, 5 * 3 * side * side);
    let names = ["stem", "first", "second", "deep", "mean", "answers"];
    let by = Quantization::new(Calibration::MinMax).keep(names);
    let model = QuantizedModel::try_quantize(&graph, [&samples], by).expect("calibrated");
    assert!(
        model
            .plan()
            .layers
            .iter()
            .all(|layer| { layer.arithmetic == Arithmetic::F32(Reason::Kept) })
    );
    let isa = Isa::detect().dot();
    let run = |samples: &[f32], threads: usize| {
        let mut y = vec![0.0; samples.len() / (3 * side * side) * 10];
        model.run(isa, samples, &mut y, &mut Workspace::new(), threads);
        y
    };
    let all = run(&samples, 1);
    let right = graph.forward(&samples).remove(0);
    let greatest = right.iter().fold(0.0_f32, |most, y| most.max(y.abs()));
    // Only the codes of the input differ.
    for (given, right) in all.iter().zip(&right) {
        assert!((given - right).abs() < 0.02 * greatest, "{given} is not {right}");
    }
    let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&run(&samples, 2)), bits(&all), "two threads");
    assert_eq!(bits(&run(&samples, 7)), bits(&all), "more threads than samples");
    let singly: Vec<f32> =
        samples.chunks(3 * side * side).flat_map(|sample| run(sample, 2)).collect();
    assert_eq!(bits(&singly), bits(&all), "one by one");
}
