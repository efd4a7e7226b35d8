//! What the network computes, learns, reports and stores.

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{DType, Device, Distribution, FloatDType, Int, Tensor};
use updraft_integration::{
    BrightnessKind, DualPathwayConfig, DualPathwayNet, GateKind, IntegrationPoint, Normalization,
    Place,
};
use updraft_testing::{
    Numbers, Tolerance, alone, assert_close, autodiff_devices, devices, in_dtype,
    parameter_gradient_check, parameter_gradients, tolerance,
};

pub(crate) const CLASSES: usize = 5;

pub(crate) fn config() -> DualPathwayConfig {
    DualPathwayConfig::new(CLASSES, 4)
}

pub(crate) fn net(config: &DualPathwayConfig, device: &Device) -> DualPathwayNet {
    device.seed(11);
    config.init(device)
}

/// Images that no network would find special, as functions of the seed.
pub(crate) fn images(batch: usize, side: usize, device: &Device) -> Tensor<4> {
    device.seed(5);
    Tensor::random([batch, 3, side, side], Distribution::Normal(0.0, 1.0), device)
}

pub(crate) fn loss(net: &DualPathwayNet, rgb: Tensor<4>) -> Tensor<1> {
    cross_entropy(net.forward(rgb))
}

pub(crate) fn cross_entropy(logits: Tensor<2>) -> Tensor<1> {
    let [batch, _] = logits.dims();
    let device = logits.device();
    let labels: Vec<i64> = (0..batch as i64).map(|i| i % CLASSES as i64).collect();
    let labels = Tensor::<1, Int>::from_ints(labels.as_slice(), &device);
    CrossEntropyLossConfig::new().init(&device).forward(logits, labels)
}

/// Every float by path, in module order.
struct Floats {
    path: Vec<String>,
    found: Vec<(String, Vec<f64>)>,
}

impl ModuleVisitor for Floats {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.found.push((self.path.join("."), param.val().numbers()));
    }
}

pub(crate) fn floats(net: &DualPathwayNet) -> Vec<(String, Vec<f64>)> {
    let mut floats = Floats { path: Vec::new(), found: Vec::new() };
    net.visit(&mut floats);
    floats.found
}

#[test]
fn every_image_gets_one_logit_per_class() {
    for device in devices() {
        for stem_stride in [1, 2] {
            let net = net(&config().with_stem_stride(stem_stride), &device);
            // 19 is odd: no stage divides it evenly.
            for side in [8, 19] {
                let logits = net.forward(images(3, side, &device));
                assert_eq!(logits.dims(), [3, CLASSES]);
                assert!(logits.numbers().iter().all(|x| x.is_finite()));
            }
        }
    }
}

#[test]
fn every_parameter_receives_a_gradient() {
    use IntegrationPoint::{All, Early, Late, Middle};

    let cases = [vec![All], vec![Early], vec![Late], vec![Early, Middle], vec![]];
    for device in autodiff_devices() {
        for points in &cases {
            for stem_stride in [1, 2] {
                let config =
                    config().with_stem_stride(stem_stride).with_integration_points(points.clone());
                let net = net(&config, &device);
                let gradients = loss(&net, images(10, 8, &device)).backward();
                let gradients = parameter_gradients(&net, &gradients);
                let learned: usize =
                    gradients.iter().filter_map(|g| g.values.as_ref()).map(Vec::len).sum();
                assert_eq!(learned, net.parameter_count(), "{points:?}");
                for gradient in &gradients {
                    let values = gradient.values.as_ref().expect("counted above");
                    let largest = values.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
                    // Rounding alone leaves about 1e-9 where a norm cancels a parameter.
                    assert!(largest > 1e-6, "{}: {largest:e}, {points:?}", gradient.path);
                }
            }
        }
    }
}

#[test]
fn the_gradients_are_those_of_the_formula() {
    for device in autodiff_devices() {
        let net = in_dtype(net(&config(), &device), FloatDType::F64);
        let rgb = images(6, 8, &device).cast(FloatDType::F64);
        parameter_gradient_check(&net, 3, tolerance::GRADIENT, |net| loss(net, rgb.clone()));
    }
}

