//! Networks with several inputs and outputs, of tensors of any rank.

use updraft_quant::slices::{Isa, Pooling};
use updraft_quant::{
    Calibration, Comparison, Function, Graph, Port, QuantizeError, QuantizedModel, Unary, Window,
    Workspace,
};
use updraft_testing::scattered;

type Built<T> = Result<T, Box<dyn std::error::Error>>;

/// Inputs: a line and a row of numbers. Outputs: a line, a volume and a row, one of them also read.
fn network() -> Built<Graph> {
    let mut graph = Graph::new();
    let line = graph.input("line", &[4, 20])?;
    let row = graph.input("row", &[6])?;
    let window = Window { padding: [0, 1], ..Window::new([1, 3]) };
    let line = graph.convolution("conv", line, window, 1, &scattered(1, 8 * 12), &[0.1; 8])?;
    let gate = graph.linear("gate", row, &scattered(2, 48), &[0.2; 8])?;
    let gate = graph.function("sigmoid", gate, &Function::identity().then(Unary::Sigmoid))?;
    let gated = graph.multiply("gated", line, gate)?;
    let gated = graph.rectifier("relu", gated);
    let halved = Window { stride: [1, 2], ..Window::new([1, 2]) };
    let most = graph.pool("most", gated, halved, Pooling::Maximum)?;
    let answer = graph.linear("answer", most, &scattered(3, 3 * 80), &[0.0; 3])?;
    graph.output("classes", answer);
    graph.output("line", gated);
    graph.output("gate", gate);
    Ok(graph)
}

#[test]
fn a_network_of_several_inputs_and_outputs_gives_all_answers() -> Built<()> {
    let graph = network()?;
    let set = vec![scattered(4, 80 * 24), scattered(5, 6 * 24)];
    let model = QuantizedModel::try_quantize(&graph, [&set], Calibration::MinMax)?;
    assert!(model.plan().is_int8(), "{}", model.plan());
    let shapes: Vec<_> =
        model.outputs().map(|port| (port.name.as_str(), &port.shape[..])).collect();
    assert_eq!(shapes, [("classes", &[3][..]), ("line", &[8, 20]), ("gate", &[8])]);
    let comparison = Comparison::new(&graph, &model, [&set], Isa::detect());
    assert!(comparison.outputs_db.iter().all(|&decibels| decibels > 30.0), "{comparison:#?}");

    let run =
        |model: &QuantizedModel, isa: Isa, threads: usize, samples: std::ops::Range<usize>| {
            let x: Vec<&[f32]> = set
                .iter()
                .zip(model.inputs())
                .map(|(x, port)| &x[samples.start * port.numbers()..samples.end * port.numbers()])
                .collect();
            let lens = model.outputs().map(|port| samples.len() * port.numbers());
            let mut y: Vec<Vec<f32>> = lens.map(|len| vec![f32::NAN; len]).collect();
            let mut to: Vec<&mut [f32]> = y.iter_mut().map(Vec::as_mut_slice).collect();
            model.run_all(isa, &x, &mut to, &mut Workspace::new(), threads);
            y
        };
    let right = run(&model, Isa::Portable, 1, 0..24);
    let read = QuantizedModel::try_from_bytes(&model.to_bytes())?;
    for isa in Isa::DOTS.into_iter().filter(|isa| isa.is_available()) {
        for threads in [1, 3, 30] {
            assert_eq!(run(&read, isa, threads, 0..24), right, "{isa} with {threads} threads");
        }
    }
    for (given, right) in run(&read, Isa::detect(), 1, 7..8).iter().zip(&right) {
        assert_eq!(given[..], right[7 * given.len()..][..given.len()], "one sample");
    }
    let uneven = vec![scattered(4, 80 * 3), scattered(5, 6 * 2)];
    let error = QuantizedModel::try_quantize(&graph, [uneven], Calibration::MinMax);
    assert!(matches!(error, Err(QuantizeError::BatchLength { batch: 0, .. })), "{error:?}");
    Ok(())
}

