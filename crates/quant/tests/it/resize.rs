//! Resizing: in a network, in a file, as ONNX, and compared with burn.

use updraft_quant::slices::{Isa, Resizing};
use updraft_quant::{
    Calibration, Comparison, Graph, Port, Quantization, QuantizedModel, Window, Workspace,
};
use updraft_testing::scattered;

type Built<T> = Result<T, Box<dyn std::error::Error>>;

const ALL: [Resizing; 4] =
    [Resizing::Nearest, Resizing::NearestExact, Resizing::Linear, Resizing::LinearCorners];

/// A convolution, a resize of its output, and another convolution.
fn network(resizing: Resizing) -> Built<Graph> {
    let mut graph = Graph::new();
    let x = graph.input("image", &[3, 6, 5])?;
    let same = Window { padding: [1; 2], ..Window::new([3, 3]) };
    let small = graph.convolution("small", x, same, 1, &scattered(1, 8 * 27), &[0.1; 8])?;
    let large = graph.resize("large", small, [12, 9], resizing)?;
    let large = graph.rectifier("relu", large);
    let skip = graph.resize("skip", x, [12, 9], Resizing::Linear)?;
    let both = graph.concatenate("both", &[large, skip])?;
    graph.convolution("answer", both, Window::new([1, 1]), 1, &scattered(2, 4 * 11), &[0.0; 4])?;
    Ok(graph)
}

fn answers(model: &QuantizedModel, isa: Isa, x: &[f32], threads: usize) -> Vec<f32> {
    let numbers: usize = model.outputs().map(Port::numbers).sum();
    let mut y = vec![0.0; x.len() / model.inputs()[0].numbers() * numbers];
    model.run(isa, x, &mut y, &mut Workspace::new(), threads);
    y
}

#[test]
fn resized_images_stay_in_int8_and_survive_a_file() -> Built<()> {
    let set = scattered(3, 90 * 20);
    for resizing in ALL {
        let graph = network(resizing)?;
        let model = QuantizedModel::try_quantize(&graph, [&set], Calibration::MinMax)?;
        assert!(model.plan().is_int8(), "{}", model.plan());
        let comparison = Comparison::new(&graph, &model, [&set], Isa::detect());
        assert!(comparison.outputs_db[0] > 32.0, "{resizing:?}: {comparison:#?}");
        let right = answers(&model, Isa::Portable, &set, 1);
        let read = QuantizedModel::try_from_bytes(&model.to_bytes())?;
        assert_eq!(read.to_onnx(), model.to_onnx());
        for isa in Isa::DOTS.into_iter().filter(|isa| isa.is_available()) {
            for threads in [1, 3] {
                assert_eq!(answers(&read, isa, &set, threads), right, "{isa} {resizing:?}");
            }
        }
        // Kept in f32, it is the same with less noise.
        let by = Quantization::new(Calibration::MinMax).keep(["large"]);
        let kept = QuantizedModel::try_quantize(&graph, [&set], by)?;
        let read = QuantizedModel::try_from_bytes(&kept.to_bytes())?;
        assert_eq!(answers(&read, Isa::detect(), &set, 1), answers(&kept, Isa::detect(), &set, 1));
    }
    Ok(())
}

#[test]
fn sides_that_cannot_be_are_refused() -> Built<()> {
    let mut graph = Graph::new();
    let image = graph.input("image", &[3, 4, 4])?;
    let row = graph.input("row", &[3])?;
    for (x, sides) in [(image, [0, 4]), (image, [4, 1 << 30]), (row, [1, 1])] {
        let error = graph.resize("r", x, sides, Resizing::Linear).expect_err("refused");
        assert!(error.to_string().contains("cannot be resized to"), "{error}");
    }
    Ok(())
}

#[cfg(feature = "burn")]
mod of_burn {
    use burn::nn::interpolate::{Interpolate2d, Interpolate2dConfig, InterpolateMode};
    use burn::tensor::{Tensor, TensorData};
    use updraft_testing::devices;

    use super::*;

    #[test]
    fn burns_interpolation_is_captured_and_gives_the_same_numbers() -> Built<()> {
        let device = &devices()[0];
        let set = scattered(5, 4 * 35 * 6);
        // flex does not compute the exact nearest mode.
        let all = [
            (InterpolateMode::Nearest, true),
            (InterpolateMode::Linear, false),
            (InterpolateMode::Linear, true),
        ];
        for (mode, align_corners) in all {
            for sides in [[10, 14], [3, 11], [5, 7]] {
                let module: Interpolate2d = Interpolate2dConfig::new()
                    .with_output_size(Some(sides))
                    .with_mode(mode.clone())
                    .with_align_corners(align_corners)
                    .init();
                let graph = Graph::try_capture(&module, [4, 5, 7], |module, x| module.forward(x))?;
                let x = TensorData::new(set.clone(), [6, 4, 5, 7]);
                let y = module.forward(Tensor::<4>::from_data(x, device)).into_data();
                let right: Vec<f32> = y.iter::<f32>().collect();
                let given = graph.forward(&set).remove(0);
                let off = given.iter().zip(&right).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(off < 1e-5, "{mode:?} {align_corners} {sides:?}: {off}");
                let model = QuantizedModel::try_quantize(&graph, [&set], Calibration::MinMax)?;
                let given = answers(&model, Isa::detect(), &set, 1);
                let off = given.iter().zip(&right).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(off < 0.02, "{mode:?} {align_corners} {sides:?} in int8: {off}");
            }
        }
        let cubic = Interpolate2dConfig::new()
            .with_output_size(Some([9, 9]))
            .with_mode(InterpolateMode::Cubic)
            .init();
        let error = Graph::try_capture(&cubic, [4, 5, 7], |module, x| module.forward(x));
        let error = error.expect_err("sixteen pixels").to_string();
        assert!(error.contains("more than the four nearest pixels"), "{error}");
        Ok(())
    }
}