#[test]
fn only_what_is_used_is_allocated() {
    let _alone = alone();
    let device = Device::flex();
    let with = |points| net(&config().with_integration_points(points), &device);
    let paths = |net: &DualPathwayNet| -> Vec<String> {
        floats(net).into_iter().map(|(path, _)| path).collect()
    };
    let has = |net: &DualPathwayNet, part: &str| paths(net).iter().any(|path| path.contains(part));

    let all = with(vec![IntegrationPoint::All]);
    assert!(has(&all, "stages.0.gate") && has(&all, "stages.1.gate"));
    assert!(has(&all, "stages.1.carry") && !has(&all, "stages.0.carry"));

    let early = with(vec![IntegrationPoint::Early]);
    assert!(has(&early, "stages.0.gate") && !has(&early, "stages.1.gate"));
    assert!(has(&early, "stages.1.carry"), "the stream has to reach the pooled gate");

    let late = with(vec![IntegrationPoint::Late]);
    assert!(!has(&late, "carry"), "no stream exists before the last stage");

    assert!(!has(&with(vec![]), "stages.1.gate"));

    assert!(!has(&all, "adaptive"));
    let adaptive = net(&config().with_gate(GateKind::Adaptive), &device);
    let layers = ["adaptive.hidden.weight", "adaptive.output.weight"];
    for layer in layers {
        let found = paths(&adaptive).iter().filter(|path| path.ends_with(layer)).count();
        assert_eq!(found, 3, "{layer}: two stages and the pooled gate");
    }
    assert!(!has(&adaptive, "adaptive.hidden.bias") && !has(&adaptive, "adaptive.output.bias"));
}

/// Conv weights, norm scales and shifts, gates and classifier, counted by hand for width 4.
#[test]
fn the_parameter_count_is_that_of_the_formula() {
    let _alone = alone();
    let norm = |channels: usize| 2 * channels;
    let conv = |input: usize, output: usize, kernel: usize| {
        input * output * kernel * kernel + norm(output)
    };
    let (b, wide) = (4, 8);
    let stems = conv(3, b, 3) + conv(1, b, 3);
    let residual = |input: usize, output: usize| {
        let shortcut = if input == output { 0 } else { conv(input, output, 1) };
        conv(input, output, 3) + conv(output, output, 3) + shortcut
    };
    let gate = |channels: usize, streams: usize| {
        streams + conv(2 * channels, channels, 1) + conv(channels, channels, 1)
    };
    let stages = 2 * residual(b, b) + gate(b, 2) + 2 * residual(b, wide) + gate(wide, 3);
    let carry = conv(b, wide, 3);
    let pooled = 3 + 2 * wide * wide + norm(wide) + wide * wide;
    let classifier = wide * wide / 2 + wide / 2 + wide / 2 * CLASSES + CLASSES;

    let fixed = stems + stages + carry + pooled + classifier;
    assert_eq!(net(&config(), &Device::flex()).parameter_count(), fixed);

    // The last layer's bias is there without an adaptive gate, too.
    let adaptive = |channels: usize, streams: usize| {
        streams * channels * channels + norm(channels) + channels * streams
    };
    let adaptive = adaptive(b, 2) + adaptive(wide, 3) + adaptive(wide, 3);
    let net = net(&config().with_gate(GateKind::Adaptive), &Device::flex());
    assert_eq!(net.parameter_count(), fixed + adaptive);
}

#[test]
fn the_weights_start_as_in_the_original() {
    for device in devices() {
        let weights = net(&config(), &device).weights();
        let places: Vec<Place> = weights.iter().map(|w| w.stage).collect();
        assert_eq!(places, [Place::Stage(0), Place::Stage(1), Place::Pooled]);
        assert_close(&[weights[0].color, weights[0].brightness], &[0.5, 0.5], tolerance::F32);
        assert_eq!(weights[0].stream, None);
        for weights in &weights[1..] {
            let stream = weights.stream.expect("a stream arrives");
            let actual = [weights.color, weights.brightness, stream];
            assert_close(&actual, &[0.383_651_7, 0.383_651_7, 0.232_696_5], tolerance::F32);
        }
    }
}

#[test]
fn one_seed_gives_one_network() {
    for device in devices() {
        let [first, second] = [0, 1].map(|_| floats(&net(&config(), &device)));
        assert_eq!(first, second);
        device.seed(12);
        assert_ne!(first, floats(&config().init(&device)));
    }
}

#[test]
fn a_record_restores_the_network() {
    for device in autodiff_devices() {
        let trained = net(&config(), &device);
        let _ = trained.forward(images(4, 8, &device));
        let trained = trained.valid();
        let plain = device.clone().inner();
        plain.seed(99);
        let fresh = config().init(&plain);
        let rgb = images(2, 8, &plain);
        let expected = trained.forward(rgb.clone());
        assert_ne!(fresh.forward(rgb.clone()).numbers(), expected.numbers());
        let restored = fresh.load_record(trained.clone().into_record());
        assert_eq!(floats(&restored), floats(&trained));
        assert_eq!(restored.forward(rgb).numbers(), expected.numbers());
    }
}

