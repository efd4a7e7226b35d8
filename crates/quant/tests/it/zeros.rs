//! Layers that give the same number for every calibration image: dead rectifiers, and constants.

use std::error::Error;

use updraft_quant::slices::{Isa, Pooling};
use updraft_quant::{Accuracy, Calibration, Evaluation, Graph, QuantizedModel, Window};

use crate::round_trip::{answers, furthest};

const ALL: [Calibration; 4] = [
    Calibration::MinMax,
    Calibration::Percentile(0.9999),
    Calibration::Entropy,
    Calibration::MeanSquaredError,
];

/// A live path and a dead one, whose rectifier is always zero; its last convolution is only
/// bias. Both are added, multiplied, pooled and concatenated.
pub(crate) fn half_dead() -> Result<Graph, Box<dyn Error>> {
    let mut graph = Graph::new();
    let image = graph.input("image", &[2, 4, 4])?;
    let same = Window { padding: [1; 2], ..Window::new([3, 3]) };
    let ramp: Vec<f32> = (0..54).map(|i| (i % 7) as f32 / 7.0 - 0.4).collect();
    let live = graph.convolution("live", image, same, 1, &ramp[..36], &[0.1, 0.2])?;
    let live = graph.rectifier("live.relu", live);
    let dead = graph.convolution("dead", image, same, 1, &ramp[..54], &[-50.0; 3])?;
    let dead = graph.rectifier("dead.relu", dead);
    let most = Window { stride: [1; 2], padding: [1; 2], ..Window::new([3, 3]) };
    let most = graph.pool("dead.most", dead, most, Pooling::Maximum)?;
    let bias = [0.037, -0.0211];
    let bias_alone =
        graph.convolution("revived", most, Window::new([1, 1]), 1, &ramp[..6], &bias)?;
    let sum = graph.add("sum", live, bias_alone)?;
    let mean = graph.pool("mean", sum, Window::new([4, 4]), Pooling::MeanOfImage)?;
    graph.linear("answer", mean, &[1.0, -1.0, 0.5, 2.0, -0.3, 0.4], &[0.0, 0.1, 0.2])?;
    Ok(graph)
}

pub(crate) fn images() -> Vec<f32> {
    (0..32 * 40).map(|i| ((i * 7919 + i / 32) % 1009) as f32 / 504.0 - 1.0).collect()
}

#[test]
fn a_dead_rectifier_is_exactly_zero_and_named() -> Result<(), Box<dyn Error>> {
    let (graph, x) = (half_dead()?, images());
    let right = graph.forward(&x).remove(0);
    for calibration in ALL {
        let model = QuantizedModel::try_quantize(&graph, [&x], calibration)?;
        assert!(model.plan().is_int8());
        let off = furthest(&answers(&model, Isa::detect(), &x, 1), &right);
        assert!(off < 0.02, "{calibration:?}: {off}");

        let zero: Vec<String> = model
            .plan()
            .layers
            .into_iter()
            .filter(|layer| layer.is_zero)
            .map(|layer| layer.name)
            .collect();
        assert_eq!(zero, ["dead+dead.relu", "dead.most"]);
        let said = model.plan().to_string();
        assert!(said.contains("dead.most: int8, zero for every calibration sample\n"), "{said}");
        assert!(said.contains("sum: int8\n"), "{said}");
        let labels = vec![0; 40];
        let report = Evaluation::try_new(&graph, &model, [(&x, labels)], &Accuracy, Isa::detect())?;
        assert_eq!(report.zero_layers, zero);
        for layer in &report.layers {
            // If f32 is zero, there is no noise; otherwise there is some.
            assert_eq!(layer.sqnr_db.is_none(), zero.contains(&layer.name), "{layer:?}");
        }

        let read = QuantizedModel::try_from_bytes(&model.to_bytes())?;
        assert_eq!(read.plan(), model.plan());
        assert_eq!(answers(&read, Isa::detect(), &x, 1), answers(&model, Isa::detect(), &x, 1));
    }
    Ok(())
}

#[test]
fn a_layer_that_was_dead_in_calibration_still_distinguishes_large_from_small()
-> Result<(), Box<dyn Error>> {
    // The rectifier passes numbers above 1; the calibration data is at most 0.5.
    let mut graph = Graph::new();
    let x = graph.input("image", &[1, 1, 1])?;
    let hidden = graph.linear("hidden", x, &[1.0], &[-1.0])?;
    let hidden = graph.rectifier("relu", hidden);
    graph.linear("answer", hidden, &[1.0], &[0.25])?;
    let model = QuantizedModel::try_quantize(&graph, [vec![0.5, -2.0]], Calibration::MinMax)?;
    assert_eq!(
        model.plan().layers.iter().map(|layer| layer.is_zero).collect::<Vec<_>>(),
        [true, false]
    );
    let y = answers(&model, Isa::detect(), &[-2.0, 0.5, 0.4], 1);
    assert!(furthest(&y, &[0.25; 3]) < 1e-4, "{y:?}");
    Ok(())
}

#[test]
fn constants_keep_their_value() -> Result<(), Box<dyn Error>> {
    for value in [0.7_f32, -3.0, 1e-6] {
        let mut graph = Graph::new();
        let x = graph.input("image", &[1, 2, 2])?;
        let constant =
            graph.convolution("constant", x, Window::new([1, 1]), 1, &[0.0], &[value])?;
        graph.convolution("double", constant, Window::new([1, 1]), 1, &[2.0], &[0.0])?;
        for calibration in ALL {
            let model = QuantizedModel::try_quantize(&graph, [images()], calibration)?;
            assert!(model.plan().layers.iter().all(|layer| !layer.is_zero));
            let y = answers(&model, Isa::detect(), &images(), 1);
            let off = furthest(&y, &vec![2.0 * value; y.len()]);
            assert!(off <= 0.01 * value.abs(), "{calibration:?} of {value}: {off}");
        }
    }
    Ok(())
}
