//! Integer weights times activations in f32.

use updraft_quant::slices::Isa;
use updraft_quant::{
    Accuracy, Arithmetic, Calibration, Comparison, Graph, Observation, Quantization, QuantizeError,
    QuantizedModel, Reason, Rounding, Sensitivity, WeightFormat, Window, Workspace,
};
use updraft_testing::scattered;

type Built<T> = Result<T, Box<dyn std::error::Error>>;

/// Numbers of an image.
const IMAGE: usize = 2 * 8 * 8;

const ANSWERS: usize = 5;

/// Weights that are whole multiples, up to seven, of a step of each group of eight.
fn four_bit_weights(seed: u32, count: usize, each: usize) -> Vec<f32> {
    let groups = each.div_ceil(8);
    let mut weights = scattered(seed, count);
    for (at, weight) in weights.iter_mut().enumerate() {
        let (channel, at) = (at / each, at % each);
        // The greatest code is there, so that the step is found.
        let code = if at % 8 == 0 { 7.0 } else { (*weight * 7.0).round().clamp(-7.0, 7.0) };
        let step = 1.0 + ((channel * groups + at / 8) % 3) as f32;
        *weight = code * step / 128.0;
    }
    weights
}

/// Convolutions, a residual sum, and a linear layer of a megabyte.
fn network() -> Built<Graph> {
    let mut graph = Graph::new();
    let x = graph.input("image", &[2, 8, 8])?;
    let same = Window { padding: [1; 2], ..Window::new([3, 3]) };
    let stem =
        graph.convolution("stem", x, same, 1, &four_bit_weights(1, 8 * 18, 18), &[0.125; 8])?;
    let stem = graph.rectifier("relu", stem);
    let deep = graph.convolution("deep", stem, same, 8, &four_bit_weights(2, 72, 9), &[0.0; 8])?;
    let sum = graph.add("sum", deep, stem)?;
    let wide = four_bit_weights(3, 512 * 512, 512);
    let hidden = graph.linear("hidden", sum, &wide, &[0.25; 512])?;
    let hidden = graph.rectifier("relu2", hidden);
    let last = four_bit_weights(4, ANSWERS * 512, 512);
    graph.linear("answer", hidden, &last, &[0.0; ANSWERS])?;
    Ok(graph)
}

fn images(seed: u32, count: usize) -> Vec<f32> {
    scattered(seed, IMAGE * count)
}

