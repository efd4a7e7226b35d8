//! Layers on burn's tensors: kernels compared with the plain path, and records with burn's.

use burn::module::Module;
use burn::nn::conv::{Conv1dConfig, Conv2dConfig};
use burn::nn::{self, BatchNormConfig, PaddingConfig1d, PaddingConfig2d};
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use updraft_conv::slices::Isa;
use updraft_conv::{
    Activation, BatchNorm, Conv1d, Conv2d, ConvNormActivation, LayerPath, activate, release_memory,
};
use updraft_testing::{
    Numbers, alone, assert_close, autodiff_devices, devices, gradient_check, in_dtype,
    parameter_gradient_check, parameter_gradients, tolerance,
};

const ACTIVATIONS: [Activation; 7] = [
    Activation::Identity,
    Activation::Relu,
    Activation::Silu,
    Activation::Elu,
    Activation::Relu6,
    Activation::HardSwish,
    Activation::Gelu,
];

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.5, 1.5), device)
}

fn conv_config() -> Conv2dConfig {
    Conv2dConfig::new([4, 6], [3, 3])
        .with_stride([2, 1])
        .with_groups(2)
        .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
}

fn block(activation: Activation, device: &Device) -> ConvNormActivation {
    let conv = Conv2d::new(&conv_config().with_bias(false), device);
    let norm = BatchNorm::new(&BatchNormConfig::new(6), device);
    ConvNormActivation::new(conv, norm, activation)
}

/// A result with the gradients of `Σ y·g` for the input and every parameter, by name.
fn results<M: Module, const D: usize>(
    module: &M,
    x: &Tensor<D>,
    forward: impl Fn(&M, Tensor<D>) -> Tensor<D>,
) -> Vec<(String, Vec<f64>)> {
    let x = x.clone().detach().require_grad();
    let y = forward(module, x.clone());
    // Irregular weights, the same for every path.
    let g = (y.clone().detach() * 3.0).sin();
    let gradients = (y.clone() * g).sum().backward();
    let dx = x.grad(&gradients).expect("takes part").numbers();
    let mut all = vec![("y".to_owned(), y.numbers()), ("x".to_owned(), dx)];
    for gradient in parameter_gradients(module, &gradients) {
        all.push((gradient.path, gradient.values.expect("takes part")));
    }
    all
}

fn assert_same(ours: &[(String, Vec<f64>)], plain: &[(String, Vec<f64>)]) {
    assert_eq!(ours.len(), plain.len());
    for ((name, ours), (of_plain, plain)) in ours.iter().zip(plain) {
        assert_eq!(name, of_plain);
        let most = plain.iter().fold(1.0_f64, |most, value| most.max(value.abs()));
        let share = |values: &[f64]| values.iter().map(|v| v / most).collect::<Vec<_>>();
        assert_close(&share(ours), &share(plain), tolerance::F32);
    }
}

#[test]
fn convolutions_agree_with_the_plain_path_in_all_gradients() {
    for device in autodiff_devices() {
        device.seed(21);
        for config in [
            conv_config(),
            conv_config().with_bias(false).with_dilation([1, 2]),
            Conv2dConfig::new([4, 9], [3, 5]).with_padding(PaddingConfig2d::Same),
            // An even kernel is padded unevenly, which burn's own operation computes.
            Conv2dConfig::new([4, 3], [2, 2]).with_padding(PaddingConfig2d::Same),
        ] {
            let layer = Conv2d::new(&config, &device);
            let x = random([3, 4, 9, 7], &device);
            for activation in ACTIVATIONS {
                let forward = |layer: &Conv2d, x| layer.forward_activated(x, activation);
                let ours = results(&layer, &x, forward);
                let plain = layer.clone().with_path(LayerPath::Plain);
                assert_same(&ours, &results(&plain, &x, forward));
            }
            let burns: nn::conv::Conv2d = layer.clone().into();
            let ours = results(&layer, &x, |layer, x| layer.forward(x));
            assert_same(&ours, &results(&burns, &x, |layer, x| layer.forward(x)));
        }
    }
}

