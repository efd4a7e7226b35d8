//! Convolutions on burn's tensors: kernels compared with the plain path, on every device of the
//! tests.

use burn::module::Module;
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use updraft_kan::{
    Activation, BaseBranch, KanConv1dConfig, KanConv2d, KanConv2dConfig, KanConv3dConfig,
    LayerPath, Outside,
};
use updraft_testing::{
    Numbers, assert_close, assert_close_to_largest, autodiff_devices, devices, gradient_check,
    in_dtype, parameter_gradient_check, parameter_gradients, tolerance,
};

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.5, 1.5), device)
}

fn configs() -> Vec<KanConv2dConfig> {
    let config = |kernel| KanConv2dConfig::new([4, 6], kernel).with_noise_scale(1.0);
    vec![
        config([3, 3]).with_padding([1, 1]),
        config([2, 3]).with_stride([2, 1]).with_dilation([1, 2]).with_bias(true),
        config([3, 3]).with_padding([1, 0]).with_base_branch(BaseBranch::ActivationOfConv),
        config([1, 1]).with_groups(2).with_degree(2).with_scaler(false),
        config([3, 2]).with_padding([2, 1]).with_activation(None).with_outside(Outside::Clamp),
    ]
}

/// A convolution's output and the gradients of `Σ y·g`.
fn results(conv: &KanConv2d, x: &Tensor<4>) -> Vec<(String, Vec<f64>)> {
    let x = x.clone().require_grad();
    let y = conv.forward(x.clone());
    let weights = Tensor::<1>::from_floats([0.5, -1.0, 2.0, 0.25, 1.0, -0.5], &x.device());
    let gradients = (y.clone() * weights.reshape([1, 6, 1, 1])).powi_scalar(2).sum().backward();
    let dx = x.grad(&gradients).expect("takes part").numbers();
    let mut all = vec![("y".to_owned(), y.numbers()), ("x".to_owned(), dx)];
    for gradient in parameter_gradients(conv, &gradients) {
        all.push((gradient.path, gradient.values.expect("takes part")));
    }
    all
}

#[test]
fn kernels_and_the_plain_path_agree_with_all_gradients() {
    for device in autodiff_devices() {
        device.seed(3);
        for config in configs() {
            let conv = config.init(&device);
            let x = random([2, 4, 7, 6], &device);
            let ours = results(&conv, &x);
            let plain = results(&conv.with_path(LayerPath::Plain), &x);
            assert_eq!(ours.len(), plain.len());
            for ((name, ours), (_, plain)) in ours.iter().zip(&plain) {
                println!("{name} of {config}");
                assert_close_to_largest(ours, plain, tolerance::F32);
            }
        }
    }
}

#[test]
fn one_and_three_axes_agree_with_the_plain_path() {
    for device in devices() {
        device.seed(4);
        let conv = KanConv1dConfig::new([3, 5], [4]).with_stride([3]).with_padding([2]);
        let (conv, x) = (conv.init(&device), random([2, 3, 11], &device));
        let y = conv.forward(x.clone());
        assert_eq!(y.dims(), [2, 5, 4]);
        let plain = conv.with_path(LayerPath::Plain).forward(x);
        assert_close(&y.numbers(), &plain.numbers(), tolerance::F32);

        let conv = KanConv3dConfig::new([2, 4], [2, 3, 1]).with_groups(2).with_padding([1, 0, 1]);
        let (conv, x) = (conv.init(&device), random([1, 2, 3, 5, 4], &device));
        let y = conv.forward(x.clone());
        assert_eq!(y.dims(), [1, 4, 4, 3, 6]);
        let plain = conv.with_path(LayerPath::Plain).forward(x);
        assert_close(&y.numbers(), &plain.numbers(), tolerance::F32);
    }
}

#[test]
fn the_gradients_of_the_plain_path_are_difference_quotients() {
    for device in autodiff_devices() {
        device.seed(5);
        for config in configs() {
            let conv = in_dtype(config.init(&device), FloatDType::F64);
            let x = random([1, 4, 4, 5], &device);
            gradient_check(x.clone(), |x| conv.forward(x).powi_scalar(2).sum());
            let x = x.cast(FloatDType::F64);
            parameter_gradient_check(&conv, 6, tolerance::GRADIENT, |conv| {
                conv.forward(x.clone()).powi_scalar(2).sum()
            });
        }
    }
}

#[test]
fn an_empty_batch_has_empty_outputs_and_gradients_of_zero() {
    for device in autodiff_devices() {
        let conv = KanConv2dConfig::new([3, 2], [3, 3]).with_bias(true).init(&device);
        let y = conv.forward(Tensor::zeros([0, 3, 5, 6], &device));
        assert_eq!(y.dims(), [0, 2, 3, 4]);
        for gradient in parameter_gradients(&conv, &y.sum().backward()) {
            let values = gradient.values.expect("takes part");
            assert!(values.iter().all(|&value| value == 0.0), "{}", gradient.path);
        }
        let y = conv.with_path(LayerPath::Plain).forward(Tensor::zeros([0, 3, 5, 6], &device));
        assert_eq!(y.dims(), [0, 2, 3, 4]);
    }
}

#[test]
fn a_record_restores_a_convolution_and_narrow_inputs_stay_narrow() {
    for device in devices() {
        device.seed(6);
        let config = KanConv2dConfig::new([3, 4], [3, 3]).with_padding([1, 1]);
        let conv = config.init(&device);
        let x = random([2, 3, 5, 5], &device);
        let y = conv.forward(x.clone());
        let narrow = conv.forward(x.clone().cast(FloatDType::BF16));
        assert_eq!(narrow.dtype(), DType::BF16);
        assert_close(&narrow.numbers(), &y.numbers(), tolerance::BF16);
        let restored = config.init(&device).load_record(conv.into_record());
        assert_eq!(restored.forward(x).numbers(), y.numbers());
    }
}

#[test]
fn a_config_that_makes_no_convolution_is_refused() {
    let _alone = updraft_testing::alone();
    let config = KanConv2dConfig::new([4, 6], [3, 3]);
    assert_eq!(config.validate(), Ok(()));
    let message = |config: KanConv2dConfig| config.validate().unwrap_err().to_string();
    assert_eq!(
        message(config.clone().with_groups(3)),
        "3 groups do not divide 4 input and 6 output channels"
    );
    assert_eq!(
        message(config.clone().with_stride([1, 0])),
        "the stride of spatial axis 1 is 0; it has to be from 1 to 65536"
    );
    assert_eq!(
        message(config.clone().with_domain_high(-1.0)),
        "grid domain [-1, -1] is empty or not finite; `low` must be less than `high`"
    );
    assert_eq!(message(config.with_noise_scale(-1.0)), "noise scale -1 is negative or not finite");
    let zero = KanConv2dConfig::new([1, 1], [2, 2]).with_degree(0);
    let zero = zero.with_activation(Some(Activation::Relu)).init(&Device::flex());
    assert_eq!(zero.forward(Tensor::zeros([1, 1, 3, 2], &Device::flex())).dims(), [1, 1, 2, 1]);
}

#[test]
#[should_panic(
    expected = "the kernel spans 3 pixels of spatial axis 1, the image with its padding \
                           has 2"
)]
fn an_image_smaller_than_the_kernel_is_refused() {
    let conv = KanConv2dConfig::new([1, 1], [3, 3]).init(&Device::flex());
    let _ = conv.forward(Tensor::zeros([1, 1, 9, 2], &Device::flex()));
}
