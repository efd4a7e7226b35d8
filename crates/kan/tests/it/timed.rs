//! The times of layers, in both passes.

use burn::tensor::{Device, Distribution, Tensor};
use updraft_kan::{
    Activation, Basis, BasisConv2dConfig, BasisLinearConfig, Centers, KanConv2dConfig,
    KanLinearConfig, LayerPath,
};
use updraft_simd::{LayerPass, LayerSpan, LayerTimer};
use updraft_testing::parameter_gradients;

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-0.9, 0.9), device)
}

/// The spans of a forward and a backward pass.
fn passes<const D: usize>(forward: impl FnOnce() -> Tensor<D>) -> [Vec<LayerSpan>; 2] {
    let mut timer = LayerTimer::start();
    let loss = forward().sum();
    let of_forward = timer.take();
    loss.backward();
    [of_forward, timer.take()]
}

#[test]
fn layers_that_burns_operations_compute_are_marked() {
    let _alone = updraft_testing::alone();
    let device = &Device::flex();
    let linear = KanLinearConfig::new(6, 5).init(device);
    let conv = KanConv2dConfig::new([2, 3], [2, 2]).init(device);
    let of_functions = BasisLinearConfig::new(6, 5, Basis::Legendre { degree: 3 }).init(device);
    let is_plain = |path: LayerPath| {
        let mut timer = LayerTimer::start();
        let _: Tensor<2> =
            linear.clone().with_path(path).forward(Tensor::<2>::ones([4, 6], device));
        let _ = conv.clone().with_path(path).forward(Tensor::ones([2, 2, 5, 6], device));
        let _: Tensor<2> =
            of_functions.clone().with_path(path).forward(Tensor::<2>::ones([4, 6], device));
        timer.take().iter().map(|it| it.is_plain).collect::<Vec<_>>()
    };
    assert_eq!(is_plain(LayerPath::Plain), [true; 3]);
    assert_eq!(is_plain(LayerPath::of(device)), [false; 3]);
}

#[test]
fn splines_have_the_time_and_the_operations_of_both_passes() {
    let _alone = updraft_testing::alone();
    let device = &Device::flex().autodiff();
    let linear = KanLinearConfig::new(6, 5).with_degree(3).init(device);
    let conv = KanConv2dConfig::new([2, 3], [2, 2]).with_degree(2).init(device);
    let rows = Tensor::<2>::ones([4, 6], device).require_grad();
    let images = Tensor::<4>::ones([2, 2, 5, 6], device);
    // Four functions of degree 3, or three of degree 2, are not zero, beside the base branch.
    let of_linear = 2 * 5 * 6 * 5 * 4;
    let of_conv = 2 * 4 * (2 * 2 * 2 * 3) * (2 * 4 * 5);
    for (kind, parameter, passes, operations, gradients) in [
        ("KAN layer", linear.spline.id, passes(|| linear.forward(rows)), of_linear, 2),
        // The images are data without a gradient.
        ("KAN convolution", conv.spline.id, passes(|| conv.forward(images)), of_conv, 1),
    ] {
        let of_passes = [(LayerPass::Forward, 1), (LayerPass::Backward, gradients)];
        for (spans, (pass, factor)) in passes.iter().zip(of_passes) {
            let [span] = &spans[..] else { panic!("{kind}: {spans:?}") };
            assert_eq!((span.layer.kind, span.pass), (kind, pass));
            assert_eq!(span.layer.parameter, Some(parameter.val()));
            assert_eq!(span.operations, factor * operations, "{kind}, {pass:?}");
        }
    }
}

#[test]
fn functions_in_closed_form_have_the_times_of_the_passes_that_kernels_compute() {
    let _alone = updraft_testing::alone();
    let device = &Device::flex().autodiff();
    let basis = Basis::Chebyshev { degree: 3 };
    let linear = BasisLinearConfig::new(3, 4, basis).with_activation(None).init(device);
    let rows = Tensor::<2>::ones([5, 3], device).require_grad();
    let [forward, backward] = passes(|| linear.forward(rows));
    // Four functions of each of three inputs.
    let operations = 2 * 5 * (4 * 3) * 4;
    for (spans, (pass, factor)) in
        [forward, backward].iter().zip([(LayerPass::Forward, 1), (LayerPass::Backward, 2)])
    {
        let [span] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!((span.layer.kind, span.pass), ("KAN layer", pass));
        assert_eq!(span.layer.parameter, Some(linear.coefficients.id.val()));
        assert_eq!(span.operations, factor * operations, "{pass:?}");
    }
}

#[test]
fn convolutions_of_closed_forms_have_the_same_bits_with_a_timer_and_the_times_of_both_passes() {
    let _alone = updraft_testing::alone();
    let device = &Device::flex().autodiff();
    let basis = Basis::Gaussian(Centers { functions: 3, low: -1.0, high: 1.0 });
    for (activation, bias, has_gradient) in
        [(Some(Activation::Silu), true, true), (None, false, false)]
    {
        let conv = BasisConv2dConfig::new([2, 3], [2, 2], basis)
            .with_activation(activation)
            .with_bias(bias)
            .init(device);
        let images = random([2, 2, 4, 5], device);
        let images = if has_gradient { images.require_grad() } else { images };
        let factors = random([2, 3, 3, 4], device);
        let run = || {
            let maps = conv.forward(images.clone());
            let gradients = (maps.clone() * factors.clone()).sum().backward();
            let of_images = images.grad(&gradients).map(Tensor::into_data);
            assert_eq!(of_images.is_some(), has_gradient);
            (maps.into_data(), of_images, parameter_gradients(&conv, &gradients))
        };
        let expected = run();
        assert!(expected.2.iter().all(|it| it.values.is_some()), "{:?}", expected.2);
        let mut timer = LayerTimer::start();
        assert_eq!(run(), expected);
        let products = 2 * (2 * 3 * 4) * (2 * 3 * 4) * (3 + u64::from(activation.is_some()));
        let gradients = 1 + u64::from(has_gradient);
        let spans = timer.take();
        let found: Vec<_> = spans.iter().map(|it| (it.pass, it.operations)).collect();
        let expected =
            [(LayerPass::Forward, products), (LayerPass::Backward, gradients * products)];
        assert_eq!(found, expected);
        for span in spans {
            assert_eq!(span.layer.kind, "KAN convolution");
            assert_eq!(span.layer.parameter, Some(conv.coefficients.id.val()));
        }
    }
}