#[test]
fn sequences_are_convolved_as_burns() {
    for device in autodiff_devices() {
        device.seed(22);
        for config in [
            Conv1dConfig::new(4, 6, 3).with_stride(2).with_padding(PaddingConfig1d::Explicit(1, 1)),
            Conv1dConfig::new(4, 6, 5).with_groups(2).with_padding(PaddingConfig1d::Same),
        ] {
            let layer = Conv1d::new(&config, &device);
            let x = random([3, 4, 17], &device);
            let ours = results(&layer, &x, |layer, x| layer.forward(x));
            let burns = config.init(&device).load_record(layer.clone().into_record());
            assert_same(&ours, &results(&burns, &x, |layer, x| layer.forward(x)));
            let plain = layer.with_path(LayerPath::Plain);
            assert_eq!(plain.path(), LayerPath::Plain);
            assert_same(&ours, &results(&plain, &x, |layer, x| layer.forward(x)));
        }
    }
}

#[test]
fn norms_agree_with_the_plain_path_in_all_gradients() {
    for device in autodiff_devices() {
        device.seed(23);
        for activation in ACTIVATIONS {
            let make = || BatchNorm::new(&BatchNormConfig::new(5), &device);
            let (x, residual) = (random([4, 5, 6, 3], &device), random([4, 5, 6, 3], &device));
            let trained = |layer: &BatchNorm, x| layer.forward_activated(x, activation);
            let with = |layer: &BatchNorm, x: Tensor<4>| {
                let residual = residual.clone() + x.clone() * 0.5;
                layer.forward_residual(x, residual, activation)
            };
            // Each has running statistics of its own, moved by two passes.
            let (ours, plain) = (make(), make().with_path(LayerPath::Plain));
            assert_same(&results(&ours, &x, trained), &results(&plain, &x, trained));
            assert_same(&results(&ours, &x, with), &results(&plain, &x, with));
            for (ours, plain) in
                [(&ours.running_mean, &plain.running_mean), (&ours.running_var, &plain.running_var)]
            {
                assert_close(&ours.value_sync(), &plain.value_sync().numbers(), tolerance::F32);
            }
            // Frozen on the device of training, it uses them, and gradients flow to the input.
            let input_gradient = |layer: &BatchNorm| {
                let x = x.clone().detach().require_grad();
                let frozen = layer.clone().freeze();
                let y = frozen.forward_residual(x.clone(), residual.clone(), activation);
                let gradients = (y.clone() * x.clone().detach()).sum().backward();
                [y.numbers(), x.grad(&gradients).expect("takes part").numbers()]
            };
            for (ours, plain) in input_gradient(&ours).iter().zip(input_gradient(&plain)) {
                assert_close(ours, &plain, tolerance::F32);
            }
        }
    }
}

#[test]
fn blocks_agree_with_the_plain_path_in_all_gradients() {
    for device in autodiff_devices() {
        device.seed(24);
        for activation in ACTIVATIONS {
            let ours = block(activation, &device);
            let plain = block(activation, &device).load_record(ours.clone().into_record());
            let plain = plain.with_path(LayerPath::Plain);
            assert_eq!(plain.path(), LayerPath::Plain);
            let x = random([3, 4, 7, 7], &device);
            let with = |block: &ConvNormActivation, x: Tensor<4>| {
                let residual = x.clone().slice([0..3, 0..3, 0..4]).repeat(&[1, 2, 1, 1]);
                block.forward_residual(x, residual)
            };
            assert_same(
                &results(&ours, &x, |block, x| block.forward(x)),
                &results(&plain, &x, |block, x| block.forward(x)),
            );
            assert_same(&results(&ours, &x, with), &results(&plain, &x, with));
        }
    }
}

#[test]
fn every_path_of_this_processor_computes_the_same() {
    for device in autodiff_devices() {
        device.seed(25);
        let layer = Conv2d::new(&conv_config(), &device);
        let x = random([3, 4, 9, 7], &device);
        let plain = results(&layer.clone().with_path(LayerPath::Plain), &x, |l, x| l.forward(x));
        for path in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            let forced = layer.clone().with_path(LayerPath::Kernels(path));
            assert_eq!(forced.path(), LayerPath::Kernels(path));
            assert_same(&results(&forced, &x, |layer, x| layer.forward(x)), &plain);
        }
    }
}

