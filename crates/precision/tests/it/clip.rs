//! The global norm against its formula, and the first bad gradient by name.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use proptest::prelude::*;
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
fn finite_gradients_whose_squares_overflow_are_a_separate_error() {
    let (module, gradients) = pair(1.0, f32::MAX);
    let error = clip_global_norm(gradients, &module, None).expect_err("overflow");
    assert_eq!(error, PrecisionError::NormOverflow);
}

/// Numbers of every size whose squares f32 holds.
fn any_gradient() -> impl Strategy<Value = Vec<f32>> {
    let number = (-1.0_f32..1.0, -6..6_i32).prop_map(|(digits, power)| digits * 10_f32.powi(power));
    proptest::collection::vec(number, 12)
}

/// The kernel takes f32 only; one gradient in another dtype leaves all of them to burn's operations.
#[test]
fn gradients_in_two_dtypes_have_the_norm_of_gradients_in_one() {
    let (module, gradients) = pair(3.0, 4.0);
    let (_, kernel) = clip_global_norm(gradients, &module, None).expect("finite");
    let (module, mut gradients) = pair(3.0, 4.0);
    let id = module.right.weight.id;
    let narrow = gradients.remove::<2>(id).expect("a gradient").cast(FloatDType::F16);
    gradients.register(id, narrow);
    let (_, plain) = clip_global_norm(gradients, &module, None).expect("finite");
    assert_eq!(kernel, plain);
    assert!((kernel - (12.0_f64 * 25.0).sqrt()).abs() < 1e-5, "{kernel}");
}

proptest! {
    #[test]
    fn norm_and_clipped_gradients_follow_the_formula_in_f64(
        left in any_gradient(),
        right in any_gradient(),
        share in 0.1_f64..2.0,
    ) {
        let (module, mut gradients) = pair(0.0, 0.0);
        let device = Device::flex();
        let layers = [(&module.left, &left), (&module.right, &right)];
        for (layer, values) in layers {
            let data = TensorData::new(values.clone(), [3, 4]);
            gradients.remove::<2>(layer.weight.id);
            gradients.register(layer.weight.id, Tensor::<2>::from_data(data, &device));
        }
        let squares = left.iter().chain(&right).map(|&value| f64::from(value).powi(2));
        let expected = squares.sum::<f64>().sqrt();
        let max_norm = share * expected;
        let clipped = clip_global_norm(gradients, &module, Some(max_norm)).expect("finite");
        let (gradients, norm) = clipped;
        prop_assert!((norm - expected).abs() <= 1e-6 * expected, "{} for {}", norm, expected);
        let factor = if expected > max_norm { max_norm / expected } else { 1.0 };
        for (layer, values) in layers {
            let found = gradients.get::<2>(layer.weight.id).expect("a gradient").into_data();
            for (found, &value) in found.iter::<f64>().zip(values) {
                let wanted = factor * f64::from(value);
                prop_assert!((found - wanted).abs() <= 1e-6 * wanted.abs(), "{found} {wanted}");
            }
        }
    }
}
