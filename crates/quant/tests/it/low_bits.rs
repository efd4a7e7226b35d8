//! Weights of fewer than eight bits: exact integers, files, budgets, and rounding by results.

use updraft_quant::slices::Isa;
use updraft_quant::{
    Accuracy, Binary, BudgetError, Calibration, Comparison, Function, Graph, Observation,
    Quantization, QuantizeError, QuantizedModel, Rounding, Sensitivity, WeightFormat, Window,
    Workspace,
};
use updraft_testing::scattered;

type Built<T> = Result<T, Box<dyn std::error::Error>>;

fn format(bits: u8) -> WeightFormat {
    WeightFormat::try_new(bits).expect("supported")
}

/// Every format with fewer than eight bits.
fn low_formats() -> Vec<WeightFormat> {
    let mut formats = Vec::new();
    for bits in [4, 3, 2, 1] {
        let grouped = format(bits).try_groups_of(6).expect("supported");
        formats.extend([format(bits), grouped]);
        let asymmetric = [format(bits), grouped].map(WeightFormat::try_asymmetric);
        formats.extend(asymmetric.into_iter().flatten());
    }
    formats
}

/// A convolution, a depthwise one, a residual sum and two linear layers.
fn network() -> Built<Graph> {
    let mut graph = Graph::new();
    let x = graph.input("image", &[3, 6, 6])?;
    let same = Window { padding: [1; 2], ..Window::new([3, 3]) };
    let stem = graph.convolution("stem", x, same, 1, &scattered(1, 8 * 27), &[0.1; 8])?;
    let stem = graph.rectifier("relu", stem);
    let deep = graph.convolution("deep", stem, same, 8, &scattered(2, 72), &[0.0; 8])?;
    let sum = graph.add("sum", deep, stem)?;
    let hidden = graph.linear("hidden", sum, &scattered(3, 288 * 20), &[0.2; 20])?;
    let hidden = graph.rectifier("relu2", hidden);
    graph.linear("answer", hidden, &scattered(4, 20 * 5), &[0.0; 5])?;
    Ok(graph)
}

fn images(seed: u32, count: usize) -> Vec<f32> {
    scattered(seed, 108 * count)
}

fn answers(model: &QuantizedModel, isa: Isa, x: &[f32]) -> Vec<f32> {
    let mut y = vec![0.0; x.len() / 108 * 5];
    model.run(isa, x, &mut y, &mut Workspace::new(), 1);
    y
}

#[test]
fn four_bits_are_multiplied_as_integers() -> Built<()> {
    let mut graph = Graph::new();
    let x = graph.input("x", &[4])?;
    // Multiples of 0.5, whose greatest is seven of them, and a bias of forty steps of a sum.
    graph.linear("answer", x, &[3.5, -1.5, 0.5, 0.0], &[0.2])?;
    // One step of the input is 0.01.
    let set = [0.0, 2.55, 1.0, 0.5];
    let by = Quantization::new(Calibration::MinMax).weights(format(4));
    let model = QuantizedModel::try_quantize(&graph, [&set], by)?;
    let mut y = [0.0];
    let (x, mut workspace) = ([2.0, 0.07, 1.29, 2.55], Workspace::new());
    for isa in Isa::DOTS.into_iter().filter(|isa| isa.is_available()) {
        model.run(isa, &x, &mut y, &mut workspace, 1);
        let sum = 200 * 7 - 7 * 3 + 129 + 40;
        let scale = 0.5 * f64::from(2.55_f32 / 255.0);
        assert!((f64::from(y[0]) - f64::from(sum) * scale).abs() < 1e-6, "{isa} {y:?}");
    }
    assert_eq!(model.file_bytes(), 2 + 4 + 4);
    Ok(())
}

/// Numbers before a function that is constant outside of a range get the codes of that range.
#[test]
fn numbers_that_a_function_does_not_distinguish_have_no_codes() -> Built<()> {
    let x = Function::identity();
    let above = Function::binary(Binary::Maximum, &x, &Function::constant(0.0));
    let cut = Function::binary(Binary::Minimum, &above, &Function::constant(0.5));
    let mut graph = Graph::new();
    let x = graph.input("x", &[4])?;
    // Results from about −20 to 20, of which 0 to 0.5 are read.
    let wide_weights: Vec<f32> = scattered(1, 4 * 16).iter().map(|weight| 10.0 * weight).collect();
    let wide = graph.linear("wide", x, &wide_weights, &[0.25; 16])?;
    let narrow = graph.function("narrow", wide, &cut)?;
    graph.linear("answer", narrow, &scattered(2, 16 * 3), &[0.0; 3])?;
    let set = scattered(3, 4 * 64);
    for calibration in [Calibration::MinMax, Calibration::MeanSquaredError, Calibration::Entropy] {
        let model = QuantizedModel::try_quantize(&graph, [&set[..]], calibration)?;
        let compared = Comparison::new(&graph, &model, [&set[..]], Isa::detect());
        for layer in &compared.layers {
            assert!(layer.sqnr_db > 30.0, "{calibration:?} {layer:?}");
        }
    }
    Ok(())
}

