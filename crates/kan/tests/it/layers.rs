//! Layers on burn's tensors: kernels compared with the plain path, on every device of the tests.

use burn::module::Module;
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use updraft_kan::{Activation, Kan, KanConfig, KanLinear, KanLinearConfig, LayerPath, Outside};
use updraft_simd::{Bf16Unit, Products};
use updraft_testing::{
    Numbers, assert_close, assert_close_to_largest, autodiff_devices, devices, gradient_check,
    in_dtype, parameter_gradient_check, parameter_gradients, tolerance,
};

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.5, 1.5), device)
}

fn configs() -> Vec<KanLinearConfig> {
    let config = |degree| KanLinearConfig::new(5, 18).with_degree(degree).with_noise_scale(1.0);
    vec![
        config(3),
        config(2).with_outside(Outside::Clamp).with_bias(true),
        config(1).with_outside(Outside::Extend).with_scaler(false),
        config(4).with_activation(None).with_bias(true),
        config(3).with_activation(Some(Activation::Relu)).with_intervals(20),
        config(0).with_activation(Some(Activation::Identity)).with_scaler(false),
    ]
}

/// A layer's output and the gradients of `Σ y·g`, by path.
fn results(layer: &KanLinear, x: &Tensor<2>, g: &Tensor<2>) -> Vec<(String, Vec<f64>)> {
    let x = x.clone().require_grad();
    let y = layer.forward(x.clone());
    let gradients = (y.clone() * g.clone()).sum().backward();
    let dx = x.grad(&gradients).expect("takes part").numbers();
    let mut all = vec![("y".to_owned(), y.numbers()), ("x".to_owned(), dx)];
    for gradient in parameter_gradients(layer, &gradients) {
        all.push((gradient.path, gradient.values.expect("takes part")));
    }
    all
}

#[test]
fn kernels_and_the_plain_path_agree_with_all_gradients() {
    for device in autodiff_devices() {
        device.seed(3);
        for config in configs() {
            let layer = config.init(&device);
            let (x, g) = (random([40, 5], &device), random([40, 18], &device));
            let ours = results(&layer, &x, &g);
            let plain = results(&layer.with_path(LayerPath::Plain), &x, &g);
            assert_eq!(ours.len(), plain.len());
            for ((name, ours), (_, plain)) in ours.iter().zip(&plain) {
                println!("{name} of {config}");
                assert_close_to_largest(ours, plain, tolerance::F32);
            }
        }
    }
}

#[test]
fn what_is_not_finite_passes_the_plain_path_as_it_passes_the_kernels() {
    let kinds = |numbers: &[f64]| -> Vec<_> {
        numbers.iter().map(|number| (number.is_nan(), number.is_infinite())).collect()
    };
    for device in devices() {
        device.seed(8);
        for outside in [Outside::Zero, Outside::Clamp, Outside::Extend] {
            for (degree, activation) in [0, 1, 2, 3, 5]
                .into_iter()
                .flat_map(|degree| [(degree, None), (degree, Some(Activation::Silu))])
            {
                let config = KanLinearConfig::new(1, 3).with_degree(degree).with_outside(outside);
                let layer = config.with_activation(activation).init(&device);
                let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e38, -3e38, 0.3];
                let bad = if outside == Outside::Extend { &bad[..3] } else { &bad };
                let x = Tensor::<1>::from_floats(bad, &device).reshape([bad.len(), 1]);
                let ours = layer.forward(x.clone()).numbers();
                let plain = layer.with_path(LayerPath::Plain).forward(x).numbers();
                assert_eq!(kinds(&ours), kinds(&plain), "degree {degree}, {outside:?}");
            }
        }
    }
}

#[test]
fn an_empty_batch_has_empty_outputs_and_gradients_of_zero() {
    for device in autodiff_devices() {
        let layer = KanLinearConfig::new(3, 2).with_bias(true).init(&device);
        for layer in [layer.clone(), layer.with_path(LayerPath::Plain)] {
            assert_eq!(layer.forward(Tensor::<2>::zeros([0, 3], &device)).dims(), [0, 2]);
            let y = layer.forward(Tensor::<3>::zeros([4, 0, 3], &device));
            assert_eq!(y.dims(), [4, 0, 2]);
            for gradient in parameter_gradients(&layer, &y.sum().backward()) {
                let values = gradient.values.expect("takes part");
                assert!(values.iter().all(|&value| value == 0.0), "{}", gradient.path);
            }
        }
    }
}

