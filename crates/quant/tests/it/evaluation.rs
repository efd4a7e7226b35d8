//! The cost of int8 on labeled images.

use updraft_quant::slices::Isa;
use updraft_quant::{
    Accuracy, Calibration, EvaluateError, Evaluation, Graph, Quantization, QuantizedModel,
    SquaredError, Window,
};

type Built<T> = Result<T, Box<dyn std::error::Error>>;

/// Four inputs, and the maximum of three weighted sums.
fn network() -> Built<Graph> {
    let mut graph = Graph::new();
    let x = graph.input("image", &[4, 1, 1])?;
    let weights = [1.0, 0.2, -0.3, 0.1, -0.4, 1.0, 0.3, 0.2, 0.1, -0.2, 1.0, -0.5];
    let hidden = graph.convolution("mix", x, Window::new([1, 1]), 1, &weights, &[0.0; 3])?;
    let identity = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    graph.linear("answer", hidden, &identity, &[0.0; 3])?;
    Ok(graph)
}

fn images(count: usize) -> Vec<f32> {
    (0..4 * count).map(|i| ((i * 7919 + i / 4) % 1009) as f32 / 504.0 - 1.0).collect()
}

/// The outputs of the network in f64.
fn classes(images: &[f32]) -> Vec<usize> {
    let class = |x: &[f32]| {
        let x: Vec<f64> = x.iter().map(|&x| x.into()).collect();
        let sums = [
            x[0] + 0.2 * x[1] - 0.3 * x[2] + 0.1 * x[3],
            x[1] - 0.4 * x[0] + 0.3 * x[2] + 0.2 * x[3],
            x[2] + 0.1 * x[0] - 0.2 * x[1] - 0.5 * x[3],
        ];
        (0..3).fold(0, |best, class| if sums[class] > sums[best] { class } else { best })
    };
    images.chunks(4).map(class).collect()
}

#[test]
fn the_counts_of_an_evaluation_are_those_of_the_answers() -> Built<()> {
    let graph = network()?;
    let x = images(500);
    let by = Quantization::new(Calibration::MinMax).set_hash("abc");
    let model = QuantizedModel::try_quantize(&graph, [&x], by)?;
    let right = classes(&x);
    // Every tenth label is another class's.
    let labels: Vec<usize> = right
        .iter()
        .enumerate()
        .map(|(i, &class)| (class + usize::from(i % 10 == 0)) % 3)
        .collect();
    let batches = || x.chunks(400).zip(labels.chunks(100)).map(|(x, l)| (x, l.to_vec()));
    let report = Evaluation::try_new(&graph, &model, batches(), &Accuracy, Isa::detect())?;
    assert_eq!(report.samples, 500);
    assert!((report.score_f32 - 0.9).abs() < 1e-12, "{report:?}");
    // By the model itself.
    let mut y = vec![0.0; 3];
    let mut workspace = updraft_quant::Workspace::new();
    let mut counts = [0, 0, 0];
    for (index, x) in x.chunks(4).enumerate() {
        model.run(Isa::detect(), x, &mut y, &mut workspace, 1);
        let class = (0..3).fold(0, |best, class| if y[class] > y[best] { class } else { best });
        counts[0] += usize::from(class == labels[index]);
        counts[1] += usize::from(class == right[index]);
        counts[2] += usize::from(class != labels[index] && right[index] == labels[index]);
    }
    assert!((report.score_int8 - counts[0] as f64 / 500.0).abs() < 1e-12);
    assert!((report.agreement.unwrap_or_default() - counts[1] as f64 / 500.0).abs() < 1e-12);
    assert_eq!(report.f32_better, counts[2]);
    let gained = report.int8_better as f64 - report.f32_better as f64;
    assert!((report.score_int8 - report.score_f32 - gained / 500.0).abs() < 1e-12);
    assert!(report.p_value > 0.05 && report.p_value <= 1.0, "{report:?}");
    assert_eq!(report.bytes_f32, 4 * (12 + 3 + 9 + 3));
    assert_eq!(report.bytes_int8, model.to_bytes().len());
    assert_eq!((report.calibration, report.calibration_samples), ("minmax", 500));
    assert_eq!((report.calibration_set.as_str(), report.int8_share), ("abc", 1.0));
    assert!(report.advised_f32.is_empty(), "{report:?}");
    Ok(())
}