#[test]
fn the_gradients_are_difference_quotients_in_f64() {
    for device in autodiff_devices() {
        device.seed(26);
        // A difference quotient may be taken across the kink of a rectifier.
        for activation in [Activation::Identity, Activation::Silu, Activation::Elu] {
            let module = in_dtype(block(activation, &device), FloatDType::F64);
            let x = random([3, 4, 5, 5], &device).cast(FloatDType::F64);
            let loss = |block: &ConvNormActivation| {
                let y = block.forward(x.clone());
                assert_eq!(y.dtype(), DType::F64);
                y.powi_scalar(3).sum()
            };
            parameter_gradient_check(&module, 4, tolerance::GRADIENT, loss);
            gradient_check(random([2, 3, 4], &device), |x: Tensor<3>| {
                activate(x, activation).powi_scalar(2).sum()
            });
        }
    }
}

#[test]
fn the_gradients_of_the_kernels_are_those_of_f64() {
    for device in autodiff_devices() {
        device.seed(27);
        for activation in ACTIVATIONS {
            let ours = block(activation, &device);
            let double = in_dtype(
                block(activation, &device).load_record(ours.clone().into_record()),
                FloatDType::F64,
            );
            let x = random([5, 4, 9, 9], &device);
            let ours = results(&ours, &x, |block, x| block.forward(x));
            let double = results(&double, &x.cast(FloatDType::F64), |block, x| block.forward(x));
            for ((name, ours), (_, double)) in ours.iter().zip(&double) {
                println!("{name} {activation:?}");
                assert_close(ours, double, tolerance::F32_DEEP);
            }
        }
    }
}

#[test]
fn narrow_inputs_are_computed_in_f32_and_rounded_once() {
    for device in devices() {
        device.seed(28);
        for (dtype, allowed) in
            [(FloatDType::BF16, tolerance::BF16), (FloatDType::F16, tolerance::F16)]
        {
            let x = random([2, 4, 9, 9], &device).cast(dtype);
            let conv = in_dtype(Conv2d::new(&conv_config(), &device), dtype);
            let narrow = conv.forward_activated(x.clone(), Activation::Silu);
            assert_eq!(narrow.dtype(), dtype.into());
            let wide = in_dtype(conv, FloatDType::F32);
            let exact = wide.forward_activated(x.clone().cast(FloatDType::F32), Activation::Silu);
            assert_eq!(narrow.numbers(), exact.cast(dtype).numbers());
            // A normalization keeps its parameters in f32 for any input dtype.
            let norm = BatchNorm::new(&BatchNormConfig::new(4), &device);
            let narrow = norm.forward(x.clone());
            assert_eq!(narrow.dtype(), dtype.into());
            let plain = norm.with_path(LayerPath::Plain).forward(x);
            assert_close(&narrow, &plain.numbers(), allowed);
        }
    }
}

/// burn's layers under the names of a block.
#[derive(Module, Debug)]
struct Burns {
    conv: nn::conv::Conv2d,
    norm: nn::BatchNorm,
}

#[test]
fn records_are_burns_own_in_both_directions() {
    for device in autodiff_devices() {
        device.seed(29);
        let burns = Burns {
            conv: conv_config().with_bias(false).init(&device),
            norm: BatchNormConfig::new(6).init(&device),
        };
        // A pass that trains moves the running statistics.
        let x = random([4, 4, 9, 9], &device);
        let _ = burns.norm.forward(burns.conv.forward(x.clone()));
        let burns = burns.valid();
        let x = x.inner();
        let expected = burns.norm.forward(burns.conv.forward(x.clone()));

        let plain = device.clone().inner();
        let ours = block(Activation::Identity, &plain).load_record(burns.into_record());
        assert_close(&ours.forward(x.clone()), &expected.numbers(), tolerance::F32);

        let back = Burns {
            conv: conv_config().with_bias(false).init(&plain),
            norm: BatchNormConfig::new(6).init(&plain),
        };
        let back = back.load_record(ours.into_record());
        let given = back.norm.forward(back.conv.forward(x));
        assert_eq!(given.numbers(), expected.numbers());
    }
}

