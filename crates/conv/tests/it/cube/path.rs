//! Which layers the kernels for GPUs compute.

use burn::nn::BatchNormConfig;
use burn::nn::conv::Conv2dConfig;
use burn::tensor::{Device, Tensor};
use updraft_conv::{BatchNorm, Conv2d, LayerPath, PlainReason};
use updraft_testing::{alone, gpus};

#[test]
fn batch_norms_alone_have_kernels_for_gpus() {
    for device in gpus() {
        let norm = BatchNorm::new(&BatchNormConfig::new(3), &device);
        assert_eq!((norm.path(), norm.plain_reason()), (LayerPath::Cube, None));
        assert_eq!(norm.path().to_string(), "kernels (CubeCL)");
        let plain = norm.with_path(LayerPath::Plain);
        assert_eq!(plain.path(), LayerPath::Plain);
        assert_eq!(plain.plain_reason(), Some(PlainReason::Forced));
        assert_eq!(LayerPath::of(&device), LayerPath::Plain);
        let conv = Conv2d::new(&Conv2dConfig::new([3, 4], [3, 3]), &device);
        assert_eq!(conv.path(), LayerPath::Plain);
        assert_eq!(conv.forward(Tensor::ones([1, 3, 5, 5], &device)).dims(), [1, 4, 3, 3]);
    }
}

#[test]
#[should_panic(expected = "no kernels for GPUs for the device")]
fn kernels_forced_on_another_device_are_refused() {
    let _alone = alone();
    let device = Device::flex();
    let norm = BatchNorm::new(&BatchNormConfig::new(3), &device).with_path(LayerPath::Cube);
    let _ = norm.forward(Tensor::<2>::zeros([2, 3], &device));
}

#[test]
#[should_panic(expected = "the kernels for GPUs compute batch norms only")]
fn kernels_forced_on_another_layer_are_refused() {
    let _alone = alone();
    let device = Device::flex();
    let conv = Conv2d::new(&Conv2dConfig::new([3, 4], [3, 3]), &device);
    let _ = conv.with_path(LayerPath::Cube).forward(Tensor::ones([1, 3, 5, 5], &device));
}
