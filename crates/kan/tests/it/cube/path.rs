//! Which layers the kernels for GPUs compute.

use burn::tensor::{Device, Tensor};
use updraft_kan::{KanConv1dConfig, KanLinearConfig, LayerPath, Outside, PlainReason};
use updraft_testing::gpus;

use super::case::Case;

#[test]
fn layers_without_kernels_report_the_reason_and_are_computed() {
    for device in gpus() {
        let config = KanLinearConfig::new(3, 4);
        for (config, reason) in [
            (config.clone().with_degree(13), PlainReason::Degree { degree: 13 }),
            (config.clone().with_intervals(3000), PlainReason::Intervals),
        ] {
            let layer = config.init(&device);
            assert_eq!((layer.path(), layer.plain_reason()), (LayerPath::Plain, Some(reason)));
            assert_eq!(layer.forward(Tensor::<2>::zeros([2, 3], &device)).dims(), [2, 4]);
        }
        let layer = config.init(&device).with_path(LayerPath::Plain);
        assert_eq!(layer.plain_reason(), Some(PlainReason::Forced));
        let extended = config.clone().with_degree(6).with_outside(Outside::Extend);
        let layer = Case::new(extended, 2).uneven(false).layer(&device);
        assert_eq!(layer.plain_reason(), Some(PlainReason::Knots));
        assert_eq!(layer.forward(Tensor::<2>::zeros([2, 3], &device)).dims(), [2, 4]);
        let conv = KanConv1dConfig::new([2, 3], [3]).with_degree(13).init(&device);
        assert_eq!(conv.plain_reason(), Some(PlainReason::Degree { degree: 13 }));
        assert_eq!(conv.path(), LayerPath::Plain);
        assert_eq!(conv.forward(Tensor::zeros([1, 2, 8], &device)).dims()[1], 3);
        // Packing is for the CPU: the layer stays as it is.
        let packed = config.init(&device).pack();
        assert_eq!(packed.path(), LayerPath::Cube);
        assert_eq!(packed.forward(Tensor::<2>::zeros([2, 3], &device)).dims(), [2, 4]);
    }
    let layer = KanLinearConfig::new(3, 4).with_degree(13).init(&Device::flex());
    assert_eq!(layer.plain_reason(), None);
}

#[test]
#[should_panic(expected = "no such kernels for the device")]
fn kernels_forced_on_another_device_are_refused() {
    let _alone = updraft_testing::alone();
    let device = Device::flex();
    let layer = KanLinearConfig::new(3, 4).init(&device).with_path(LayerPath::Cube);
    let _ = layer.forward(Tensor::<2>::zeros([2, 3], &device));
}

#[test]
#[should_panic(expected = "the kernels for GPUs compute degrees up to 12")]
fn kernels_forced_on_another_grid_are_refused() {
    let _alone = updraft_testing::alone();
    let device = Device::flex();
    let layer = KanLinearConfig::new(3, 4).with_degree(13).init(&device).with_path(LayerPath::Cube);
    let _ = layer.forward(Tensor::<2>::zeros([2, 3], &device));
}
