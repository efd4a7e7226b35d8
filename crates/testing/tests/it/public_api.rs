//! Every promised name, used once: removing one breaks this file.

use updraft_testing::tolerance::{BF16, EXACT, F16, F32, F32_DEEP, F64, GRADIENT};
use updraft_testing::{Numbers, Tolerance, assert_close};

#[cfg(feature = "burn")]
use updraft_testing::{
    ParameterGradient, autodiff_devices, devices, gradient_check, in_dtype,
    parameter_gradient_check, parameter_gradients,
};

#[test]
fn the_tolerances_are_ordered_by_precision() {
    let ordered = [EXACT, F64, GRADIENT, F32, F32_DEEP, F16, BF16];
    assert!(ordered.windows(2).all(|pair| pair[0].bound(1.0) <= pair[1].bound(1.0)));
    assert_eq!(Tolerance::new(0.0, 0.0), EXACT);
}

#[test]
fn numbers_are_compared_through_the_trait() {
    assert_eq!([1.0_f32].numbers(), [1.0_f64]);
    assert_close(&1.0_f32, &1.0_f64, EXACT);
}

#[cfg(feature = "burn")]
#[test]
fn flex_is_among_the_devices() {
    use burn::tensor::Device;

    assert!(devices().contains(&Device::flex()));
    assert!(autodiff_devices().iter().all(Device::is_autodiff));
}

#[cfg(feature = "burn")]
#[test]
fn a_layer_in_f64_passes_its_gradient_check() {
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::{FloatDType, Tensor};

    for device in autodiff_devices() {
        device.seed(1);
        let layer = in_dtype(LinearConfig::new(2, 2).init(&device), FloatDType::F64);
        let input = Tensor::<2>::ones([1, 2], &device).cast(FloatDType::F64);
        let loss = |layer: &Linear| layer.forward(input.clone()).exp().sum();
        parameter_gradient_check(&layer, 2, GRADIENT, loss);
        let list: Vec<ParameterGradient> = parameter_gradients(&layer, &loss(&layer).backward());
        assert_eq!(list.len(), 2);
        gradient_check(input.clone(), |x| layer.forward(x).exp().sum());
    }
}
