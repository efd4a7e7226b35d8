//! What splines cost: values by hand, gradients by differences, and zeros.

use burn::module::Param;
use burn::tensor::{Device, FloatDType};
use updraft_kan::{Kan, KanLinear, KanLinearConfig, Penalty};
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
            // One edge of zeros beside one that is none, and all of them.
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
