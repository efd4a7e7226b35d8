//! Pooling layers compared with burn's.

use burn::nn::PaddingConfig2d;
use burn::nn::pool::{AdaptiveAvgPool2dConfig, AvgPool2dConfig, MaxPool2dConfig};
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use updraft_conv::{AdaptiveAvgPool2d, AvgPool2d, LayerPath, MaxPool2d};
use updraft_testing::{Numbers, alone, assert_close, autodiff_devices, gradient_check, tolerance};

fn random(device: &Device) -> Tensor<4> {
    Tensor::random([2, 3, 9, 11], Distribution::Uniform(-1.0, 1.0), device)
}

/// A result with the input's gradient of `Σ y²`.
fn results(x: &Tensor<4>, forward: impl Fn(Tensor<4>) -> Tensor<4>) -> [Vec<f64>; 2] {
    let x = x.clone().detach().require_grad();
    let y = forward(x.clone());
    let gradients = y.clone().powi_scalar(2).sum().backward();
    [y.numbers(), x.grad(&gradients).expect("takes part").numbers()]
}

fn assert_same(
    x: &Tensor<4>,
    ours: impl Fn(Tensor<4>) -> Tensor<4>,
    burns: impl Fn(Tensor<4>) -> Tensor<4>,
) {
    for (ours, burns) in results(x, ours).iter().zip(results(x, burns)) {
        assert_close(ours, &burns, tolerance::F32);
    }
}

#[test]
fn maxima_are_burns_with_their_gradients() {
    for device in autodiff_devices() {
        device.seed(31);
        let x = random(&device);
        let padded = PaddingConfig2d::Explicit(1, 1, 1, 1);
        for config in [
            MaxPool2dConfig::new([2, 2]),
            MaxPool2dConfig::new([3, 3]).with_strides([2, 2]).with_padding(padded.clone()),
            MaxPool2dConfig::new([3, 2]).with_strides([1, 3]).with_dilation([2, 1]),
            // These are computed by burn's own operation.
            MaxPool2dConfig::new([2, 2]).with_ceil_mode(true),
            MaxPool2dConfig::new([2, 2]).with_strides([1, 1]).with_padding(PaddingConfig2d::Same),
        ] {
            let (ours, burns) = (MaxPool2d::new(config.clone()), config.init());
            assert_same(&x, |x| ours.forward(x), |x| burns.forward(x));
            let plain = ours.clone().with_path(LayerPath::Plain);
            assert_same(&x, |x| plain.forward(x), |x| burns.forward(x));
        }
    }
}

#[test]
fn averages_are_burns_with_their_gradients() {
    for device in autodiff_devices() {
        device.seed(32);
        let x = random(&device);
        let padded = PaddingConfig2d::Explicit(1, 1, 1, 1);
        for config in [
            AvgPool2dConfig::new([2, 2]),
            AvgPool2dConfig::new([3, 3]).with_strides([2, 2]).with_padding(padded.clone()),
            AvgPool2dConfig::new([3, 3]).with_padding(padded).with_count_include_pad(false),
            AvgPool2dConfig::new([2, 2]).with_ceil_mode(true),
        ] {
            let (ours, burns) = (AvgPool2d::new(config.clone()), config.init());
            assert_same(&x, |x| ours.forward(x), |x| burns.forward(x));
        }
        for output in [[1, 1], [3, 4], [9, 11], [5, 2]] {
            let config = AdaptiveAvgPool2dConfig::new(output);
            let (ours, burns) = (AdaptiveAvgPool2d::new(config.clone()), config.init());
            assert_same(&x, |x| ours.forward(x), |x| burns.forward(x));
        }
    }
}

#[test]
fn gradients_in_f64_are_difference_quotients() {
    for device in autodiff_devices() {
        device.seed(33);
        let x = random(&device).slice([0..1, 0..2, 0..5, 0..6]);
        let max = MaxPool2d::new(MaxPool2dConfig::new([2, 3]));
        let average = AvgPool2d::new(AvgPool2dConfig::new([2, 3]));
        let adaptive = AdaptiveAvgPool2d::new(AdaptiveAvgPool2dConfig::new([2, 4]));
        gradient_check(x.clone(), |x: Tensor<4>| max.forward(x).powi_scalar(2).sum());
        gradient_check(x.clone(), |x: Tensor<4>| average.forward(x).powi_scalar(2).sum());
        gradient_check(x, |x: Tensor<4>| adaptive.forward(x).powi_scalar(2).sum());
    }
}

#[test]
fn the_dtype_of_the_input_is_that_of_the_output() {
    let _alone = alone();
    let device = Device::flex();
    let x = random(&device);
    let layer = MaxPool2d::new(MaxPool2dConfig::new([2, 2]));
    let exact = layer.forward(x.clone());
    for dtype in [FloatDType::BF16, FloatDType::F16, FloatDType::F64] {
        let y = layer.forward(x.clone().cast(dtype));
        assert_eq!(y.dtype(), DType::from(dtype));
        // Rounding keeps the order, so that the maximum is the rounded maximum.
        assert_eq!(y.numbers(), exact.clone().cast(dtype).numbers());
    }
}

#[test]
fn a_layer_reports_its_path() {
    let device = Device::flex();
    let layer = AvgPool2d::new(AvgPool2dConfig::new([2, 2]));
    assert_eq!(layer.path(&device), LayerPath::of(&device));
    assert_eq!(layer.with_path(LayerPath::Plain).path(&device), LayerPath::Plain);
}
