//! Convolutions with a residual: kernels compared with the separate operations.

use burn::nn::PaddingConfig2d;
use burn::nn::conv::Conv2dConfig;
use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use updraft_conv::{Activation, Conv2d, LayerPath, activate, observe_convolutions};
use updraft_testing::{
    Numbers, alone, assert_close, autodiff_devices, devices, in_dtype, tolerance,
};

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.5, 1.5), device)
}

/// Dense, in groups with a stride, one channel a group, and of an even kernel, which burn computes.
fn configs() -> [Conv2dConfig; 4] {
    let same = PaddingConfig2d::Explicit(1, 1, 1, 1);
    [
        Conv2dConfig::new([4, 6], [3, 3]).with_padding(same.clone()).with_bias(false),
        Conv2dConfig::new([4, 6], [3, 3])
            .with_stride([2, 1])
            .with_groups(2)
            .with_padding(same.clone()),
        Conv2dConfig::new([24, 24], [3, 3]).with_groups(24).with_padding(same),
        Conv2dConfig::new([4, 3], [2, 2]).with_padding(PaddingConfig2d::Same),
    ]
}

/// The sum of the groups of channels of a residual, by burn's operations.
fn summed(residual: &Tensor<4>, channels: usize) -> Tensor<4> {
    residual.clone().split(channels, 1).into_iter().reduce(|a, b| a + b).expect("a group")
}

#[test]
fn a_residual_is_added_before_the_activation_on_every_path() {
    for device in devices() {
        device.seed(31);
        for config in configs() {
            let layer = Conv2d::new(&config, &device);
            let x = random([3, config.channels[0], 9, 11], &device);
            let plain = layer.clone().with_path(LayerPath::Plain);
            let sums = plain.forward(x.clone());
            let [batch, channels, height, width] = sums.dims();
            for terms in [1, 2] {
                let residual = random([batch, terms * channels, height, width], &device);
                for activation in [Activation::Identity, Activation::Relu, Activation::Silu] {
                    let right = sums.clone() + summed(&residual, channels);
                    let right = activate(right, activation);
                    for layer in [&layer, &plain] {
                        let y = layer.forward_residual(x.clone(), residual.clone(), activation);
                        assert_close(&y, &right.numbers(), tolerance::F32);
                    }
                }
            }
        }
    }
}

#[test]
fn the_residual_has_its_gradient() {
    for device in autodiff_devices() {
        device.seed(32);
        let layer = Conv2d::new(&configs()[0], &device);
        let [x, residual] = [4, 12].map(|channels| random([2, channels, 5, 5], &device));
        let [x, residual] = [x, residual].map(|tensor| tensor.detach().require_grad());
        let y = layer.forward_residual(x.clone(), residual.clone(), Activation::Relu);
        let gradients = y.clone().sum().backward();
        // Both groups of the residual receive the slope of the rectifier.
        let slope: Vec<f64> = y.numbers().iter().map(|y| f64::from(u8::from(*y > 0.0))).collect();
        let given = residual.grad(&gradients).expect("takes part").split(6, 1);
        assert_eq!(given.len(), 2);
        given.into_iter().for_each(|group| assert_eq!(group.numbers(), slope));
        assert!(slope.contains(&0.0) && slope.contains(&1.0));
        assert!(x.grad(&gradients).is_some());
    }
}

#[test]
fn narrow_tensors_are_summed_in_f32_and_rounded_once() {
    for device in devices() {
        for (dtype, allowed) in
            [(FloatDType::BF16, tolerance::BF16), (FloatDType::F16, tolerance::F16)]
        {
            device.seed(33);
            let layer = in_dtype(Conv2d::new(&configs()[0], &device), dtype);
            let x = random([2, 4, 9, 9], &device).cast(dtype);
            let residual = random([2, 6, 9, 9], &device).cast(dtype);
            let run = |layer: &Conv2d, x: Tensor<4>, residual: Tensor<4>| {
                layer.forward_residual(x, residual, Activation::Relu)
            };
            let narrow = run(&layer, x.clone(), residual.clone());
            let wide = in_dtype(layer, FloatDType::F32);
            let [x, residual] = [x, residual].map(|tensor| tensor.cast(FloatDType::F32));
            let exact = run(&wide, x, residual).cast(dtype);
            assert_close(&narrow, &exact.numbers(), allowed);
            let on_kernels = matches!(LayerPath::of(&device), LayerPath::Kernels(_));
            assert!(!on_kernels || narrow.numbers() == exact.numbers(), "rounded more than once");
        }
    }
}

#[test]
fn the_convolution_is_observed_once() {
    let _alone = alone();
    let device = Device::flex();
    let layer = Conv2d::new(&configs()[0], &device);
    let (x, residual) = (random([2, 4, 9, 9], &device), random([2, 6, 9, 9], &device));
    let run = || layer.forward_residual(x, residual, Activation::Relu);
    let (_, observed) = observe_convolutions(run);
    assert_eq!(observed.len(), 1);
    assert_eq!(observed[0].weight, layer.weight.id);
}

#[test]
#[should_panic(expected = "a residual of 9 channels is no multiple of the 6 of the result")]
fn a_residual_of_other_channels_is_refused() {
    let _alone = alone();
    let device = Device::flex();
    let (x, residual) = (random([2, 4, 9, 9], &device), random([2, 9, 9, 9], &device));
    let _ = Conv2d::new(&configs()[0], &device).forward_residual(x, residual, Activation::Relu);
}