#[test]
fn a_model_of_every_format_is_read_as_it_was_written() -> Built<()> {
    let (graph, set, x) = (network()?, images(5, 12), images(6, 7));
    let by = Quantization::new(Calibration::MinMax);
    let observation = Observation::try_new(&graph, [&set], &by)?;
    let int8 = observation.try_quantize(&by)?;
    for format in low_formats() {
        let model = observation.try_quantize(&by.clone().weights(format))?;
        let formats = model.plan().layers.into_iter().filter_map(|layer| layer.weights);
        assert_eq!(formats.collect::<Vec<_>>(), [format; 4], "{format}");
        assert!(model.file_bytes() < int8.file_bytes(), "{format}");
        let bytes = model.to_bytes();
        assert!(bytes.len() < int8.to_bytes().len(), "{format}");
        let read = QuantizedModel::try_from_bytes(&bytes)?;
        assert_eq!(read.plan(), model.plan());
        assert_eq!(read.to_bytes(), bytes, "{format}");
        let right = answers(&model, Isa::Portable, &x);
        for isa in Isa::DOTS.into_iter().filter(|isa| isa.is_available()) {
            assert_eq!(answers(&read, isa, &x), right, "{format} {isa}");
        }
        assert!(model.plan().to_string().contains(&format!("int8, weights of {format}")));
    }
    Ok(())
}

#[test]
fn a_damaged_code_is_refused() -> Built<()> {
    let (graph, set) = (network()?, images(5, 4));
    let by = Quantization::new(Calibration::MinMax).weights(format(4).try_groups_of(6)?);
    let bytes = QuantizedModel::try_quantize(&graph, [&set], by)?.to_bytes();
    for at in (0..bytes.len()).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(QuantizedModel::try_from_bytes(&damaged).is_err(), "byte {at}");
    }
    Ok(())
}

#[test]
fn layers_have_bits_of_their_own() -> Built<()> {
    let (graph, set) = (network()?, images(5, 8));
    let by = || Quantization::new(Calibration::MinMax).weights(format(4));
    let mixed = by().layer("stem", format(8)).layer("answer", format(2)).keep(["hidden"]);
    let model = QuantizedModel::try_quantize(&graph, [&set], mixed)?;
    let formats: Vec<_> = model.plan().layers.into_iter().map(|layer| layer.weights).collect();
    assert_eq!(formats, [Some(format(8)), Some(format(4)), None, Some(format(2))]);
    let refused = |by: Quantization| {
        let refused = QuantizedModel::try_quantize(&graph, [&set], by).expect_err("refused");
        refused.to_string()
    };
    let message = refused(by().layer("nothing", format(4)));
    assert!(message.contains("no layer is named `nothing`"), "{message}");
    let message = refused(by().layer("stem", format(4)).keep(["stem"]));
    assert!(message.contains("`stem` is to be kept in f32 and to have"), "{message}");
    let mut plain = Graph::new();
    let x = plain.input("x", &[2])?;
    let y = plain.linear("first", x, &[1.0, 2.0], &[0.0])?;
    plain.softmax("shares", y, 0)?;
    let set = [1.0, 2.0, -1.0, 0.5];
    let by = by().layer("shares", format(4));
    let error = QuantizedModel::try_quantize(&plain, [&set], by).expect_err("no weights");
    let layer = match error {
        QuantizeError::NoWeights { layer } | QuantizeError::NoSuchLayer { layer, .. } => layer,
        other => return Err(other.into()),
    };
    assert_eq!(layer, "shares");
    Ok(())
}

/// The measurement of all layers of the network on some samples.
fn measured(graph: &Graph) -> Built<(Observation, Quantization, Sensitivity)> {
    let by = Quantization::new(Calibration::MinMax);
    let observation = Observation::try_new(graph, [images(5, 16)], &by)?;
    let x = images(7, 24);
    let targets: Vec<usize> = (0..24).map(|sample| sample % 5).collect();
    let formats = [8, 4, 3, 2].map(format);
    let sensitivity = Sensitivity::try_new(&observation, &by, &formats, [(x, targets)], &Accuracy)?;
    Ok((observation, by, sensitivity))
}

