//! Layers of functions in closed form: against f64, by finite differences, and what they refuse.

use burn::module::Module;
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use updraft_kan::{
    Activation, Basis, BasisConv1dConfig, BasisConv2d, BasisConv2dConfig, BasisConv3dConfig,
    BasisKanConfig, BasisLinear, BasisLinearConfig, Centers, LayerPath, PlainReason,
};
use updraft_testing::{
    Numbers, assert_close, assert_close_to_largest, autodiff_devices, devices, gradient_check,
    in_dtype, parameter_gradient_check, parameter_gradients, tolerance,
};

fn bases() -> Vec<Basis> {
    let centers = Centers { functions: 5, low: -1.5, high: 2.0 };
    vec![
        Basis::Gaussian(centers),
        Basis::Rswaf(centers),
        Basis::MexicanHat(centers),
        Basis::Chebyshev { degree: 4 },
        Basis::Legendre { degree: 4 },
        Basis::Fourier { frequencies: 3 },
        Basis::Rational,
    ]
}

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// The layer's formula in f64, with the slopes of its outputs' sum, both without a norm.
fn reference(layer: &BasisLinear, x: &[f64]) -> [Vec<f64>; 2] {
    let [inputs, count, outputs] = layer.coefficients.dims();
    let coefficients = layer.coefficients.val().numbers();
    let base = layer.base.as_ref().map(|base| base.val().numbers());
    let bias = layer.bias.as_ref().map(|bias| bias.val().numbers());
    let groups = layer.functions.as_ref().map_or(1, |functions| functions.dims()[0]);
    let functions = layer.functions.as_ref().map(|functions| functions.val().numbers());
    let of_group = |group: usize| -> Vec<f64> {
        let all = functions.as_deref().unwrap_or_default();
        let each = all.len() / groups;
        all[group * each..(group + 1) * each].to_vec()
    };
    let (mut y, mut dx) = (Vec::new(), Vec::new());
    for x in x.chunks(inputs) {
        let mut sums = bias.clone().unwrap_or_else(|| vec![0.0; outputs]);
        for (input, &x) in x.iter().enumerate() {
            let parameters = of_group(input * groups / inputs);
            let values = layer.basis().values(x, &parameters);
            let slopes = layer.basis().slopes(x, &parameters);
            let mut slope = 0.0;
            for (output, sum) in sums.iter_mut().enumerate() {
                for function in 0..count {
                    let by = coefficients[(input * count + function) * outputs + output];
                    *sum += by * values[function];
                    slope += by * slopes[function];
                }
                if let Some(base) = &base {
                    let by = base[input * outputs + output];
                    let sigmoid = 1.0 / (1.0 + (-x).exp());
                    *sum += by * silu(x);
                    slope += by * sigmoid * (1.0 + x * (1.0 - sigmoid));
                }
            }
            dx.push(slope);
        }
        y.extend(sums);
    }
    [y, dx]
}

#[test]
fn outputs_and_input_gradients_are_the_closed_forms_in_f64() {
    for device in autodiff_devices() {
        device.seed(1);
        for basis in bases() {
            let config = BasisLinearConfig::new(4, 3, basis).with_groups(2);
            for config in
                [config.clone(), config.with_activation(None::<Activation>).with_bias(false)]
            {
                let layer = config.init(&device);
                let x = random([9, 4], &device).require_grad();
                let [y, dx] = reference(&layer, &x.numbers());
                let found = layer.forward(x.clone());
                println!("{basis:?}");
                assert_close(&found, &y, tolerance::F32);
                let gradient = x.grad(&found.sum().backward()).expect("takes part");
                assert_close(&gradient, &dx, tolerance::F32_DEEP);

                let x = x.detach().cast(FloatDType::F64);
                let layer = in_dtype(layer, FloatDType::F64);
                let [y, _] = reference(&layer, &x.numbers());
                assert_close(&layer.forward(x), &y, tolerance::F64);
            }
        }
    }
}