#[test]
fn what_memory_held_before_changes_no_bit() {
    for device in autodiff_devices() {
        device.seed(30);
        // Large enough for its memory to be kept and written again by the passes that follow.
        let x = random([8, 4, 48, 48], &device);
        for activation in ACTIVATIONS {
            let block = block(activation, &device);
            release_memory();
            let first = results(&block, &x, |block, x| block.forward(x));
            for _ in 0..3 {
                assert_eq!(results(&block, &x, |block, x| block.forward(x)), first);
            }
        }
    }
}

#[test]
fn a_layer_becomes_burns_and_comes_back() {
    let _alone = alone();
    let device = Device::flex();
    let x = random([2, 4, 9, 9], &device);
    let layer = Conv2d::new(&conv_config(), &device);
    let expected = layer.forward(x.clone()).numbers();
    let back = Conv2d::from(nn::conv::Conv2d::from(layer));
    assert_eq!(back.forward(x.clone()).numbers(), expected);

    let norm = BatchNorm::new(&BatchNormConfig::new(4), &device);
    let expected = norm.forward(x.clone()).numbers();
    let back = BatchNorm::from(nn::BatchNorm::from(norm));
    assert_eq!(back.forward(x).numbers(), expected);
}

#[test]
fn a_layer_tells_what_computes_it() {
    for device in devices() {
        let conv = Conv2d::new(&conv_config(), &device);
        assert_eq!(conv.path(), LayerPath::of(&device));
        assert_eq!(LayerPath::of(&device), LayerPath::Kernels(Isa::detect().base()));
        let norm = BatchNorm::new(&BatchNormConfig::new(4), &device);
        assert_eq!(norm.path(), LayerPath::of(&device));
        assert_eq!(norm.with_path(LayerPath::Plain).path().to_string(), "plain");
    }
}

#[test]
#[should_panic(expected = "padding that is alike on both sides")]
fn a_forced_path_that_cannot_compute_is_refused() {
    let _alone = alone();
    let device = Device::flex();
    let config = Conv2dConfig::new([1, 1], [2, 2]).with_padding(PaddingConfig2d::Same);
    let layer = Conv2d::new(&config, &device).with_path(LayerPath::Kernels(Isa::Portable));
    let _ = layer.forward(random([1, 1, 4, 4], &device));
}

#[test]
#[should_panic(expected = "the residual is as large as x")]
fn a_residual_of_another_shape_is_refused() {
    let _alone = alone();
    let device = Device::flex();
    let norm = BatchNorm::new(&BatchNormConfig::new(4), &device);
    let (x, residual) = (random([2, 4, 3, 3], &device), random([2, 4, 1, 1], &device));
    let _ = norm.forward_residual(x, residual, Activation::Relu);
}

#[test]
fn relu6_is_exact_at_its_limits_and_at_infinity_on_every_path() {
    let x = [f32::NEG_INFINITY, -1.0, 0.0, 0.1, 3.0, 6.0, 7.3, 1e30, f32::INFINITY];
    let right = [0.0, 0.0, 0.0, 0.1, 3.0, 6.0, 6.0, 6.0, 6.0_f32].map(f64::from);
    let slopes = [0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    for device in autodiff_devices() {
        // The kernels compute f32 only.
        for dtype in [DType::F32, DType::F64] {
            let x = Tensor::<1>::from_data(x, (&device, DType::F32)).cast(FloatDType::from(dtype));
            let x = x.detach().require_grad();
            let y = activate(x.clone(), Activation::Relu6);
            assert_eq!(y.numbers(), right, "{dtype:?}");
            let slope = x.grad(&y.sum().backward()).expect("takes part");
            assert_eq!(slope.numbers(), slopes, "{dtype:?}");
        }
    }
}