#[test]
fn the_effect_of_a_layer_is_that_of_a_model_with_only_this_layer_in_int8() -> Built<()> {
    let graph = network()?;
    let (observation, by, sensitivity) = measured(&graph)?;
    assert_eq!((sensitivity.samples, sensitivity.layers.len()), (24, 4));
    let names: Vec<&str> = sensitivity.layers.iter().map(|layer| layer.name.as_str()).collect();
    for layer in &sensitivity.layers {
        for choice in &layer.choices {
            let others = names.iter().filter(|name| **name != layer.name).copied();
            let alone = by.clone().weights(choice.format).keep(others);
            let model = observation.try_quantize(&alone)?;
            let compared = Comparison::new(&graph, &model, [images(7, 24)], Isa::detect().dot());
            let given = choice.sqnr_db.unwrap_or(f64::INFINITY);
            let right = compared.outputs_db[0];
            assert!(
                (given - right).abs() < 1.0,
                "{} {}: {given} {right}",
                layer.name,
                choice.format
            );
        }
        let noise: Vec<f64> = layer.choices.iter().map(|choice| choice.noise).collect();
        assert!(noise.is_sorted(), "{noise:?}");
        assert!(layer.choices[3].loss.expect("a loss").is_finite());
    }
    let ranked: Vec<f64> =
        sensitivity.ranking(1).iter().map(|layer| layer.choices[1].noise).collect();
    assert!(ranked.iter().rev().is_sorted(), "{ranked:?}");
    Ok(())
}

#[test]
fn bits_are_chosen_within_a_budget() -> Built<()> {
    let graph = network()?;
    let (observation, by, sensitivity) = measured(&graph)?;
    let mut before = f64::INFINITY;
    for budget in [0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 1.0] {
        let assignment = sensitivity.try_within(budget)?;
        assert!(assignment.fraction <= budget, "{assignment:?}");
        assert!(assignment.noise <= before, "{assignment:?}");
        before = assignment.noise;
        let model = observation.try_quantize(&assignment.apply(by.clone()))?;
        assert_eq!(model.file_bytes(), assignment.bytes, "{assignment:?}");
    }
    assert_eq!(before, 0.0, "all of f32 fits");
    let error = sensitivity.try_within(0.01).expect_err("too small");
    let BudgetError::TooSmall { least, .. } = error else { return Err(error.into()) };
    let smallest = sensitivity.try_within(least + 1e-9)?;
    assert!((smallest.fraction - least).abs() < 1e-9);
    let front = sensitivity.front(6);
    assert!(front.len() > 3 && (front[0].fraction - least).abs() < 0.01);
    assert!(front.windows(2).all(|two| two[0].bytes < two[1].bytes));
    Ok(())
}

/// A linear layer whose inputs depend on each other, and samples for it.
fn correlated() -> Built<(Graph, Vec<f32>)> {
    let (inputs, outputs, count) = (64, 24, 128);
    let mut graph = Graph::new();
    let x = graph.input("x", &[inputs])?;
    let y = graph.linear("first", x, &scattered(8, inputs * outputs), &vec![0.1; outputs])?;
    let y = graph.rectifier("relu", y);
    graph.linear("answer", y, &scattered(9, outputs * 3), &[0.0; 3])?;
    // Each number is near its neighbors, as pixels are.
    let noise = scattered(10, (inputs + 16) * count);
    let smooth = |at: usize| {
        let (sample, input) = (at / inputs, at % inputs);
        let window = &noise[sample * (inputs + 16) + input..][..16];
        window.iter().sum::<f32>() / 4.0
    };
    Ok((graph, (0..inputs * count).map(smooth).collect()))
}

#[test]
fn rounding_by_results_loses_less_than_the_nearest_codes() -> Built<()> {
    let (graph, set) = correlated()?;
    for (rounding, least) in [(Rounding::Gptq, 6.0), (Rounding::AdaRound, 1.0)] {
        let by = Quantization::new(Calibration::MinMax).weights(format(4)).rounding(rounding);
        let model = QuantizedModel::try_quantize(&graph, [&set], by)?;
        let first = &model.rounded_layers()[0];
        let gain = first.rounded_db.expect("noise") - first.nearest_db.expect("noise");
        assert_eq!(first.rounding, rounding, "{first:?}");
        assert!(gain > least, "{rounding:?} {first:?}");
    }
    Ok(())
}

#[test]
fn a_corrected_bias_keeps_the_means() -> Built<()> {
    let (graph, set) = correlated()?;
    let by = || Quantization::new(Calibration::MinMax).weights(format(2));
    // How far the means of the outputs are off.
    let shift = |by: Quantization| -> Built<f64> {
        let model = QuantizedModel::try_quantize(&graph, [&set], by)?;
        let mut y = vec![0.0; 128 * 3];
        model.run(Isa::detect().dot(), &set, &mut y, &mut Workspace::new(), 1);
        let right = graph.forward(&set).remove(0);
        let mean = |values: &[f32], output: usize| -> f64 {
            values.iter().skip(output).step_by(3).map(|&value| f64::from(value)).sum::<f64>()
                / 128.0
        };
        Ok((0..3).map(|output| (mean(&y, output) - mean(&right, output)).abs()).sum())
    };
    let (plain, corrected) = (shift(by())?, shift(by().bias_correction())?);
    assert!(corrected < 0.2 * plain, "{plain} {corrected}");
    Ok(())
}