#[test]
fn a_layer_that_drowns_in_its_noise_is_advised_for_f32() -> Built<()> {
    let mut graph = Graph::new();
    let x = graph.input("image", &[4, 1, 1])?;
    // One number in ten thousand is thousands of times the others behind the second layer alone.
    let f = updraft_quant::Function::identity().then(updraft_quant::Unary::Reciprocal);
    let peaked = graph.function("peaked", x, &f)?;
    graph.linear("answer", peaked, &[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0], &[0.0; 2])?;
    let mut set: Vec<f32> = images(200).iter().map(|x| x.abs() + 0.5).collect();
    let test = set.clone();
    set[3] = 1e-4;
    let model = QuantizedModel::try_quantize(&graph, [&set], Calibration::MinMax)?;
    let batches = || [(&test, vec![0; 200])];
    let report = Evaluation::try_new(&graph, &model, batches(), &Accuracy, Isa::detect())?;
    assert_eq!(report.advised_f32, ["peaked"], "{report:#?}");
    let by = Quantization::new(Calibration::MinMax).keep(["peaked", "answer"]);
    let model = QuantizedModel::try_quantize(&graph, [&set], by)?;
    let kept = Evaluation::try_new(&graph, &model, batches(), &Accuracy, Isa::detect())?;
    assert!(kept.advised_f32.is_empty(), "{kept:#?}");
    // Nothing is rounded, not even the input.
    assert!(kept.sqnr_db.is_none_or(|db| db > 100.0) && kept.int8_share == 0.0, "{kept:#?}");
    Ok(())
}

#[test]
fn labels_that_do_not_fit_are_refused() -> Built<()> {
    let graph = network()?;
    let x = images(10);
    let model = QuantizedModel::try_quantize(&graph, [&x], Calibration::MinMax)?;
    let report = |batches: Vec<(&[f32], Vec<usize>)>| {
        Evaluation::try_new(&graph, &model, batches, &Accuracy, Isa::detect()).expect_err("refused")
    };
    assert_eq!(report(vec![]), EvaluateError::NoSample);
    let short = report(vec![(&x[..8], vec![0, 1]), (&x[8..12], vec![])]);
    assert!(short.to_string().contains("test batch 1 has 0 targets and [4] numbers"), "{short}");
    let foreign = report(vec![(&x[..4], vec![3])]);
    assert!(foreign.to_string().contains("class 3 of 3, counted from 0"), "{foreign}");
    Ok(())
}

#[test]
fn an_evaluation_is_written_with_all_its_fields() -> Built<()> {
    let graph = network()?;
    let x = images(50);
    let model = QuantizedModel::try_quantize(&graph, [&x], Calibration::MinMax)?;
    let batches = [(&x, classes(&x))];
    let report = Evaluation::try_new(&graph, &model, batches, &Accuracy, Isa::detect())?;
    let json = serde_json::to_value(&report)?;
    assert_eq!(json["calibration"], "minmax");
    assert_eq!(json["samples"], 50);
    assert_eq!(json["layers"][0]["arithmetic"], "int8");
    assert!(json["layers"][1]["sqnr_db"].as_f64() > Some(30.0), "{json}");
    Ok(())
}

#[test]
fn a_task_brings_its_own_score() -> Built<()> {
    let graph = network()?;
    let x = images(200);
    let model = QuantizedModel::try_quantize(&graph, [&x], Calibration::MinMax)?;
    // Targets that f32 meets to a part in a thousand: eight bits are off by more.
    let right = graph.forward(&x).remove(0);
    let targets: Vec<Vec<f32>> =
        right.chunks(3).map(|y| y.iter().map(|y| y + 1e-3).collect()).collect();
    let report =
        Evaluation::try_new(&graph, &model, [(&x, targets)], &SquaredError, Isa::detect())?;
    assert_eq!((report.score, report.agreement), ("squared_error", None));
    assert!((report.score_f32 - 1e-6).abs() < 1e-8, "{report:?}");
    let mut y = vec![0.0; right.len()];
    model.run(Isa::detect(), &x, &mut y, &mut updraft_quant::Workspace::new(), 1);
    let off = |(y, right): (&f32, &f32)| (f64::from(*y) - f64::from(right + 1e-3)).powi(2);
    let mean = y.iter().zip(&right).map(off).sum::<f64>() / y.len() as f64;
    assert!((report.score_int8 - mean).abs() < 1e-12 * mean, "{} is not {mean}", report.score_int8);
    // Less is better here.
    assert!(report.f32_better > 150 && report.p_value < 1e-6, "{report:?}");
    let short = Evaluation::try_new(
        &graph,
        &model,
        [(&x[..4], vec![vec![0.0; 2]])],
        &SquaredError,
        Isa::detect(),
    );
    let said = short.expect_err("two numbers for three").to_string();
    assert!(said.contains("2 numbers where the outputs have 3"), "{said}");
    Ok(())
}
