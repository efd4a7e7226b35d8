//! A folded network gives the answers of the network in evaluation mode.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor, TensorData};
use updraft_integration::{
    BrightnessKind, Depth, DualPathwayConfig, DualPathwayNet, FoldOptions, GateKind,
    IntegrationPoint,
};
use updraft_testing::{
    Numbers, Tolerance, alone, assert_close, assert_close_to_largest, autodiff_devices, devices,
    in_dtype, tolerance,
};

const OPTIONS: [FoldOptions; 4] = [
    FoldOptions { gate_weights: false, grouped: false },
    FoldOptions { gate_weights: true, grouped: false },
    FoldOptions { gate_weights: false, grouped: true },
    FoldOptions { gate_weights: true, grouped: true },
];

/// Weights of about 0.55, 0.18 and 0.27.
const LOGITS: [f32; 3] = [0.5, -0.6, -0.2];

/// Sets norms as after a training, and the logits of all gates.
struct Trained {
    path: Vec<String>,
    logits: [f32; 3],
}

impl ModuleMapper for Trained {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.last().cloned().unwrap_or_default();
        let logits = self.logits;
        param.map(|old| {
            let (dims, device) = (old.dims(), old.device());
            let random =
                |low, high| Tensor::random(dims, Distribution::Uniform(low, high), &device);
            match name.as_str() {
                "running_mean" | "beta" => random(-0.5, 0.5),
                "running_var" => random(0.3, 3.0),
                // A negative factor changes the sign of a channel.
                "gamma" => random(-0.5, 1.5),
                "logits" => {
                    let values = logits[..dims[0]].to_vec();
                    Tensor::from_data(TensorData::new(values, dims), &device)
                }
                "weight" if self.path.iter().any(|part| part == "adaptive") => random(-1.0, 1.0),
                _ => old,
            }
        })
    }
}

fn trained(config: &DualPathwayConfig, logits: [f32; 3], device: &Device) -> DualPathwayNet {
    device.seed(17);
    config.init(device).map(&mut Trained { path: Vec::new(), logits })
}

fn images(batch: usize, side: usize, device: &Device) -> Tensor<4> {
    device.seed(5);
    Tensor::random([batch, 3, side, side], Distribution::Normal(0.0, 1.0), device)
}

/// Depths, integration points and strides of the stem.
fn configs() -> Vec<DualPathwayConfig> {
    use IntegrationPoint::{All, Early, Late, Middle};

    let shallow = [vec![All], vec![Early], vec![Late], vec![Early, Late], vec![]]
        .map(|points| (Depth::Shallow, points));
    let medium = [vec![All], vec![Early], vec![Middle]].map(|points| (Depth::Medium, points));
    let deep = [vec![All], vec![Middle, Late]].map(|points| (Depth::Deep, points));
    let places = shallow.into_iter().chain(medium).chain(deep).enumerate();
    places
        .map(|(at, (depth, points))| {
            let config = DualPathwayConfig::new(3, 2).with_depth(depth);
            config.with_integration_points(points).with_stem_stride(1 + at % 2)
        })
        .flat_map(|config| [config.clone(), config.with_gate(GateKind::Adaptive)])
        .collect()
}

/// In f64 all operations are burn's own, and a fold that is not the same function is off by far more
/// than rounding.
#[test]
fn folding_is_the_same_function_for_every_depth_and_integration_point() {
    for device in devices() {
        for config in configs() {
            let net = in_dtype(trained(&config, LOGITS, &device), FloatDType::F64);
            let rgb = images(2, 9, &device).cast(FloatDType::F64);
            let expected = net.forward(rgb.clone());
            for options in OPTIONS {
                let logits = net.folded_by(options).forward(rgb.clone());
                assert_eq!(logits.dtype(), DType::F64);
                assert_close_to_largest(&logits, &expected, tolerance::F64);
            }
        }
    }
}

#[test]
fn gates_that_nearly_switch_a_pathway_off_are_folded_or_keep_their_sums() {
    let config = DualPathwayConfig::new(3, 3);
    for device in devices() {
        for logits in [
            [40.0, -40.0, 0.0],
            [-40.0, 40.0, 10.0],
            [0.0, 0.0, 40.0],
            [40.0, 40.0, -40.0],
            // On both sides of 2⁻²⁰ = exp(−13.86).
            [-12.5, 0.0, -30.0],
            [-15.0, 0.0, -30.0],
        ] {
            let net = trained(&config, logits, &device);
            let rgb = images(2, 9, &device);
            let expected =
                in_dtype(net.clone(), FloatDType::F64).forward(rgb.clone().cast(FloatDType::F64));
            for options in OPTIONS {
                let logits = net.folded_by(options).forward(rgb.clone());
                assert_close_to_largest(&logits, &expected, tolerance::F32);
            }
        }
    }
}