#[test]
fn packed_layers_and_networks_give_the_same_bits() {
    for device in devices() {
        device.seed(9);
        let network = KanConfig::new(vec![5, 18, 2]).init(&device);
        for network in [network.clone(), network.with_path(LayerPath::Plain)] {
            let packed = network.pack();
            assert_eq!(packed.layers[0].path(), network.layers[0].path());
            for x in [random([1, 1, 5], &device), random([2, 20, 5], &device)] {
                let (y, expected) = (packed.forward(x.clone()), network.forward(x.clone()));
                assert_eq!(y.numbers(), expected.numbers());
                let narrow = x.cast(FloatDType::BF16);
                let y = packed.forward(narrow.clone());
                assert_eq!(y.dtype(), DType::BF16);
                assert_eq!(y.numbers(), network.forward(narrow).numbers());
            }
        }
    }
}

#[cfg(feature = "flex")]
#[test]
#[should_panic(expected = "a packed layer has no gradients")]
fn a_gradient_through_a_packed_layer_is_refused() {
    let _alone = updraft_testing::alone();
    let device = Device::flex().autodiff();
    let packed = KanLinearConfig::new(2, 3).init(&device).pack();
    let x = random([4, 2], &device);
    assert_eq!(packed.forward(x.clone()).dims(), [4, 3]);
    let _ = packed.forward(x.require_grad());
}

#[cfg(feature = "flex")]
#[test]
#[should_panic(expected = "the kernels compute in f32; f64 takes the plain path")]
fn kernels_forced_on_f64_are_refused() {
    let _alone = updraft_testing::alone();
    let device = Device::flex();
    let layer = KanLinearConfig::new(2, 3).init(&device);
    let path = layer.path();
    let _ = layer.with_path(path).forward(random([4, 2], &device).cast(FloatDType::F64));
}

#[test]
fn the_gradients_of_the_plain_path_are_difference_quotients() {
    for device in autodiff_devices() {
        device.seed(4);
        for config in configs().into_iter().filter(|config| config.degree > 1) {
            // A difference quotient may be taken across the kink of a rectifier.
            let config = config.with_activation(Some(Activation::Silu));
            let layer = in_dtype(config.init(&device), FloatDType::F64);
            assert_eq!(
                layer.forward(random([2, 5], &device).cast(FloatDType::F64)).dtype(),
                DType::F64
            );
            let x = random([6, 5], &device);
            gradient_check(x.clone(), |x| (layer.forward(x).powi_scalar(2)).sum());
            let x = x.cast(FloatDType::F64);
            parameter_gradient_check(&layer, 6, tolerance::GRADIENT, |layer| {
                layer.forward(x.clone()).powi_scalar(2).sum()
            });
        }
    }
}

#[test]
fn narrow_inputs_are_computed_wide_and_rounded_once() {
    for device in devices() {
        device.seed(5);
        let layer = KanLinearConfig::new(30, 9).init(&device);
        let x = random([17, 30], &device).cast(FloatDType::BF16);
        let exact = layer.forward(x.clone().cast(FloatDType::F32)).cast(FloatDType::BF16);
        let narrow = layer.forward(x.clone());
        assert_eq!(narrow.dtype(), DType::BF16);
        assert_eq!(narrow.numbers(), exact.numbers());
        let plain = layer.with_path(LayerPath::Plain).forward(x);
        assert_close(&plain.numbers(), &exact.numbers(), tolerance::BF16);
    }
}

#[test]
fn narrow_inputs_have_the_gradients_of_wide_ones() {
    for device in autodiff_devices() {
        device.seed(10);
        let layer = KanLinearConfig::new(5, 18).init(&device);
        let (x, g) = (random([40, 5], &device), random([40, 18], &device));
        let [x, g] = [x, g].map(|tensor| tensor.cast(FloatDType::BF16));
        let wide = [&x, &g].map(|tensor| tensor.clone().cast(FloatDType::F32));
        let exact = results(&layer, &wide[0], &wide[1]);
        for layer in [layer.clone(), layer.with_path(LayerPath::Plain)] {
            for ((name, narrow), (_, exact)) in results(&layer, &x, &g).iter().zip(&exact) {
                println!("{name}");
                assert_close(narrow, exact, tolerance::BF16);
            }
        }
    }
}