#[test]
fn volumes_pass_through_what_takes_each_number_or_channel_for_itself() -> Built<()> {
    let mut graph = Graph::new();
    let x = graph.input("volume", &[3, 2, 4, 5])?;
    let scaled = graph.affine("scaled", x, &[1.0, -0.5, 2.0], &[0.1, 0.0, -0.2])?;
    let cut = graph.rectifier("cut", scaled);
    let mixed =
        graph.convolution("mixed", cut, Window::new([1, 1]), 1, &scattered(1, 12), &[0.0; 4])?;
    let curved = graph.function("tanh", mixed, &Function::identity().then(Unary::Tanh))?;
    graph.concatenate("both", &[curved, x], 0)?;
    assert_eq!(graph.shape(mixed), [4, 2, 4, 5]);
    let wide = graph.convolution("wide", x, Window::new([2, 2]), 1, &[1.0; 12], &[0.0]);
    let error = wide.expect_err("windows over three axes").to_string();
    assert!(error.contains("windows move over one or two axes"), "{error}");

    let set = scattered(2, 120 * 30);
    let model = QuantizedModel::try_quantize(&graph, [&set], Calibration::MinMax)?;
    let comparison = Comparison::new(&graph, &model, [&set], Isa::detect());
    assert!(comparison.outputs_db[0] > 35.0, "{comparison:#?}");
    // By the definition, at one place of the first sample.
    let mut y = vec![0.0; 30 * model.outputs().map(Port::numbers).sum::<usize>()];
    model.run(Isa::detect(), &set, &mut y, &mut Workspace::new(), 1);
    let at = 23;
    let weights = scattered(1, 12);
    let cut = [1.0 * set[at] + 0.1, -0.5 * set[40 + at], 2.0 * set[80 + at] - 0.2];
    for channel in 0..4 {
        let sum: f32 = (0..3).map(|x| weights[3 * channel + x] * cut[x].max(0.0)).sum();
        let given = y[40 * channel + at];
        assert!((given - sum.tanh()).abs() < 0.03, "{given} is not {}", sum.tanh());
    }
    assert!((y[160 + at] - set[at]).abs() < 0.02);
    Ok(())
}

#[cfg(feature = "burn")]
mod of_burn {
    use burn::nn::conv::{Conv1d, Conv1dConfig};
    use burn::nn::pool::{AvgPool1d, AvgPool1dConfig};
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::activation::relu;
    use burn::tensor::{Tensor, TensorData};
    use updraft_testing::devices;

    use super::*;

    #[test]
    fn a_module_of_several_tensors_is_captured_and_runs_on_tensors() -> Built<()> {
        let device = &devices()[0];
        device.seed(1);
        let conv: Conv1d = Conv1dConfig::new(4, 8, 3).init(device);
        let pool: AvgPool1d = AvgPool1dConfig::new(2).with_stride(2).init();
        let linear: Linear = LinearConfig::new(6, 8).init(device);
        let module = (conv, pool, linear);
        let forward = |module: &(Conv1d, AvgPool1d, Linear), (x, row): (Tensor<3>, Tensor<2>)| {
            let line = module.1.forward(relu(module.0.forward(x)));
            let row = module.2.forward(row);
            let [batch, channels] = row.dims();
            (line * row.clone().reshape([batch, channels, 1]), row)
        };
        let graph = Graph::try_capture(&module, ([4, 20], [6]), forward)?;
        let set = vec![scattered(4, 80 * 24), scattered(5, 6 * 24)];
        let model = QuantizedModel::try_quantize(&graph, [&set], Calibration::MinMax)?;
        let names: Vec<&str> = model.inputs().iter().map(|port| port.name.as_str()).collect();
        assert_eq!(names, ["input0", "input1"]);
        let x = Tensor::<3>::from_data(TensorData::new(set[0].clone(), [24, 4, 20]), device);
        let row = Tensor::<2>::from_data(TensorData::new(set[1].clone(), [24, 6]), device);
        let right = forward(&module, (x.clone(), row.clone()));
        let given: (Tensor<3>, Tensor<2>) =
            model.forward(Isa::detect(), (x, row), &mut Workspace::new(), 1);
        assert_eq!(given.0.dims(), [24, 8, 9]);
        let off = |a: Vec<f32>, b: Vec<f32>| {
            a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
        };
        let line = off(given.0.to_data().iter().collect(), right.0.to_data().iter().collect());
        let row = off(given.1.to_data().iter().collect(), right.1.to_data().iter().collect());
        assert!(line < 0.05 && row < 0.05, "{line} {row}");
        Ok(())
    }
}