/// Channels for Winograd's algorithm, and for one channel a group where both pathways are joined.
#[test]
fn the_kernels_give_the_answers_of_f64() {
    for device in devices() {
        for (channels, side, gate) in [
            (16, 20, GateKind::Static),
            (1, 12, GateKind::Static),
            (5, 11, GateKind::Static),
            (1, 12, GateKind::Adaptive),
            (5, 11, GateKind::Adaptive),
        ] {
            let config = DualPathwayConfig::new(4, channels).with_gate(gate);
            let net = trained(&config, LOGITS, &device);
            let rgb = images(3, side, &device);
            let expected =
                in_dtype(net.clone(), FloatDType::F64).forward(rgb.clone().cast(FloatDType::F64));
            assert_close_to_largest(&net.forward(rgb.clone()), &expected, tolerance::F32);
            for options in OPTIONS {
                let logits = net.folded_by(options).forward(rgb.clone());
                assert_close_to_largest(&logits, &expected, tolerance::F32);
            }
        }
    }
}

#[test]
fn a_network_that_trains_is_folded_by_its_running_statistics() {
    for device in autodiff_devices() {
        device.seed(11);
        let net = DualPathwayConfig::new(3, 4).init(&device);
        let rgb = images(6, 8, &device);
        let before = net.folded().forward(rgb.clone().inner());
        // A pass that trains moves the running statistics.
        let _ = net.forward(rgb.clone());
        let rgb = rgb.inner();
        let expected = net.valid().forward(rgb.clone());
        let logits = net.folded().forward(rgb);
        assert_ne!(before.numbers(), logits.numbers());
        assert_close_to_largest(&logits, &expected, tolerance::F32);
    }
}

#[test]
fn brightness_is_that_of_the_network_or_given() {
    for device in devices() {
        let config = DualPathwayConfig::new(3, 4).with_brightness(BrightnessKind::HsvValue);
        let net = trained(&config, LOGITS, &device);
        let (folded, rgb) = (net.folded(), images(2, 8, &device));
        let brightness = net.brightness().forward(rgb.clone());
        let given = folded.forward_pathways(rgb.clone(), brightness);
        assert_eq!(folded.forward(rgb.clone()).numbers(), given.numbers());
        assert_close_to_largest(&given, &net.forward(rgb.clone()), tolerance::F32);
        let dark = Tensor::zeros([2, 1, 8, 8], &device);
        let expected = net.forward_pathways(rgb.clone(), dark.clone());
        assert_close_to_largest(&folded.forward_pathways(rgb, dark), &expected, tolerance::F32);
    }
}

#[test]
fn the_dtype_of_the_network_is_kept() {
    for device in devices() {
        let master = DualPathwayConfig::new(3, 4).init(&device);
        let rgb = images(4, 8, &device);
        let expected = master.forward(rgb.clone());
        let net = in_dtype(master, FloatDType::BF16);
        for options in OPTIONS {
            let logits = net.folded_by(options).forward(rgb.clone().cast(FloatDType::BF16));
            assert_eq!(logits.dtype(), DType::BF16);
            assert_close(&logits, &expected, Tolerance::new(0.15, 0.1));
        }
    }
}

/// Folded, a weight of 4e-6 would leave maps without digits in f16, and make infinite weights.
#[test]
fn in_f16_gates_keep_their_weights() {
    for device in devices() {
        let net = trained(&DualPathwayConfig::new(3, 4), [-12.5, 0.0, -30.0], &device);
        let rgb = images(2, 9, &device);
        let expected = net.forward(rgb.clone());
        let net = in_dtype(net, FloatDType::F16);
        for options in OPTIONS {
            let logits = net.folded_by(options).forward(rgb.clone().cast(FloatDType::F16));
            assert_eq!(logits.dtype(), DType::F16);
            // Every layer rounds.
            assert_close_to_largest(&logits, &expected, tolerance::BF16);
        }
    }
}

#[test]
#[should_panic(expected = "axis 0 expected 2, got 1")]
fn brightness_of_another_batch_is_refused() {
    let _alone = alone();
    let device = Device::flex();
    let brightness = Tensor::zeros([1, 1, 8, 8], &device);
    let folded = DualPathwayConfig::new(3, 2).init(&device).folded();
    let _ = folded.forward_pathways(images(2, 8, &device), brightness);
}

#[test]
#[should_panic(expected = "a folded network has no gradients")]
fn images_on_a_graph_are_refused() {
    let _alone = alone();
    let folded = DualPathwayConfig::new(3, 2).init(&Device::flex()).folded();
    let _ = folded.forward(images(2, 8, &Device::flex().autodiff()));
}
