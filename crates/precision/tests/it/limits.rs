//! The parts that stay in f32, at the limits of narrower dtypes.

use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{BatchNormConfig, LayerNormConfig};
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, FloatDType, Int, Tensor};
use updraft_testing::{alone, assert_close, devices, tolerance};

const NARROW: [FloatDType; 2] = [FloatDType::F16, FloatDType::BF16];

/// The largest number of f16.
const F16_MAX: f32 = 65504.0;

fn narrow<const D: usize>(x: Tensor<D>, dtype: FloatDType) -> Tensor<D> {
    x.cast(dtype)
}

fn value(x: Tensor<1>) -> f64 {
    x.into_data().iter::<f64>().next().expect("one number")
}

#[test]
fn a_long_sum_is_exact_in_f32_and_not_in_the_narrow_dtypes() {
    for device in devices() {
        let ones = Tensor::<1>::ones([70_001], &device);
        let wide = value(ones.clone().sum());
        assert_eq!(wide, 70_001.0);
        for dtype in NARROW {
            // Neither dtype has a number within one of the sum.
            let found = value(narrow(ones.clone(), dtype).sum());
            assert!((found - 70_001.0).abs() > 1.0, "{dtype:?}: {found}");
            // The island: narrow values, a wide sum.
            let island = value(narrow(ones.clone(), dtype).cast(FloatDType::F32).sum());
            assert_eq!(island, 70_001.0);
        }
    }
}

#[test]
fn a_squared_loss_overflows_f16_and_holds_in_f32() {
    for device in devices() {
        let error = Tensor::<1>::full([8], 300.0, &device);
        let overflowed = value(narrow(error.clone(), FloatDType::F16).powf_scalar(2.0).mean());
        assert!(!overflowed.is_finite(), "{overflowed}");
        for dtype in NARROW {
            let island = narrow(error.clone(), dtype).cast(FloatDType::F32);
            assert_close(&value(island.powf_scalar(2.0).mean()), &90_000.0, tolerance::F32);
        }
    }
}

#[test]
fn cross_entropy_holds_at_the_largest_logits_of_f16() {
    for device in devices() {
        let logits = Tensor::<2>::from_data([[F16_MAX, -F16_MAX], [F16_MAX, -F16_MAX]], &device);
        let labels = Tensor::<1, Int>::from_data([0, 1], &device);
        for dtype in NARROW {
            let logits = narrow(logits.clone(), dtype).cast(FloatDType::F32);
            // The largest number in the narrow dtype: bf16 rounds it to 65536.
            let largest = value(logits.clone().max());
            let loss = CrossEntropyLossConfig::new().init(&device);
            // -log softmax is 0 for the right class and the difference of the logits for the wrong.
            let expected = (0.0 + 2.0 * largest) / 2.0;
            let found = value(loss.forward(logits, labels.clone()));
            assert_close(&found, &expected, tolerance::F32);
        }
    }
}

#[test]
fn the_difference_of_two_logits_overflows_f16_before_a_softmax_in_f32_does() {
    for device in devices() {
        let logits = Tensor::<2>::from_data([[F16_MAX, -F16_MAX]], &device);
        let low = |x: Tensor<2>| value(log_softmax(x, 1).narrow(1, 1, 1).reshape([1]));
        assert!(!low(narrow(logits.clone(), FloatDType::F16)).is_finite());
        let island = narrow(logits, FloatDType::F16).cast(FloatDType::F32);
        assert_close(&low(island), &(-2.0 * f64::from(F16_MAX)), tolerance::F32);
    }
}

#[test]
fn a_softmax_over_many_classes_sums_to_one_in_f32() {
    for device in devices() {
        let classes = 4096_u16;
        let logits = Tensor::<2>::zeros([1, usize::from(classes)], &device);
        for dtype in NARROW {
            let island = narrow(logits.clone(), dtype).cast(FloatDType::F32);
            let log = log_softmax(island, 1).narrow(1, 0, 1).reshape([1]);
            assert_close(&value(log), &-f64::from(classes).ln(), tolerance::F32);
        }
    }
}

/// `(x − mean)/√(variance + ε)` in f64.
fn normalized(x: &[f64], epsilon: f64) -> Vec<f64> {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
    x.iter().map(|x| (x - mean) / (variance + epsilon).sqrt()).collect()
}

#[test]
fn normalizations_hold_where_the_square_of_an_activation_overflows_f16() {
    for device in devices() {
        let values = [-60_000.0_f32, -300.0, 300.0, 60_000.0];
        for dtype in NARROW {
            let x = narrow(Tensor::<1>::from_data(values, &device), dtype);
            let kept: Vec<f64> = x.clone().into_data().iter::<f64>().collect();
            let expected = normalized(&kept, 1e-5);
            let island = x.cast(FloatDType::F32);
            let layer = LayerNormConfig::new(4).init(&device);
            let found = layer.forward(island.clone().reshape([1, 4]));
            assert_close(&found, &expected, tolerance::F32);
            let device = device.clone().autodiff();
            let batch = BatchNormConfig::new(1).init(&device);
            let island = Tensor::from_inner(island.reshape([4, 1]));
            assert_close(&batch.forward(island), &expected, tolerance::F32);
        }
    }
}

#[test]
fn the_norm_of_gradients_in_f16_is_taken_in_f32() {
    let _alone = alone();
    use burn::module::Module;
    use burn::optim::GradientsParams;
    use updraft_precision::clip_global_norm;

    let device = Device::flex().autodiff();
    let layer = burn::nn::LinearConfig::new(3, 4).with_bias(false).init(&device);
    let mut gradients = GradientsParams::new();
    let large = Tensor::<2>::full([3, 4], 60_000.0, &device.without_autodiff());
    let exact = 60_000.0_f64 * 12.0_f64.sqrt();
    gradients.register(layer.weight.id, large.cast(FloatDType::F16));
    let (_, norm) = clip_global_norm(gradients, &layer.valid(), None).expect("finite");
    assert!((norm - exact).abs() / exact < 1e-6, "{norm}");
}