fn answers(model: &QuantizedModel, x: &[f32], threads: usize) -> Vec<f32> {
    let mut y = vec![0.0; x.len() / IMAGE * ANSWERS];
    model.run(Isa::detect(), x, &mut y, &mut Workspace::new(), threads);
    y
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

fn four_bits() -> WeightFormat {
    WeightFormat::INT4.try_groups_of(8).expect("a group of fewer than eight bits")
}

/// Weights that have codes are exact, and nothing else is rounded.
#[test]
fn only_weights_are_rounded() -> Built<()> {
    let (graph, set, x) = (network()?, images(5, 16), images(6, 7));
    let by = Quantization::new(Calibration::MinMax).weights(four_bits());
    let observation = Observation::try_new(&graph, [&set], &by)?;
    let (codes, only) =
        (observation.try_quantize(&by)?, observation.try_quantize(&by.weights_only())?);
    let noise =
        |model: &QuantizedModel| Comparison::new(&graph, model, [&x], Isa::detect()).outputs_db[0];
    assert!(noise(&codes) < 60.0, "{} dB with codes of eight bits", noise(&codes));
    assert!(noise(&only) > 90.0, "{} dB with activations in f32", noise(&only));
    for layer in only.plan().layers {
        assert_eq!(layer.arithmetic, Arithmetic::F32(Reason::WeightsOnly), "{}", layer.name);
        assert_eq!(layer.weights.is_some(), !layer.name.starts_with("relu"), "{}", layer.name);
    }
    assert_eq!(only.file_bytes(), codes.file_bytes(), "the same bytes");
    Ok(())
}

#[test]
fn the_number_of_samples_and_threads_changes_no_bit() -> Built<()> {
    let (graph, set, x) = (network()?, images(5, 16), images(7, 7));
    let by = Quantization::new(Calibration::MinMax).weights(four_bits()).weights_only();
    let model = QuantizedModel::try_quantize(&graph, [&set], by)?;
    let together = answers(&model, &x, 1);
    assert_eq!(bits(&answers(&model, &x, 3)), bits(&together));
    let alone: Vec<f32> = x.chunks(IMAGE).flat_map(|x| answers(&model, x, 2)).collect();
    assert_eq!(bits(&alone), bits(&together));
    Ok(())
}

#[test]
fn a_file_has_the_same_weights_and_stays_in_f32_on_every_processor() -> Built<()> {
    let (graph, set, x) = (network()?, images(5, 16), images(8, 3));
    let by = Quantization::new(Calibration::MinMax).weights_only();
    let observation = Observation::try_new(&graph, [&set], &by)?;
    for format in [WeightFormat::INT8, WeightFormat::INT4, four_bits()] {
        let model = observation.try_quantize(&by.clone().weights(format).keep(["stem"]))?;
        let bytes = model.to_bytes();
        let read = QuantizedModel::try_from_bytes(&bytes)?;
        assert_eq!(read.to_bytes(), bytes);
        assert_eq!(read.plan(), model.plan());
        assert_eq!(read.plan().int8_share().to_bits(), 0.0_f64.to_bits());
        let right = bits(&answers(&model, &x, 1));
        assert_eq!(bits(&answers(&read, &x, 1)), right, "{format}");
        for same in [read.in_int8(), read.for_processor(Isa::Avx2), read.clone().only_int8()] {
            assert_eq!(bits(&answers(&same, &x, 1)), right, "{format}");
        }
        // An export multiplies numbers in f32, whose weights are codes.
        let export = model.to_onnx()?;
        let has = |text: &[u8]| export.windows(text.len()).any(|window| window == text);
        assert!(has(b"DequantizeLinear") && !has(b"QuantizeLinear\"") && !has(b"t0.codes"));
    }
    Ok(())
}

/// Rounding by results and measured layers see inputs in f32, as the model does.
#[test]
fn the_effect_of_a_layer_is_that_of_its_weights() -> Built<()> {
    let mut graph = Graph::new();
    let x = graph.input("x", &[32])?;
    graph.linear("answer", x, &scattered(1, 32 * 8), &[0.0; 8])?;
    // Numbers of a sample are nearly equal, so that the sum of the errors of a row decides.
    let (each, own) = (scattered(2, 64), scattered(3, 32 * 64));
    let set: Vec<f32> = own.iter().enumerate().map(|(at, own)| each[at / 32] + own / 8.0).collect();
    let samples = || [(&set, vec![0_usize; 64])];
    let by = Quantization::new(Calibration::MinMax).rounding(Rounding::Gptq).weights_only();
    let observation = Observation::try_new(&graph, [&set], &by)?;
    let formats = [WeightFormat::INT8, WeightFormat::INT4];
    let measured = Sensitivity::try_new(&observation, &by, &formats, samples(), &Accuracy)?;
    for (choice, format) in measured.layers[0].choices.iter().zip(formats) {
        let nearest = by.clone().weights(format).rounding(Rounding::Nearest);
        let model = observation.try_quantize(&nearest)?;
        let given = Comparison::new(&graph, &model, [&set], Isa::detect()).outputs_db[0];
        let right = choice.sqnr_db.expect("noise of rounded weights");
        assert!((given - right).abs() < 0.01, "{format}: {given} {right} dB");
    }
    let rounded = observation.try_quantize(&by.weights(WeightFormat::INT4))?;
    let [layer] = rounded.rounded_layers() else { panic!("one layer") };
    let gain = layer.rounded_db.expect("noise") - layer.nearest_db.expect("noise");
    assert!(gain > 3.0, "{gain} dB");
    Ok(())
}

#[test]
fn inputs_that_only_layers_in_f32_read_are_not_rounded() -> Built<()> {
    let mut graph = Graph::new();
    let x = graph.input("x", &[16])?;
    let first = graph.linear("first", x, &scattered(1, 16 * 16), &[0.0; 16])?;
    graph.output("first", first);
    let last = graph.linear("last", first, &scattered(2, 16 * 3), &[0.0; 3])?;
    graph.output("last", last);
    let set = scattered(3, 16 * 20);
    let by = Quantization::new(Calibration::MinMax).keep(["first"]);
    let model = QuantizedModel::try_quantize(&graph, [&set], by)?;
    let compared = Comparison::new(&graph, &model, [&set], Isa::detect());
    assert!(compared.outputs_db[0] > 120.0, "{:?}", compared.outputs_db);
    assert!(compared.outputs_db[1] < 60.0, "{:?}", compared.outputs_db);
    // Inputs that are codes already are read as these.
    let scheme = model.input_scheme(0);
    let codes: Vec<u8> = (0..16).map(|at| at * 15).collect();
    let step = |code: u8| f32::from(code) - f32::from(scheme.zero_point());
    let real: Vec<f32> = codes.iter().map(|&code| scheme.scale() * step(code)).collect();
    let (isa, workspace) = (Isa::detect(), &mut Workspace::new());
    let (mut first, mut last) = ([0; 16], [0; 3]);
    model.run_codes(isa, &[&codes], &mut [&mut first, &mut last], workspace, 1);
    let (mut real_first, mut real_last) = ([0.0; 16], [0.0; 3]);
    model.run_all(isa, &[&real], &mut [&mut real_first, &mut real_last], workspace, 1);
    let scheme = model.output_scheme(0);
    for (&code, &real) in first.iter().zip(&real_first) {
        let level = (real / scheme.scale()).round_ties_even() + f32::from(scheme.zero_point());
        assert!((level.clamp(0.0, 255.0) - f32::from(code)).abs() < 0.5, "{level} {code}");
    }
    Ok(())
}

#[test]
fn a_network_that_rounds_its_activations_is_refused() -> Built<()> {
    let mut graph = Graph::new();
    let scheme = updraft_quant::ActivationScheme::try_new(0.5, 128)?;
    let x = graph.input("x", &[4])?;
    let answer = graph.linear("answer", x, &[1.0, 2.0, 3.0, 4.0], &[0.0])?;
    graph.set_scheme(answer, scheme);
    let by = Quantization::new(Calibration::MinMax).weights_only();
    let refused = QuantizedModel::try_quantize(&graph, [&[1.0, 2.0, 3.0, 4.0]], by);
    assert_eq!(refused.err(), Some(QuantizeError::HasSchemes));
    Ok(())
}
