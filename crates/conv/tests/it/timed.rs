//! The times of layers, in both passes.

use burn::nn::conv::{Conv1dConfig, Conv2dConfig, Conv3dConfig, ConvTranspose2dConfig};
use burn::nn::pool::{AvgPool2dConfig, MaxPool2dConfig};
use burn::nn::{BatchNormConfig, GroupNormConfig, InstanceNormConfig};
use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use updraft_conv::{
    Activation, Alignment, AvgPool2d, BatchNorm, Conv1d, Conv2d, Conv3d, ConvTranspose2d,
    GroupNorm, InstanceNorm, LayerPath, MaxPool2d, MaxPool3d, MaxPool3dConfig, activate,
    join_channels, resize2d, resize3d, weighted_sum,
};
use updraft_simd::{LayerPass, LayerSpan, LayerTimer};

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.5, 1.5), device)
}

/// The spans of a forward and a backward pass.
fn passes<const D: usize>(forward: impl FnOnce() -> Tensor<D>) -> [Vec<LayerSpan>; 2] {
    let mut timer = LayerTimer::start();
    let loss = forward().sum();
    let of_forward = timer.take();
    loss.backward();
    [of_forward, timer.take()]
}

/// The kind, the parameter and the operations of each span, all of one pass.
fn layers(spans: &[LayerSpan], pass: LayerPass) -> Vec<(&'static str, Option<u64>, u64)> {
    assert!(spans.iter().all(|span| span.pass == pass && span.own <= span.took), "{spans:?}");
    spans.iter().map(|it| (it.layer.kind, it.layer.parameter, it.operations)).collect()
}

#[test]
fn a_convolution_has_the_time_and_the_operations_of_both_passes() {
    let _alone = updraft_testing::alone();
    let device = Device::flex().autodiff();
    let conv = Conv2d::new(&Conv2dConfig::new([2, 3], [3, 3]), &device);
    let id = Some(conv.weight.id.val());
    let products = 2 * 8 * 8 * 2 * 3 * 9;
    let started = std::time::Instant::now();
    let x = random([1, 2, 10, 10], &device);
    let [forward, backward] = passes(|| conv.forward_activated(x.clone(), Activation::Relu));
    assert_eq!(layers(&forward, LayerPass::Forward), [("convolution", id, products)]);
    // The input is data: of the gradients only that of the weights has products, and the activation
    // is a part of the layer.
    let expected = [("convolution", id, 0), ("convolution", id, products)];
    assert_eq!(layers(&backward, LayerPass::Backward), expected);
    let [_, backward] = passes(|| conv.forward(x.require_grad()));
    assert_eq!(layers(&backward, LayerPass::Backward), [("convolution", id, 2 * products)]);
    assert!(backward[0].took > std::time::Duration::ZERO && backward[0].started > started);
}