#[test]
fn normalized_images_give_the_brightness_of_the_originals() {
    let normalization = Normalization { mean: [0.5, 0.4, 0.3], std: [0.25, 0.2, 0.1] };
    for device in devices() {
        let config =
            config().with_normalization(normalization).with_brightness(BrightnessKind::Bt601);
        let net = net(&config, &device);
        let rgb = images(2, 8, &device);
        let brightness = net.brightness().forward(rgb.clone());
        let expected = net.forward_pathways(rgb.clone(), brightness);
        assert_eq!(net.forward(rgb).numbers(), expected.numbers());
    }
}

#[test]
fn the_dtype_of_the_input_is_that_of_the_output() {
    for device in autodiff_devices() {
        for gate in [GateKind::Static, GateKind::Adaptive] {
            let config = config().with_gate(gate);
            let rgb = images(8, 8, &device);
            let expected = net(&config, &device).forward(rgb.clone());
            for (dtype, allowed) in [
                (FloatDType::F64, tolerance::F32_DEEP),
                (FloatDType::BF16, Tolerance::new(0.15, 0.1)),
            ] {
                let net = in_dtype(net(&config, &device), dtype);
                let (logits, weights) = net.forward_with_weights(rgb.clone().cast(dtype));
                assert_eq!(logits.dtype(), DType::from(dtype));
                assert_close(&logits, &expected, allowed);
                let wide = if dtype == FloatDType::F64 { DType::F64 } else { DType::F32 };
                assert!(weights.iter().all(|place| place.weights.dtype() == wide));
            }
        }
    }
}

#[test]
fn training_lowers_the_loss_and_moves_the_weights() {
    for device in autodiff_devices() {
        let mut net = net(&config(), &device);
        let rgb = images(10, 8, &device);
        let before = net.weights();
        let mut optimizer = SgdConfig::new().init();
        let first = loss(&net, rgb.clone()).into_scalar::<f32>();
        for _ in 0..40 {
            let gradients = loss(&net, rgb.clone()).backward();
            let gradients = GradientsParams::from_grads(gradients, &net);
            net = optimizer.step(0.1, net, gradients);
        }
        let last = loss(&net, rgb).into_scalar::<f32>();
        assert!(last < 0.75 * first, "{first} {last}");
        for (before, after) in before.iter().zip(net.weights()) {
            assert_ne!(before.color, after.color, "{}", before.stage);
            let sum = after.color + after.brightness + after.stream.unwrap_or(0.0);
            assert_close(&sum, &1.0_f64, tolerance::F32);
        }
    }
}

/// In f64 the convolutions and norms are burn's own, so this is training with our kernels beside
/// training without them.
#[test]
fn fifty_steps_in_f32_follow_those_in_f64() {
    for device in autodiff_devices() {
        let start = net(&config(), &device);
        let rgb = images(10, 8, &device);
        let losses = |mut net: DualPathwayNet, rgb: Tensor<4>| -> Vec<f64> {
            let mut optimizer = SgdConfig::new().init();
            let mut step = || {
                let loss = loss(&net, rgb.clone());
                let value = loss.clone().inner().numbers()[0];
                let gradients = GradientsParams::from_grads(loss.backward(), &net);
                net = optimizer.step(0.1, net.clone(), gradients);
                value
            };
            (0..50).map(|_| step()).collect()
        };
        let double = in_dtype(start.clone(), FloatDType::F64);
        let right = losses(double, rgb.clone().cast(FloatDType::F64));
        let given = losses(start, rgb);
        assert!(right[49] < 0.7 * right[0], "nothing was learned: {right:?}");
        // Rounding grows from step to step; after fifty it has taken three digits of f32's seven.
        assert_close(&given, &right, Tolerance::new(1e-4, 1e-4));
    }
}

#[test]
fn an_untrained_pass_changes_no_statistic() {
    for device in devices() {
        let net = net(&config(), &device);
        let before = floats(&net);
        let _ = net.forward(images(4, 8, &device));
        assert_eq!(before, floats(&net));
    }
}

#[test]
#[should_panic(expected = "axis 0 expected 2, got 1")]
fn brightness_of_another_batch_is_refused() {
    let _alone = alone();
    let device = Device::flex();
    let brightness = Tensor::zeros([1, 1, 8, 8], &device);
    let _ = net(&config(), &device).forward_pathways(images(2, 8, &device), brightness);
}
