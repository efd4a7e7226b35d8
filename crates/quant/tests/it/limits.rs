//! `ReLU6` and other limits as bounds of the layer before them.

use updraft_quant::slices::{Isa, Pooling, Resizing};
use updraft_quant::{
    Binary, Calibration, Function, Graph, Quantization, QuantizedModel, Unary, Window, Workspace,
};
use updraft_testing::scattered;

use super::network::block;

const SAME: Window = Window { padding: [1; 2], ..Window::new([3, 3]) };

type Built<T> = Result<T, Box<dyn std::error::Error>>;

#[test]
fn relu6_is_a_bound_of_the_layer_before_it_and_a_table_elsewhere() -> Built<()> {
    let relu6 = Function::binary(
        Binary::Minimum,
        &Function::identity().then(Unary::Rectifier),
        &Function::constant(6.0),
    );
    let mut graph = Graph::new();
    let x = graph.input("x", &[3])?;
    let weights = [4.0, 0.0, 0.0, 0.0, 4.0, 0.0];
    let y = graph.linear("fc", x, &weights, &[0.0, 1.0])?;
    let y = graph.function("relu6", y, &relu6)?;
    let z = graph.function("again", x, &relu6)?;
    graph.output("y", y);
    graph.output("z", z);
    let samples = [1.0, 0.5, -2.0, 7.0, -1.0, 3.0, 0.25, 7.0, 9.0_f32];
    let cut: Vec<f32> = samples.iter().map(|x| x.clamp(0.0, 6.0)).collect();
    let right = [vec![4.0, 3.0, 6.0, 0.0, 1.0, 6.0], cut];
    assert_eq!(graph.forward(&samples), right);
    let model = QuantizedModel::try_quantize(&graph, [&samples], Calibration::MinMax)?.only_int8();
    let names: Vec<String> = model.plan().layers.into_iter().map(|layer| layer.name).collect();
    assert_eq!(names, ["fc+relu6", "again"]);
    let run = |model: &QuantizedModel| {
        let [mut y, mut z] = [vec![f32::NAN; 6], vec![f32::NAN; 9]];
        let mut workspace = Workspace::new();
        model.run_all(Isa::detect(), &[&samples], &mut [&mut y, &mut z], &mut workspace, 1);
        [y, z]
    };
    let given = run(&model);
    for (given, right) in given.iter().flatten().zip(right.iter().flatten()) {
        assert!((given - right).abs() < 0.1 && (0.0..=6.0).contains(given), "{given}: {right}");
    }
    assert_eq!(run(&QuantizedModel::try_from_bytes(&model.to_bytes())?), given);
    let onnx = model.to_onnx()?;
    assert!(onnx.windows(4).any(|bytes| bytes == b"Clip"), "no operator for the limits");
    Ok(())
}

#[test]
fn limits_bound_every_kind_of_layer_in_int8_and_in_f32() -> Built<()> {
    let side = 8;
    for [low, high] in [[0.0, 6.0], [-0.25, 0.5], [f32::NEG_INFINITY, 0.375], [0.0, f32::INFINITY]]
    {
        let clip = Function::binary(
            Binary::Minimum,
            &Function::binary(Binary::Maximum, &Function::identity(), &Function::constant(low)),
            &Function::constant(high),
        );
        let mut graph = Graph::new();
        let x = graph.input("x", &[3, side, side])?;
        let dense = block(&mut graph, "dense", x, SAME, 8, 1)?;
        let dense = graph.function("clip", dense, &clip)?;
        let deep = block(&mut graph, "deep", dense, SAME, 8, 8)?;
        let deep = graph.function("clip", deep, &clip)?;
        let beside = block(&mut graph, "beside", dense, SAME, 8, 1)?;
        // Fused with the sum, whose other summand is read twice.
        let sum = graph.add("sum", deep, beside)?;
        let sum = graph.function("clip", sum, &clip)?;
        let plain = graph.add("plain", deep, sum)?;
        let plain = graph.function("clip", plain, &clip)?;
        let mean = graph.pool(
            "mean",
            plain,
            Window { stride: [2; 2], ..Window::new([2; 2]) },
            Pooling::MeanOfImage,
        )?;
        let mean = graph.function("clip", mean, &clip)?;
        let wide = graph.resize("wide", mean, [side; 2], Resizing::Linear)?;
        let wide = graph.function("clip", wide, &clip)?;
        let product =
            graph.linear("product", wide, &scattered(5, 4 * 8 * side * side), &[0.1; 4])?;
        let product = graph.function("clip", product, &clip)?;
        for (name, value) in
            [("dense", dense), ("sum", sum), ("plain", plain), ("mean", mean), ("wide", wide)]
        {
            graph.output(name, value);
        }
        graph.output("product", product);
        let samples = scattered(17, 6 * 3 * side * side);
        let right = graph.forward(&samples);
        let names = ["dense", "deep", "beside", "plain", "mean", "wide", "product"];
        let in_int8 = Quantization::new(Calibration::MinMax);
        for (by, least_db) in [(in_int8.clone(), 20.0), (in_int8.keep(names), 30.0)] {
            let model = QuantizedModel::try_quantize(&graph, [&samples], by)?.only_int8();
            let plan = model.plan();
            assert_eq!(plan.layers.len(), 7, "{plan:?}");
            let mut y: Vec<Vec<f32>> = right.iter().map(|y| vec![f32::NAN; y.len()]).collect();
            let mut slices: Vec<&mut [f32]> = y.iter_mut().map(Vec::as_mut_slice).collect();
            let mut workspace = Workspace::new();
            model.run_all(Isa::detect().dot(), &[&samples], &mut slices, &mut workspace, 2);
            for (y, right) in y.iter().zip(&right) {
                assert!(
                    y.iter().all(|y| (low - 0.01..=high + 0.01).contains(y)),
                    "{low} to {high}"
                );
                let square = |y: &mut dyn Iterator<Item = f32>| y.map(|y| y * y).sum::<f32>();
                let off = square(&mut y.iter().zip(right).map(|(y, right)| y - right));
                let size = square(&mut right.iter().copied());
                let db = 10.0 * (size / off).log10();
                assert!(db > least_db, "{db} dB within {low} to {high}");
            }
        }
    }
    Ok(())
}
