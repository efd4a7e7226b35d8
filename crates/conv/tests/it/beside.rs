//! Convolutions beside normalizations, and of two tensors, compared with the separate layers.

use burn::nn::conv::{Conv2dConfig, Conv3dConfig};
use burn::nn::{GroupNormConfig, InstanceNormConfig, PaddingConfig2d, PaddingConfig3d};
use burn::tensor::{Device, Distribution, Tensor};
use updraft_conv::{
    Activation, Conv2d, Conv3d, GroupNorm, InstanceNorm, SampleNorm, Slope, activate,
};
use updraft_testing::{Numbers, Tolerance, alone, assert_close, autodiff_devices};

const LEAKY: Activation = Activation::LeakyRelu(Slope::new(0.01));

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), device)
}

/// A result, and the gradients of `Σ sin y` for these tensors.
fn results<const D: usize, const E: usize>(
    y: Tensor<D>,
    inputs: &[Tensor<D>],
    vectors: [Tensor<E>; 2],
) -> Vec<Vec<f64>> {
    let gradients = y.clone().sin().sum().backward();
    let of_inputs = inputs.iter().map(|x| x.grad(&gradients).expect("takes part").numbers());
    let of_vectors = vectors.map(|x| x.grad(&gradients).expect("takes part").numbers());
    std::iter::once(y.numbers()).chain(of_inputs).chain(of_vectors).collect()
}

fn volumes(inputs: usize, kernel: usize, bias: bool, device: &Device) -> Conv3d {
    let padding = kernel / 2;
    let config = Conv3dConfig::new([inputs, 6], [kernel; 3])
        .with_padding(PaddingConfig3d::Explicit(padding, padding, padding))
        .with_bias(bias);
    Conv3d::new(&config, device)
}

fn images(inputs: usize, kernel: usize, bias: bool, device: &Device) -> Conv2d {
    let padding = kernel / 2;
    let config = Conv2dConfig::new([inputs, 6], [kernel; 2])
        .with_padding(PaddingConfig2d::Explicit(padding, padding, padding, padding))
        .with_bias(bias);
    Conv2d::new(&config, device)
}

/// The convolution of `norm(x)`, and `norm` of the convolution of 4 channels to 6, both ways.
fn both_orders(before: &impl SampleNorm, after: &impl SampleNorm, parameters: [[Tensor<1>; 2]; 2]) {
    let device = parameters[0][0].device();
    for bias in [false, true] {
        let conv = volumes(4, 3, bias, &device);
        let x = random([2, 4, 5, 6, 9], &device).require_grad();
        let together = conv.forward_normalized(x.clone(), before, LEAKY);
        let ours = results(together, std::slice::from_ref(&x), parameters[0].clone());
        let alone = conv.forward(before.forward_activated(x.clone(), LEAKY));
        assert_eq!(ours, results(alone, &[x], parameters[0].clone()), "bias {bias}");

        let conv = images(4, 3, bias, &device);
        let x = random([2, 4, 7, 18], &device).require_grad();
        let together = conv.forward_normalized(x.clone(), before, LEAKY);
        let ours = results(together, std::slice::from_ref(&x), parameters[0].clone());
        let alone = conv.forward(before.forward_activated(x.clone(), LEAKY));
        assert_eq!(ours, results(alone, &[x], parameters[0].clone()), "bias {bias}");
    }
    let conv = volumes(4, 1, false, &device);
    let x = random([2, 4, 5, 6, 9], &device).require_grad();
    let together = conv.forward_then(x.clone(), after, Activation::Identity);
    let ours = results(together, &[x.clone(), conv.weight.val()], parameters[1].clone());
    let alone = after.forward_activated(conv.forward(x.clone()), Activation::Identity);
    let theirs = results(alone, &[x, conv.weight.val()], parameters[1].clone());
    assert_eq!(ours, theirs);
}

#[test]
fn convolutions_beside_norms_are_the_separate_layers_with_their_gradients() {
    let _alone = alone();
    for device in autodiff_devices() {
        device.seed(51);
        let parameters = |gamma: &Option<burn::module::Param<Tensor<1>>>,
                          beta: &Option<burn::module::Param<Tensor<1>>>| {
            [gamma, beta].map(|vector| vector.as_ref().expect("affine").val())
        };
        let [a, b] = [4, 6].map(|n| InstanceNorm::new(&InstanceNormConfig::new(n), &device));
        let of = [parameters(&a.gamma, &a.beta), parameters(&b.gamma, &b.beta)];
        both_orders(&a, &b, of);
        let [a, b] = [4, 6].map(|n| GroupNorm::new(&GroupNormConfig::new(2, n), &device));
        let of = [parameters(&a.gamma, &a.beta), parameters(&b.gamma, &b.beta)];
        both_orders(&a, &b, of);
    }
}

#[test]
fn a_convolution_of_two_tensors_is_that_of_their_channels() {
    // Sums of 216 products, added in another order.
    let of_sums = Tolerance { relative: 1e-5, absolute: 1e-5 };
    for device in autodiff_devices() {
        device.seed(52);
        let conv = volumes(8, 3, false, &device);
        let [a, b] = [3, 5].map(|n| random([2, n, 5, 6, 9], &device).require_grad());
        let vectors = [conv.weight.val(), conv.weight.val()];
        let ours = results(
            conv.forward_joined(a.clone(), b.clone()),
            &[a.clone(), b.clone()],
            vectors.clone(),
        );
        let whole = conv.forward(Tensor::cat(vec![a.clone(), b.clone()], 1));
        for (ours, theirs) in ours.iter().zip(results(whole, &[a, b], vectors)) {
            assert_close(ours, &theirs, of_sums);
        }
    }
}

#[test]
fn gradients_of_rectifiers_need_no_more_than_their_results() {
    for device in autodiff_devices() {
        for (activation, slope) in
            [(Activation::Relu, 0.0), (LEAKY, 0.01), (Activation::LeakyRelu(Slope::new(0.0)), 0.0)]
        {
            let x = Tensor::<1>::from_floats([-2.0, -1e-30, 0.5, 3.0], &device).require_grad();
            let gradients = activate(x.clone(), activation).sum().backward();
            let found = x.grad(&gradients).expect("takes part").numbers();
            let wanted = [slope, slope, 1.0, 1.0].map(|slope| f64::from(slope as f32));
            assert_eq!(found, wanted, "{activation:?}");
        }
    }
}