#[test]
fn kernels_and_the_plain_path_have_the_same_outputs_and_gradients() {
    for device in autodiff_devices() {
        device.seed(8);
        for basis in bases() {
            let whole = BasisLinearConfig::new(6, 35, basis).with_groups(2).with_norm(true);
            let bare = whole.clone().with_activation(None::<Activation>).with_bias(false);
            for config in [whole.clone().with_train_functions(false), whole, bare.with_norm(false)]
            {
                let layer = config.init(&device);
                let plain = layer.clone().with_path(LayerPath::Plain);
                assert_eq!(plain.plain_reason(), Some(PlainReason::Forced));
                let expected = match LayerPath::of(&device) {
                    LayerPath::Kernels(isa) => LayerPath::Kernels(isa),
                    _ => LayerPath::Plain,
                };
                assert_eq!(layer.path(), expected, "{:?}", layer.plain_reason());
                let x = random([50, 6], &device).require_grad();
                let [own, expected] = [&layer, &plain].map(|layer| layer.forward(x.clone()));
                assert_close_to_largest(&own, &expected, tolerance::F32);
                let of = |layer: &BasisLinear, y: Tensor<2>| {
                    let gradients = y.powi_scalar(2).sum().backward();
                    let of_x = x.grad(&gradients).expect("takes part").numbers();
                    (of_x, parameter_gradients(layer, &gradients))
                };
                let ((dx, own), (dx_plain, expected)) = (of(&layer, own), of(&plain, expected));
                assert_close_to_largest(&dx, &dx_plain, tolerance::F32_DEEP);
                assert_eq!(own.len(), expected.len());
                for (own, expected) in own.iter().zip(&expected) {
                    assert_eq!(own.path, expected.path);
                    let [own, expected] = [own, expected].map(|of| of.values.as_ref());
                    let (own, expected) = (own.expect("takes part"), expected.expect("takes part"));
                    assert_close_to_largest(own, expected, tolerance::F32_DEEP);
                }
            }
        }
    }
}

#[test]
fn every_gradient_agrees_with_central_differences() {
    for device in autodiff_devices() {
        device.seed(2);
        for basis in bases() {
            let config = BasisLinearConfig::new(4, 3, basis).with_groups(2).with_norm(true);
            let layer = in_dtype(config.init(&device), FloatDType::F64);
            let x = random([5, 4], &device);
            gradient_check(x.clone(), |x| layer.forward(x).powi_scalar(2).sum());
            let x = x.cast(FloatDType::F64);
            parameter_gradient_check(&layer, 6, tolerance::GRADIENT, |layer| {
                layer.forward(x.clone()).powi_scalar(2).sum()
            });
        }
    }
}

#[test]
fn functions_are_trained_only_where_they_are_meant_to_be() {
    for device in autodiff_devices() {
        let config = BasisLinearConfig::new(2, 2, Basis::Rational);
        for train in [true, false] {
            let layer = config.clone().with_train_functions(train).init(&device);
            let loss = layer.forward(random([4, 2], &device)).sum();
            let names: Vec<String> = parameter_gradients(&layer, &loss.backward())
                .into_iter()
                .map(|gradient| gradient.path)
                .collect();
            assert_eq!(names.contains(&"functions".to_owned()), train, "{names:?}");
        }
    }
}

/// Outputs and the gradients of `Σ y²`, by name.
fn results(conv: &BasisConv2d, x: &Tensor<4>) -> Vec<(String, Vec<f64>)> {
    let x = x.clone().require_grad();
    let y = conv.forward(x.clone());
    let gradients = y.clone().powi_scalar(2).sum().backward();
    let dx = x.grad(&gradients).expect("takes part").numbers();
    let of_parameters = parameter_gradients(conv, &gradients).into_iter();
    let of_parameters =
        of_parameters.map(|gradient| (gradient.path, gradient.values.expect("takes part")));
    [("y".to_owned(), y.numbers()), ("x".to_owned(), dx)].into_iter().chain(of_parameters).collect()
}

