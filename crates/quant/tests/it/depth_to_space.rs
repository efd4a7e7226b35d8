//! Depth-to-space and transposed convolutions: in a network, in a file, compared with burn.

use updraft_quant::{Graph, Window};
use updraft_testing::scattered;

use crate::round_trip::{Built, survives_a_file};

#[test]
fn blocks_stay_in_int8_and_survive_a_file() -> Built<()> {
    let mut graph = Graph::new();
    let x = graph.input("image", &[3, 5, 4])?;
    let wide =
        graph.convolution("wide", x, Window::new([1, 1]), 1, &scattered(1, 36), &[0.1; 12])?;
    let large = graph.depth_to_space("large", wide, 2)?;
    assert_eq!(graph.shape(large), [3, 10, 8]);
    let same = Window { padding: [1; 2], ..Window::new([3, 3]) };
    graph.convolution("answer", large, same, 1, &scattered(2, 2 * 27), &[0.0; 2])?;
    survives_a_file(&graph, &scattered(3, 60 * 20), "large")
}

#[test]
fn channels_that_are_no_blocks_are_refused() -> Built<()> {
    let mut graph = Graph::new();
    let image = graph.input("image", &[6, 4, 4])?;
    let row = graph.input("row", &[4])?;
    for (x, block) in [(image, 2), (image, 0), (image, usize::MAX), (row, 2)] {
        let error = graph.depth_to_space("b", x, block).expect_err("refused").to_string();
        assert!(error.contains("are no blocks of"), "{error}");
    }
    Ok(())
}

#[cfg(feature = "burn")]
mod of_burn {
    use burn::nn::conv::{ConvTranspose2d, ConvTranspose2dConfig};
    use burn::tensor::{Tensor, TensorData};
    use updraft_quant::slices::Isa;
    use updraft_quant::{Arithmetic, Calibration, QuantizedModel, Reason};
    use updraft_testing::devices;

    use super::*;
    use crate::round_trip::{answers, furthest};

    #[test]
    fn burns_transposed_convolution_is_captured_and_gives_the_same_numbers() -> Built<()> {
        let device = &devices()[0];
        let set = scattered(5, 4 * 35 * 6);
        // Kernel, stride, padding and additional outputs.
        let cases = [
            ([2, 2], 2, [0, 0], [0, 0]),
            ([3, 3], 3, [0, 0], [0, 0]),
            ([4, 4], 2, [1, 1], [0, 0]),
            ([3, 3], 2, [1, 1], [1, 1]),
            ([3, 2], 2, [0, 0], [0, 0]),
            ([5, 7], 3, [2, 1], [1, 0]),
            ([3, 3], 1, [1, 1], [0, 0]),
        ];
        for (index, (kernel, stride, padding, more)) in cases.into_iter().enumerate() {
            let block = format!("{kernel:?} by {stride}");
            let config = ConvTranspose2dConfig::new([4, 3], kernel).with_stride([stride; 2]);
            let config = config.with_padding(padding).with_padding_out(more);
            let module: ConvTranspose2d = config.with_bias(index % 2 == 0).init(device);
            let graph = Graph::try_capture(&module, [4, 5, 7], |module, x| module.forward(x))?;
            let x = TensorData::new(set.clone(), [6, 4, 5, 7]);
            let y = module.forward(Tensor::<4>::from_data(x, device)).into_data();
            let right: Vec<f32> = y.iter::<f32>().collect();
            let given = graph.forward(&set).remove(0);
            let off = furthest(&given, &right);
            assert!(off < 1e-5, "{block}: {off}");
            let model = QuantizedModel::try_quantize(&graph, [&set], Calibration::MinMax)?;
            let given = answers(&model, Isa::detect(), &set, 1);
            let greatest = right.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
            let off = furthest(&given, &right);
            assert!(off < 0.02 * greatest, "{block} in int8: {off} of {greatest}");
        }
        let dilated: ConvTranspose2d =
            ConvTranspose2dConfig::new([4, 3], [3; 2]).with_dilation([2; 2]).init(device);
        let graph = Graph::try_capture(&dilated, [4, 5, 7], |module, x| module.forward(x))?;
        let model = QuantizedModel::try_quantize(&graph, [&set], Calibration::MinMax)?;
        assert_eq!(model.plan().layers[0].arithmetic, Arithmetic::F32(Reason::InBurn));
        Ok(())
    }
}
