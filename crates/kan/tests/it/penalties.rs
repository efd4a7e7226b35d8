//! Penalties of splines: values by hand, gradients by differences, and zeros.

use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, FloatDType};
use updraft_kan::{
    Kan, KanConv1dConfig, KanConv2d, KanConv2dConfig, KanConv3dConfig, KanLinear, KanLinearConfig,
    Penalty,
};
use updraft_testing::{
    Numbers, autodiff_devices, in_dtype, parameter_gradient_check, parameter_gradients, tolerance,
};

fn l1() -> Penalty {
    Penalty { l1: 1.0, ..Penalty::default() }
}

fn entropy() -> Penalty {
    Penalty { entropy: 1.0, ..Penalty::default() }
}

fn roughness(order: usize) -> Penalty {
    Penalty { roughness: 1.0, order, ..Penalty::default() }
}

/// Two edges of one input with the coefficients 1, −2, 4 and 0, 6, 0, the second times 1/2.
fn layer(device: &Device) -> KanLinear {
    let mut layer = KanLinearConfig::new(1, 2).with_intervals(2).with_degree(1).init(device);
    layer.spline = Param::from_data([[[1.0, 0.0], [-2.0, 6.0], [4.0, 0.0]]], device);
    layer.scaler = Some(Param::from_data([[1.0, 0.5]], device));
    layer
}

fn value(layer: &KanLinear, penalty: Penalty) -> f64 {
    layer.penalty(&penalty).numbers()[0]
}

#[test]
fn the_terms_have_their_values_by_hand() {
    for device in autodiff_devices() {
        let layer = layer(&device);
        let close = |actual: f64, expected: f64| {
            assert!((actual - expected).abs() < 1e-5, "{actual} and {expected}");
        };
        // Sizes 7/3 and 3/3.
        close(value(&layer, l1()), 10.0 / 3.0);
        let share = 0.7_f64;
        close(value(&layer, entropy()), -share * share.ln() - 0.3 * 0.3_f64.ln());
        close(value(&layer, roughness(1)), 9.0 + 36.0 + 9.0 + 9.0);
        close(value(&layer, roughness(2)), 81.0 + 36.0);
        close(value(&layer, roughness(3)), 0.0);
        let all = Penalty { l1: 3.0, entropy: 0.0, roughness: 2.0, order: 2 };
        close(value(&layer, all), 10.0 + 234.0);
        let twice = Kan { layers: vec![layer.clone(), layer] };
        close(twice.penalty(&l1()).numbers()[0], 20.0 / 3.0);
    }
}

#[test]
fn gradients_are_difference_quotients() {
    for device in autodiff_devices() {
        device.seed(21);
        let config = KanLinearConfig::new(3, 4).with_noise_scale(1.0).with_activation(None);
        let layer = in_dtype(config.init(&device), FloatDType::F64);
        for penalty in [l1(), entropy(), roughness(2)] {
            parameter_gradient_check(&layer, 21, tolerance::GRADIENT, |layer| {
                layer.penalty(&penalty)
            });
        }
    }
}

#[test]
fn edges_and_layers_of_zeros_have_finite_penalties_and_gradients() {
    for device in autodiff_devices() {
        let all_zero = KanLinearConfig::new(2, 3).with_noise_scale(0.0).init(&device);
        for mut layer in [layer(&device), all_zero] {
            // One zero edge beside a non-zero one, and only zero edges.
            let spline = layer.spline.val().detach();
            let first = spline.clone().slice([0..1, 0..3, 0..1]).zeros_like();
            let spline = spline.slice_assign([0..1, 0..3, 0..1], first);
            layer.spline = Param::from_tensor(spline.detach());
            layer.base = None;
            let penalty = Penalty { l1: 1.0, entropy: 1.0, roughness: 1.0, order: 1 };
            let value = layer.penalty(&penalty);
            assert!(value.numbers()[0].is_finite());
            for gradient in parameter_gradients(&layer, &value.backward()) {
                let values = gradient.values.expect("takes part");
                assert!(values.iter().all(|v| v.is_finite()), "{}: {values:?}", gradient.path);
            }
        }
    }
}

/// A module with splines at two depths, and other parameters.
#[derive(Module, Debug)]
struct Mixed {
    plain: Linear,
    network: Kan,
    conv: Option<KanConv2d>,
    without_factors: KanLinear,
}

#[test]
fn a_module_has_the_sum_of_the_penalties_of_its_layers() {
    for device in autodiff_devices() {
        let all = Penalty { l1: 0.3, entropy: 0.2, roughness: 0.1, order: 1 };
        let conv = KanConv2dConfig::new([2, 3], [1, 2]).with_noise_scale(1.0);
        let conv = conv.with_activation(None).init(&device);
        let bare = KanLinearConfig::new(2, 2).with_scaler(false).with_bias(true).init(&device);
        let module = Mixed {
            plain: LinearConfig::new(3, 4).init(&device),
            network: Kan { layers: vec![layer(&device), layer(&device)] },
            conv: Some(conv.clone()),
            without_factors: bare.clone(),
        };
        let expected =
            2.0 * value(&layer(&device), all) + conv.penalty(&all).numbers()[0] + value(&bare, all);
        let found = all.of(&module).expect("there are splines");
        let close = |found: f64, expected: f64| {
            assert!((found - expected).abs() < 1e-5 * expected, "{found} and {expected}");
        };
        close(found.numbers()[0], expected);
        // A convolution has the penalty of a linear layer with its parameters.
        let mut same = KanLinearConfig::new(4, 3).init(&device);
        (same.spline, same.scaler) = (conv.spline.clone(), conv.scaler.clone());
        close(conv.penalty(&all).numbers()[0], value(&same, all));
        // Every coefficient and factor has a gradient, nothing else has one.
        for gradient in parameter_gradients(&module, &found.backward()) {
            let is_of_splines =
                gradient.path.ends_with(".spline") || gradient.path.ends_with(".scaler");
            assert_eq!(gradient.values.is_some(), is_of_splines, "{}", gradient.path);
        }
        assert!(all.of(&module.plain).is_none());
        let one = KanConv1dConfig::new([1, 1], [2]).init(&device);
        close(all.of(&one).unwrap().numbers()[0], one.penalty(&all).numbers()[0]);
        let three = KanConv3dConfig::new([1, 1], [2, 1, 2]).init(&device);
        close(all.of(&three).unwrap().numbers()[0], three.penalty(&all).numbers()[0]);
    }
}

#[test]
fn weights_below_zero_or_not_finite_are_not_valid() {
    assert!(Penalty::default().is_valid() && Penalty::default().is_zero());
    assert!(l1().is_valid() && !l1().is_zero());
    for bad in [f64::NAN, f64::INFINITY, -1.0] {
        assert!(!Penalty { l1: bad, ..Penalty::default() }.is_valid());
        assert!(!Penalty { entropy: bad, ..Penalty::default() }.is_valid());
        assert!(!Penalty { roughness: bad, ..Penalty::default() }.is_valid());
    }
}