#[test]
fn the_kernels_of_convolutions_and_the_plain_path_have_the_same_outputs_and_gradients() {
    for device in autodiff_devices() {
        device.seed(9);
        for basis in bases() {
            let whole = BasisConv2dConfig::new([4, 6], [3, 2], basis)
                .with_padding([1, 0])
                .with_function_groups(2);
            let bare = whole.clone().with_activation(None::<Activation>).with_bias(false);
            let strided = bare.clone().with_stride([2, 1]).with_dilation([1, 2]);
            for config in [
                whole.clone().with_groups(2),
                whole.with_train_functions(false),
                bare.with_groups(2),
                strided,
            ] {
                let conv = config.init(&device);
                let plain = conv.clone().with_path(LayerPath::Plain);
                assert_eq!(plain.plain_reason(), Some(PlainReason::Forced));
                let expected = match LayerPath::of(&device) {
                    LayerPath::Kernels(isa) => LayerPath::Kernels(isa),
                    _ => LayerPath::Plain,
                };
                assert_eq!(conv.path(), expected, "{:?}", conv.plain_reason());
                let x = random([2, 4, 7, 6], &device);
                let (own, expected) = (results(&conv, &x), results(&plain, &x));
                assert_eq!(own.len(), expected.len());
                for ((name, own), (_, expected)) in own.iter().zip(&expected) {
                    println!("{name} of {config}");
                    assert_close_to_largest(own, expected, tolerance::F32_DEEP);
                }
            }
        }
    }
}

/// A convolution is the linear layer of its patches.
#[test]
fn a_convolution_is_the_linear_layer_of_its_patches() {
    for device in devices() {
        device.seed(3);
        for basis in bases() {
            let conv = BasisConv2dConfig::new([2, 3], [2, 3], basis)
                .with_stride([1, 2])
                .with_padding([1, 1])
                .init(&device);
            let mut linear = BasisLinearConfig::new(12, 3, basis).init(&device);
            linear.coefficients = conv.coefficients.clone();
            linear.functions = conv.functions.clone();
            (linear.base, linear.bias) = (conv.base.clone(), conv.bias.clone());
            let x = random([2, 2, 4, 5], &device);
            let found = conv.forward(x.clone());
            assert_eq!(found.dims(), [2, 3, 5, 3]);
            let padded =
                Tensor::<4>::zeros([2, 2, 6, 7], &device).slice_assign([0..2, 0..2, 1..5, 1..6], x);
            let mut patches = Vec::new();
            for row in 0..5 {
                for column in 0..3 {
                    let from = 2 * column;
                    let patch = padded.clone().slice([0..2, 0..2, row..row + 2, from..from + 3]);
                    patches.push(patch.reshape([2, 12]));
                }
            }
            let patches = Tensor::stack::<3>(patches, 1);
            let expected = linear.forward(patches).swap_dims(1, 2).reshape([2, 3, 5, 3]);
            assert_close(&found, &expected, tolerance::F32);
        }
    }
}

#[test]
fn convolutions_over_one_and_three_axes_and_groups_are_those_over_two() {
    for device in devices() {
        device.seed(4);
        let basis = Basis::Gaussian(Centers::default());
        let two = BasisConv2dConfig::new([4, 6], [1, 3], basis).with_groups(2).init(&device);
        let mut one = BasisConv1dConfig::new([4, 6], [3], basis).with_groups(2).init(&device);
        let mut three =
            BasisConv3dConfig::new([4, 6], [1, 1, 3], basis).with_groups(2).init(&device);
        (one.coefficients, three.coefficients) =
            (two.coefficients.clone(), two.coefficients.clone());
        (one.base, three.base) = (two.base.clone(), two.base.clone());
        let x = random([2, 4, 7], &device);
        let expected = two.forward(x.clone().reshape([2, 4, 1, 7]));
        assert_close(&one.forward(x.clone()), &expected, tolerance::EXACT);
        assert_close(
            &three.forward(x.clone().reshape([2, 4, 1, 1, 7])),
            &expected,
            tolerance::EXACT,
        );
        // The second group's outputs do not depend on the first group's inputs.
        let changed = x.clone().slice_fill([0..2, 0..2], 9.0);
        let outputs = |x: Tensor<3>| one.forward(x).slice([0..2, 3..6]).numbers();
        assert_eq!(outputs(x), outputs(changed));
    }
}

