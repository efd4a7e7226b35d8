//! Resizing: in a network, in a file, as ONNX, and compared with burn.

use updraft_quant::slices::Resizing;
use updraft_quant::{Graph, Window};
use updraft_testing::scattered;

use crate::round_trip::{Built, survives_a_file};

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
    let both = graph.concatenate("both", &[large, skip], 0)?;
    graph.convolution("answer", both, Window::new([1, 1]), 1, &scattered(2, 4 * 11), &[0.0; 4])?;
    Ok(graph)
}

#[test]
fn resized_images_stay_in_int8_and_survive_a_file() -> Built<()> {
    let set = scattered(3, 90 * 20);
    ALL.into_iter().try_for_each(|resizing| survives_a_file(&network(resizing)?, &set, "large"))
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
    use updraft_quant::slices::Isa;
    use updraft_quant::{Arithmetic, Calibration, QuantizedModel, Reason};
    use updraft_testing::devices;

    use super::*;
    use crate::round_trip::{answers, furthest};

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
                let off = furthest(&given, &right);
                assert!(off < 1e-5, "{mode:?} {align_corners} {sides:?}: {off}");
                let model = QuantizedModel::try_quantize(&graph, [&set], Calibration::MinMax)?;
                let given = answers(&model, Isa::detect(), &set, 1);
                let off = furthest(&given, &right);
                assert!(off < 0.02, "{mode:?} {align_corners} {sides:?} in int8: {off}");
            }
        }
        let cubic = Interpolate2dConfig::new()
            .with_output_size(Some([9, 9]))
            .with_mode(InterpolateMode::Cubic)
            .init();
        // Of sixteen pixels: left to burn.
        let graph = Graph::try_capture(&cubic, [4, 5, 7], |module, x| module.forward(x))?;
        let model = QuantizedModel::try_quantize(&graph, [&set], Calibration::MinMax)?;
        assert_eq!(model.plan().layers[0].arithmetic, Arithmetic::F32(Reason::InBurn));
        Ok(())
    }
}
