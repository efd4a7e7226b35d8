//! The global norm against its formula, and the first bad gradient by name.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use updraft_precision::{PrecisionError, clip_global_norm};

#[derive(Module, Debug)]
struct Pair {
    left: Linear,
    right: Linear,
}

fn pair(left: f32, right: f32) -> (Pair, GradientsParams) {
    let device = Device::flex().autodiff();
    let layer = || LinearConfig::new(3, 4).with_bias(false).init(&device);
    let pair = Pair { left: layer(), right: layer() };
    let device = device.without_autodiff();
    let mut gradients = GradientsParams::new();
    for (layer, value) in [(&pair.left, left), (&pair.right, right)] {
        gradients.register(layer.weight.id, Tensor::<2>::full([3, 4], value, &device));
    }
    (pair, gradients)
}

fn first_value(gradients: &GradientsParams, layer: &Linear) -> f32 {
    let values = gradients.get::<2>(layer.weight.id).expect("a gradient").into_data();
    values.as_slice::<f32>().expect("f32")[0]
}

#[test]
fn the_norm_runs_over_all_tensors_and_the_direction_stays() {
    let (module, gradients) = pair(3.0, 4.0);
    let (gradients, norm) = clip_global_norm(gradients, &module, Some(1.0)).expect("finite");
    let expected = (12.0_f64 * 25.0).sqrt();
    assert!((norm - expected).abs() / expected < 1e-6, "{norm}");
    for (layer, value) in [(&module.left, 3.0), (&module.right, 4.0)] {
        let clipped = f64::from(first_value(&gradients, layer));
        assert!((clipped - value / expected).abs() < 1e-6, "{clipped}");
    }
}

#[test]
fn a_small_norm_is_measured_but_not_scaled() {
    let (module, gradients) = pair(0.003, 0.004);
    let (gradients, norm) = clip_global_norm(gradients, &module, Some(1.0)).expect("finite");
    assert!(norm < 1.0);
    assert_eq!(first_value(&gradients, &module.left), 0.003);
}

#[test]
fn the_first_bad_tensor_is_named_by_path() {
    for bad in [f32::NAN, f32::INFINITY] {
        let (module, gradients) = pair(1.0, bad);
        let error = clip_global_norm(gradients, &module, None).expect_err("not finite");
        assert_eq!(error, PrecisionError::NonFiniteGradient { path: "right.weight".to_owned() });
    }
}

#[test]
fn finite_gradients_whose_squares_overflow_are_told_apart() {
    let (module, gradients) = pair(1.0, f32::MAX);
    let error = clip_global_norm(gradients, &module, None).expect_err("overflow");
    assert_eq!(error, PrecisionError::NormOverflow);
}
