//! The times of layers, in both passes.

use burn::tensor::{Device, Tensor};
use updraft_kan::{Basis, BasisConv2dConfig, BasisLinearConfig, KanConv2dConfig, KanLinearConfig};
use updraft_simd::{LayerPass, LayerSpan, LayerTimer};

/// The spans of a forward and a backward pass.
fn passes<const D: usize>(forward: impl FnOnce() -> Tensor<D>) -> [Vec<LayerSpan>; 2] {
    let mut timer = LayerTimer::start();
    let loss = forward().sum();
    let of_forward = timer.take();
    loss.backward();
    [of_forward, timer.take()]
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

    let conv = BasisConv2dConfig::new([2, 3], [2, 2], basis).init(device);
    let [forward, backward] = passes(|| conv.forward(Tensor::<4>::ones([1, 2, 4, 4], device)));
    assert_eq!(forward.len(), 1, "{forward:?}");
    assert_eq!(forward[0].layer.parameter, Some(conv.coefficients.id.val()));
    assert_eq!(backward, [], "burn's operations compute its gradients");
}
