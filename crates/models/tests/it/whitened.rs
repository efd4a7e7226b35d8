//! The network behind a whitening convolution.

use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use updraft_models::{WhitenedConfig, WhitenedNet};
use updraft_testing::{Numbers, alone, devices, in_dtype};

const CLASSES: usize = 5;

fn net(device: &Device) -> WhitenedNet {
    device.seed(11);
    WhitenedConfig::new(CLASSES).with_widths([4, 6, 6]).init(device)
}

fn images(batch: usize, side: usize, device: &Device) -> Tensor<4> {
    device.seed(5);
    Tensor::random([batch, 3, side, side], Distribution::Normal(0.0, 1.0), device)
}

#[test]
fn every_image_gets_one_logit_per_class_whatever_its_size() {
    for device in devices() {
        let net = net(&device);
        for side in [WhitenedConfig::MIN_SIDE, 15, 32] {
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
fn logits_grow_with_the_scale_of_the_head() {
    for device in devices() {
        let [one, three] = [1.0, 3.0].map(|scale| {
            device.seed(11);
            let config = WhitenedConfig::new(CLASSES).with_widths([4, 6, 6]);
            config.with_head_scale(scale).init(&device).forward(images(2, 16, &device)).numbers()
        });
        for (one, three) in one.iter().zip(&three) {
            assert!((3.0 * one - three).abs() <= 1e-5 * three.abs(), "{one} {three}");
        }
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
            let y = net.forward(images(2, 9, &device).cast(dtype));
            assert_eq!(y.dtype(), dtype.into());
        }
    }
}