/// A kind, a parameter, and the spans of both passes.
type Case = (&'static str, Option<u64>, [Vec<LayerSpan>; 2]);

#[test]
fn every_layer_is_timed_in_both_passes() {
    let _alone = updraft_testing::alone();
    let device = &Device::flex().autodiff();
    let line = Conv1d::from(Conv1dConfig::new(2, 3, 3).init(device));
    let volume = Conv3d::new(&Conv3dConfig::new([2, 3], [2, 2, 2]), device);
    let up = ConvTranspose2d::new(&ConvTranspose2dConfig::new([2, 3], [2, 2]), device);
    let conv = Conv2d::new(&Conv2dConfig::new([4, 4], [1, 1]).with_bias(false), device);
    let norm = BatchNorm::new(&BatchNormConfig::new(4), device);
    let groups = GroupNorm::new(&GroupNormConfig::new(2, 4), device);
    let instances = InstanceNorm::new(&InstanceNormConfig::new(4).with_affine(false), device);
    let gamma = groups.gamma.as_ref().expect("a factor").id.val();
    let maps = || random([2, 4, 8, 8], device).require_grad();
    let volumes = || random([1, 2, 4, 4, 4], device).require_grad();
    let relu = Activation::Relu;
    let cases: Vec<Case> = vec![
        (
            "convolution",
            Some(line.weight.id.val()),
            passes(|| line.forward(random([2, 2, 9], device).require_grad())),
        ),
        ("convolution", Some(volume.weight.id.val()), passes(|| volume.forward(volumes()))),
        (
            "transposed convolution",
            Some(up.weight.id.val()),
            passes(|| up.forward(random([2, 2, 5, 5], device).require_grad())),
        ),
        (
            "convolution with normalization",
            Some(conv.weight.id.val()),
            passes(|| conv.forward_normalized(maps(), &groups, relu)),
        ),
        (
            "convolution with normalization",
            Some(conv.weight.id.val()),
            passes(|| conv.forward_then_normalized(maps(), &groups, relu)),
        ),
        (
            "convolution",
            Some(conv.weight.id.val()),
            passes(|| {
                let half = || random([2, 2, 8, 8], device).require_grad();
                conv.forward_joined(half(), half())
            }),
        ),
        ("batch normalization", Some(norm.gamma.id.val()), passes(|| norm.forward(maps()))),
        ("group normalization", Some(gamma), passes(|| groups.forward(maps()))),
        ("group normalization", None, passes(|| instances.forward(maps()))),
        (
            "max pooling",
            None,
            passes(|| MaxPool2d::new(MaxPool2dConfig::new([2, 2])).forward(maps())),
        ),
        (
            "average pooling",
            None,
            passes(|| AvgPool2d::new(AvgPool2dConfig::new([2, 2])).forward(maps())),
        ),
        (
            "max pooling",
            None,
            passes(|| MaxPool3d::new(MaxPool3dConfig::new([2, 2, 2])).forward(volumes())),
        ),
        ("resize", None, passes(|| resize2d(maps(), [16, 16], Alignment::Corners))),
        ("activation", None, passes(|| activate(maps(), relu))),
        ("activation", None, passes(|| activate(maps(), Activation::Silu))),
        ("concatenation", None, passes(|| join_channels(maps(), maps()))),
        (
            "weighted sum",
            None,
            passes(|| weighted_sum(vec![maps(), maps()], random([2], device).require_grad())),
        ),
    ];
    for (kind, parameter, [forward, backward]) in cases {
        for (spans, pass) in [(forward, LayerPass::Forward), (backward, LayerPass::Backward)] {
            let found = layers(&spans, pass);
            assert_eq!(found.len(), 1, "{kind}, {pass:?}: {found:?}");
            let (found, of, operations) = found[0];
            assert_eq!((found, of), (kind, parameter), "{pass:?}");
            assert!(!spans[0].is_plain, "{kind}, {pass:?}");
            assert_eq!(operations > 0, kind.contains("convolution"), "{kind}, {pass:?}");
        }
    }
}

/// The spans of a forward pass.
fn of_forward<const D: usize>(forward: impl FnOnce() -> Tensor<D>) -> Vec<LayerSpan> {
    let mut timer = LayerTimer::start();
    forward();
    timer.take()
}

#[test]
fn layers_that_burns_operations_compute_are_marked() {
    let _alone = updraft_testing::alone();
    let device = &Device::flex().autodiff();
    let maps = || random([2, 4, 8, 8], device).cast(FloatDType::F64);
    let volumes = || random([1, 2, 4, 4, 4], device).cast(FloatDType::F64);
    let weights = || random([2], device).cast(FloatDType::F64);
    let conv = Conv2d::new(&Conv2dConfig::new([4, 4], [1, 1]), device).with_path(LayerPath::Plain);
    let groups = GroupNorm::new(&GroupNormConfig::new(2, 4), device);
    let norm = BatchNorm::new(&BatchNormConfig::new(4), device);
    let pool = MaxPool2d::new(MaxPool2dConfig::new([2, 2]));
    let pool_volumes = MaxPool3d::new(MaxPool3dConfig::new([2, 2, 2]));
    let cases = [
        ("convolution", of_forward(|| conv.forward(random([2, 4, 8, 8], device)))),
        ("batch normalization", of_forward(|| norm.forward(maps()))),
        ("group normalization", of_forward(|| groups.forward(maps()))),
        ("max pooling", of_forward(|| pool.forward(maps()))),
        ("max pooling", of_forward(|| pool_volumes.forward(volumes()))),
        ("resize", of_forward(|| resize2d(maps(), [16, 16], Alignment::Corners))),
        ("resize", of_forward(|| resize3d(volumes(), [8, 8, 8], Alignment::Corners))),
        ("activation", of_forward(|| activate(maps(), Activation::Silu))),
        ("concatenation", of_forward(|| join_channels(maps(), maps()))),
        ("weighted sum", of_forward(|| weighted_sum(vec![maps(), maps()], weights()))),
    ];
    for (kind, spans) in cases {
        let [span] = &spans[..] else { panic!("{kind}: {spans:?}") };
        assert_eq!((span.layer.kind, span.is_plain), (kind, true));
    }
}

#[test]
fn a_timer_changes_no_gradient_and_records_nothing_after_it() {
    let _alone = updraft_testing::alone();
    let device = Device::flex().autodiff();
    let conv = Conv2d::new(&Conv2dConfig::new([3, 4], [3, 3]), &device);
    let norm = BatchNorm::new(&BatchNormConfig::new(4), &device);
    let x = random([2, 3, 9, 9], &device);
    let gradient = || {
        let loss = norm.forward(conv.forward(x.clone())).square().sum();
        conv.weight.val().grad(&loss.backward()).expect("a gradient").into_data()
    };
    let plain = gradient();
    let timer = LayerTimer::start();
    assert_eq!(gradient(), plain);
    drop(timer);
    assert_eq!(gradient(), plain);
    assert_eq!(LayerTimer::start().take(), []);
}