#[test]
fn a_network_takes_any_leading_axes_and_its_record_restores_it() {
    for device in devices() {
        device.seed(6);
        let config = KanConfig::new(vec![3, 7, 2]);
        let network = config.init(&device);
        let x = random([4, 5, 3], &device);
        let y = network.forward(x.clone());
        assert_eq!(y.dims(), [4, 5, 2]);
        let flat = network.forward(x.clone().reshape([20, 3]));
        assert_eq!(y.numbers(), flat.numbers());
        let other: Kan = config.init(&device);
        assert!(other.forward(x.clone()).numbers() != y.numbers());
        let restored = other.load_record(network.into_record());
        assert_eq!(restored.forward(x).numbers(), y.numbers());
    }
}

#[test]
fn the_gradient_of_a_frozen_input_or_layer_is_left_out() {
    for device in autodiff_devices() {
        let layer = KanLinearConfig::new(2, 3).init(&device);
        let x = random([4, 2], &device);
        let gradients = layer.forward(x.clone()).sum().backward();
        assert!(x.grad(&gradients).is_none());
        let x = x.require_grad();
        let frozen = layer.no_grad();
        let gradients = frozen.forward(x.clone()).sum().backward();
        assert!(x.grad(&gradients).is_some());
        assert!(parameter_gradients(&frozen, &gradients).iter().all(|g| g.values.is_none()));
    }
}

#[test]
fn burns_balanced_checkpointing_changes_no_bit() {
    for device in autodiff_devices() {
        let results = |device: &Device| {
            device.seed(7);
            let network = KanConfig::new(vec![3, 5, 2]).init(device);
            let x = random([30, 3], device).require_grad();
            let y = network.forward(x.clone().tanh()).tanh();
            let gradients = y.clone().powi_scalar(2).sum().backward();
            let mut all = vec![y.numbers(), x.grad(&gradients).expect("takes part").numbers()];
            let of_parameters = parameter_gradients(&network, &gradients).into_iter();
            all.extend(of_parameters.map(|gradient| gradient.values.expect("takes part")));
            all
        };
        assert_eq!(results(&device.clone().gradient_checkpointing()), results(&device));
    }
}

#[test]
fn a_layer_reports_its_path() {
    for device in devices() {
        let layer = KanLinearConfig::new(2, 3).init(&device);
        assert_eq!(layer.path(), LayerPath::of(&device));
        assert_eq!(layer.with_path(LayerPath::Plain).path().to_string(), "plain");
    }
}

#[test]
fn a_config_that_makes_no_layer_is_refused() {
    let config = KanLinearConfig::new(2, 3);
    assert_eq!(config.validate(), Ok(()));
    let message = |config: KanLinearConfig| config.validate().unwrap_err().to_string();
    assert_eq!(
        message(config.clone().with_intervals(0)),
        "a grid needs at least 1 interval, got 0"
    );
    assert_eq!(message(config.with_noise_scale(-1.0)), "noise scale -1 is negative or not finite");
    let message = message(KanLinearConfig::new(0, 3));
    assert_eq!(message, "a layer needs inputs and outputs, got 0 and 3");
    let error = KanConfig::new(vec![3]).validate().unwrap_err();
    assert_eq!(error.to_string(), "a network needs at least 2 widths, got 1");
}

#[test]
fn a_scope_of_products_in_bf16_reaches_the_gradients_and_ends() {
    let device = Device::flex().autodiff();
    device.seed(9);
    let layer = KanLinearConfig::new(32, 512).with_noise_scale(1.0).init(&device);
    let (x, g) = (random([512, 32], &device), random([512, 512], &device));
    let exact = results(&layer, &x, &g);
    let rounded = Products::Bf16.scope(|| results(&layer, &x, &g));
    for ((name, exact), (_, rounded)) in exact.iter().zip(&rounded) {
        let norm = |all: &mut dyn Iterator<Item = f64>| all.map(|x| x * x).sum::<f64>().sqrt();
        let error = norm(&mut exact.iter().zip(rounded).map(|(a, b)| a - b));
        let relative = error / norm(&mut exact.iter().copied());
        match Bf16Unit::detect().is_fast() {
            true => assert!(relative > 1e-4 && relative < 5e-3, "{name}: {relative}"),
            false => assert_eq!(relative, 0.0, "there is no unit"),
        }
    }
    assert_eq!(results(&layer, &x, &g), exact, "the scope ended");
    // Packed weights are of f32: evaluation within the scope does not read them.
    let device = Device::flex();
    let layer = KanLinearConfig::new(32, 512).init(&device);
    let x = random([512, 32], &device);
    let all: Vec<_> =
        (0..3).map(|_| Products::Bf16.scope(|| layer.forward(x.clone())).numbers()).collect();
    assert!(all.iter().all(|y| *y == all[0]));
}