#[test]
fn the_gradients_of_convolutions_agree_with_central_differences() {
    for device in autodiff_devices() {
        device.seed(5);
        for basis in bases() {
            let config = BasisConv2dConfig::new([2, 2], [2, 2], basis).with_function_groups(2);
            let conv = in_dtype(config.init(&device), FloatDType::F64);
            let x = random([1, 2, 3, 3], &device);
            gradient_check(x.clone(), |x| conv.forward(x).powi_scalar(2).sum());
            let x = x.cast(FloatDType::F64);
            parameter_gradient_check(&conv, 4, tolerance::GRADIENT, |conv| {
                conv.forward(x.clone()).powi_scalar(2).sum()
            });
        }
    }
}

#[test]
fn narrow_inputs_stay_narrow_and_records_restore_a_layer() {
    for device in devices() {
        device.seed(6);
        for basis in bases() {
            let config = BasisLinearConfig::new(3, 2, basis).with_norm(true);
            let layer = config.init(&device);
            let x = random([5, 3], &device);
            let y = layer.forward(x.clone());
            let restored = config.init(&device).load_record(layer.clone().into_record());
            assert_eq!(restored.forward(x.clone()).numbers(), y.numbers());
            let narrow = in_dtype(layer, FloatDType::BF16).forward(x.cast(FloatDType::BF16));
            assert_eq!(narrow.dtype(), DType::BF16);
        }
    }
}

#[test]
fn an_empty_batch_has_empty_outputs() {
    for device in devices() {
        let basis = Basis::Legendre { degree: 2 };
        let layer = BasisLinearConfig::new(3, 2, basis).init(&device);
        assert_eq!(layer.forward(Tensor::<3>::zeros([4, 0, 3], &device)).dims(), [4, 0, 2]);
        let conv = BasisConv2dConfig::new([3, 2], [3, 3], basis).init(&device);
        assert_eq!(conv.forward(Tensor::zeros([0, 3, 5, 6], &device)).dims(), [0, 2, 3, 4]);
    }
}

#[test]
fn non_finite_inputs_have_defined_outputs() {
    for device in devices() {
        device.seed(7);
        for basis in bases() {
            let config = BasisLinearConfig::new(1, 2, basis).with_activation(None::<Activation>);
            let layer = config.init(&device);
            let outputs =
                |x: f32| layer.forward(Tensor::<2>::from_floats([[x]], &device)).numbers();
            assert!(outputs(f32::NAN).iter().all(|y| y.is_nan()), "{basis:?}");
            for infinite in [f32::INFINITY, f32::NEG_INFINITY] {
                let is_nan = matches!(basis, Basis::Fourier { .. } | Basis::Rational);
                let found = outputs(infinite);
                assert!(found.iter().all(|y| y.is_nan() == is_nan), "{basis:?} {found:?}");
            }
        }
    }
}

#[test]
fn what_makes_no_layer_is_refused() {
    let basis = Basis::Rational;
    let linear = BasisLinearConfig::new(4, 2, basis);
    assert_eq!(linear.validate(), Ok(()));
    let message = |config: BasisLinearConfig| config.validate().unwrap_err().to_string();
    assert_eq!(message(linear.clone().with_groups(3)), "3 groups do not divide 4 inputs");
    assert_eq!(message(linear.clone().with_groups(0)), "0 groups do not divide 4 inputs");
    assert_eq!(message(linear.with_scale(-1.0)), "scale -1 is negative or not finite");
    assert_eq!(
        message(BasisLinearConfig::new(0, 2, basis)),
        "a layer needs inputs and outputs, got 0 and 2"
    );
    let none = Basis::Gaussian(Centers { functions: 4, low: 1.0, high: 1.0 });
    assert_eq!(
        message(BasisLinearConfig::new(1, 1, none)),
        "centers from 1 to 1 have no distance; expected finite numbers in ascending order"
    );
    let conv = BasisConv2dConfig::new([4, 6], [3, 3], basis);
    let message = |config: BasisConv2dConfig| config.validate().unwrap_err().to_string();
    assert_eq!(
        message(conv.clone().with_groups(3)),
        "3 groups do not divide 4 input and 6 output channels"
    );
    assert_eq!(message(conv.with_function_groups(3)), "3 groups do not divide 4 inputs");
    let network = BasisKanConfig::new(vec![3], BasisLinearConfig::new(1, 1, basis));
    let error = network.validate().unwrap_err().to_string();
    assert_eq!(error, "a network needs at least 2 widths, got 1");
}
