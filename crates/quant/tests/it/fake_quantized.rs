//! Modules that round to codes themselves, as after quantization-aware training.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, PaddingConfig2d};
use burn::tensor::activation::{relu, sigmoid, silu};
use burn::tensor::{Device, Tensor, TensorData, module};
use updraft_conv::fake_quantize;
use updraft_quant::slices::Isa;
use updraft_quant::{Calibration, Graph, QuantizedModel, WeightFormat, Workspace};
use updraft_testing::{devices, scattered};

const SIDE: usize = 10;

/// An expansion, a gate for each channel, and a projection that is added to the input.
#[derive(Module, Debug)]
struct Rounded {
    expand: Conv2d,
    norm: BatchNorm,
    gate: Conv2d,
    project: Conv2d,
}

impl Rounded {
    fn new(device: &Device) -> Self {
        device.seed(3);
        let conv = |channels, kernel: usize| {
            let padding = kernel / 2;
            Conv2dConfig::new(channels, [kernel; 2])
                .with_padding(PaddingConfig2d::Explicit(padding, padding, padding, padding))
                .init(device)
        };
        let norm = BatchNormConfig::new(8).init(device);
        let of = |seed, offset: f32| {
            let values: Vec<f32> = scattered(seed, 8).iter().map(|v| offset + 0.5 * v).collect();
            Tensor::<1>::from_floats(values.as_slice(), device)
        };
        norm.running_mean.update(of(1, 0.0));
        norm.running_var.update(of(2, 0.8));
        Self { expand: conv([4, 8], 3), norm, gate: conv([8, 8], 1), project: conv([8, 4], 1) }
    }

    /// With eight-bit activations and seven codes on either side of zero for weights.
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let device = x.device();
        let by = |value: f32| Tensor::<1>::full([1], value, &device);
        let round = |x: Tensor<4>, step, lowest| fake_quantize(x, by(step), by(lowest), 255);
        let conv = |conv: &Conv2d, x: Tensor<4>| {
            let weight = conv.weight.val();
            let steps: Vec<f32> = (0..weight.dims()[0]).map(|c| 0.03 + 0.01 * c as f32).collect();
            let steps = Tensor::<1>::from_floats(steps.as_slice(), &device);
            let weight = fake_quantize(weight, steps, by(-7.0), 14);
            let bias = conv.bias.as_ref().map(|bias| bias.val());
            let padding = [conv.weight.dims()[2] / 2; 2];
            let options = burn::tensor::ops::ConvOptions::new([1, 1], padding, [1, 1], 1);
            module::conv2d(x, weight, bias, options)
        };
        let x = round(x, 0.01, -100.0);
        let inside = round(self.norm.forward(conv(&self.expand, x.clone())), 0.02, -120.0);
        let inside = round(silu(inside), 0.011, -26.0);
        let means = round(inside.clone().mean_dim(2).mean_dim(3), 0.004, -40.0);
        let gate = round(relu(conv(&self.gate, means)), 0.005, 0.0);
        let gate = round(sigmoid(gate), 1.0 / 255.0, 0.0);
        let gated = round(inside * gate, 0.01, -20.0);
        round(conv(&self.project, gated) + x, 0.015, -110.0)
    }
}

#[test]
fn the_integer_network_has_the_codes_of_the_module() {
    for device in devices() {
        let module = Rounded::new(&device);
        let graph = Graph::try_capture(&module, [4, SIDE, SIDE], Rounded::forward);
        let graph = graph.expect("every operation has a form");
        assert!(graph.has_schemes());
        let numbers: Vec<f32> = scattered(9, 6 * 4 * SIDE * SIDE);
        let x = TensorData::new(numbers.clone(), [6, 4, SIDE, SIDE]);
        let expected: Vec<f32> =
            module.forward(Tensor::from_data(x, &device)).into_data().iter::<f32>().collect();
        // Calibrated on something of another range: the schemes are those of the module.
        let narrow: Vec<f32> = numbers.iter().map(|value| 0.1 * value).collect();
        for calibration in [Calibration::MinMax, Calibration::MeanSquaredError] {
            let model = QuantizedModel::try_quantize(&graph, [&narrow[..]], calibration);
            let model = model.expect("a model");
            assert!(model.plan().is_int8(), "{}", model.plan());
            // Weights of seven codes on either side of zero are stored in four bits.
            let formats = model.plan().layers.into_iter().filter_map(|layer| layer.weights);
            assert!(formats.map(WeightFormat::bits).eq([4; 3]), "{}", model.plan());
            let model = QuantizedModel::try_from_bytes(&model.to_bytes()).expect("its own file");
            let mut found = vec![0.0; expected.len()];
            model.run(Isa::detect(), &numbers, &mut found, &mut Workspace::new(), 1);
            let in_f32 = graph.forward(&numbers[..]).remove(0);
            for others in [found, in_f32] {
                let steps = others.iter().zip(&expected).map(|(a, b)| (a - b).abs() / 0.015);
                let apart = steps.clone().filter(|steps| *steps > 0.5).count();
                let most = steps.fold(0.0, f32::max);
                assert!(most < 1.01, "{most} steps");
                // Only sums that fall next to the middle between two codes; that of a gate counts
                // for its whole channel.
                assert!(apart * 20 < expected.len(), "{apart} of {}", expected.len());
            }
        }
    }
}
