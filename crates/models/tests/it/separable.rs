//! The network of depthwise-separable convolutions, and its outlier channels.

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{Device, Distribution, FloatDType, Int, Tensor};
use updraft_models::{SeparableConfig, SeparableNet};
use updraft_testing::{Numbers, alone, autodiff_devices, devices, in_dtype};

const CLASSES: usize = 5;

fn net(device: &Device) -> SeparableNet {
    device.seed(11);
    SeparableConfig::new(CLASSES, 4).init(device)
}

fn images(batch: usize, side: usize, device: &Device) -> Tensor<4> {
    device.seed(5);
    Tensor::random([batch, 3, side, side], Distribution::Normal(0.0, 1.0), device)
}

fn loss(net: &SeparableNet, rgb: Tensor<4>) -> Tensor<1> {
    let [batch, ..] = rgb.dims();
    let device = rgb.device();
    let labels: Vec<i64> = (0..batch as i64).map(|i| i % CLASSES as i64).collect();
    let labels = Tensor::<1, Int>::from_ints(labels.as_slice(), &device);
    CrossEntropyLossConfig::new().init(&device).forward(net.forward(rgb), labels)
}

/// A network after some updates: norms have running statistics, γ and β differ by channel.
fn trained(device: &Device) -> SeparableNet {
    let (mut net, mut optimizer) = (net(device), SgdConfig::new().init());
    for _ in 0..5 {
        let gradients = loss(&net, images(10, 16, device)).backward();
        let gradients = GradientsParams::from_grads(gradients, &net);
        net = optimizer.step(0.1, net, gradients);
    }
    net.valid()
}

#[test]
fn every_image_gets_one_logit_per_class_whatever_its_size() {
    for device in devices() {
        let net = net(&device);
        for side in [8, 15, 32] {
            assert_eq!(net.forward(images(3, side, &device)).dims(), [3, CLASSES]);
        }
    }
}

#[test]
fn the_segments_and_the_head_are_the_forward_pass() {
    for device in devices() {
        let (net, rgb) = (net(&device), images(2, 16, &device));
        let maps =
            (0..net.segments()).fold(rgb.clone(), |maps, index| net.forward_segment(index, maps));
        assert_eq!(net.forward_head(maps).numbers(), net.forward(rgb).numbers());
    }
}

#[test]
fn the_same_seed_gives_the_same_network() {
    let _alone = alone();
    let device = Device::flex();
    let answers = || net(&device).forward(images(2, 16, &device)).into_data();
    assert!(answers() == answers());
}

#[test]
fn the_dtype_of_the_input_is_that_of_the_output() {
    for device in devices() {
        for dtype in [FloatDType::F64, FloatDType::F32, FloatDType::BF16] {
            let net = in_dtype(net(&device), dtype);
            let y = net.forward(images(2, 8, &device).cast(dtype));
            assert_eq!(y.dtype(), dtype.into());
        }
    }
}

#[test]
fn updates_lower_the_loss_of_the_images_they_were_made_on() {
    for device in autodiff_devices() {
        let before = loss(&net(&device).valid(), images(10, 16, &device)).numbers()[0];
        let after = loss(&trained(&device), images(10, 16, &device)).numbers()[0];
        assert!(after < before, "{before} {after}");
    }
}

#[test]
fn outliers_change_no_bit_for_a_power_of_two_and_only_round_for_another_factor() {
    for device in autodiff_devices() {
        let net = trained(&device);
        let x = images(6, 16, &device.clone().inner());
        let expected = net.forward(x.clone()).numbers();
        let by_64 = net.clone().try_with_outliers(64.0).expect("a factor").forward(x.clone());
        assert_eq!(by_64.numbers(), expected);
        let by_90 = net.try_with_outliers(90.0).expect("a factor").forward(x).numbers();
        let largest = expected.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
        for (expected, found) in expected.iter().zip(by_90) {
            assert!((expected - found).abs() <= 1e-5 * largest, "{expected} {found}");
        }
    }
}

#[test]
fn outliers_enlarge_the_range_of_every_block_input() {
    let _alone = alone();
    let device = Device::flex();
    let net = trained(&device.clone().autodiff());
    let with_outliers = net.clone().try_with_outliers(64.0).expect("a factor");
    let x = images(6, 16, &device);
    for index in 0..net.segments() - 1 {
        let through = |net: &SeparableNet| {
            let maps = (0..=index).fold(x.clone(), |maps, index| net.forward_segment(index, maps));
            maps.numbers().into_iter().fold(0.0_f64, f64::max)
        };
        let (before, after) = (through(&net), through(&with_outliers));
        assert!(after > 16.0 * before, "segment {index}: {before} {after}");
    }
}

#[test]
fn an_invalid_factor_is_refused_with_its_value() {
    let _alone = alone();
    for factor in [0.0, -1.0, f32::NAN, f32::INFINITY, f32::MAX] {
        let error = net(&Device::flex()).try_with_outliers(factor).expect_err("no factor");
        assert!(error.to_string().contains(&format!("is {factor};")), "{error}");
    }
}
