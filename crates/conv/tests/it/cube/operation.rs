//! The kernels for GPUs as an operation on tensors.

use burn::module::Module;
use burn::nn::BatchNormConfig;
use burn::nn::conv::Conv2dConfig;
use burn::tensor::{Device, Tensor};
use updraft_conv::{Activation, BatchNorm, Conv2d, ConvNormActivation, LayerPath};
use updraft_testing::{Numbers, assert_close_to_largest, gpus, tolerance};

use super::case::{By, Case, NAMES, bits, values};

#[test]
fn two_runs_give_the_same_bits() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for dims in [[2, 3, 5000], [700, 5, 9]] {
            let case = Case::new(dims, By::Batch, Activation::Gelu).with_residual();
            let first = bits(&case.run(&device, None));
            for _ in 0..3 {
                assert!(bits(&case.run(&device, None)) == first, "{dims:?}");
            }
        }
    }
}

#[test]
fn results_and_gradients_are_those_of_burns_operations_on_the_same_device() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for by in [By::Batch, By::Running] {
            let case = Case::new([4, 5, 60], by, Activation::HardSwish).with_residual();
            let ours = case.run(&device, None);
            let plain = case.run(&device, Some(LayerPath::Plain));
            for ((name, ours), plain) in NAMES.iter().zip(&ours).zip(&plain) {
                println!("{name}, by {by:?}");
                assert_close_to_largest(ours, plain, tolerance::F32);
            }
        }
    }
}

#[test]
fn running_statistics_follow_as_in_burns_operations() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let case = Case::new([4, 5, 60], By::Batch, Activation::Relu);
        let after_two = |path| {
            let layer = case.layer(&device).with_path(path);
            for _ in 0..2 {
                let x = case.tensor(&case.x, case.dims, &device);
                let _ = case.forward(&layer, x, None);
            }
            let layer = layer.valid();
            [layer.running_mean.value(), layer.running_var.value()].map(|state| state.numbers())
        };
        let (ours, plain) = (after_two(LayerPath::Cube), after_two(LayerPath::Plain));
        for (ours, plain) in ours.iter().zip(&plain) {
            assert_close_to_largest(ours, plain, tolerance::F32);
        }
    }
}

#[test]
fn tensors_that_are_not_contiguous_are_read_in_their_order() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let case = Case::new([6, 4, 10], By::Batch, Activation::Silu).with_residual();
        let layer = case.layer(&device);
        let x = case.tensor(&case.x, case.dims, &device);
        let residual = case.tensor(&case.x, case.dims, &device).mul_scalar(0.5);
        let turned = |tensor: Tensor<3>| tensor.swap_dims(1, 2).mul_scalar(1.0).swap_dims(1, 2);
        let expected = values(case.forward(&layer, x.clone(), Some(residual.clone())));
        let actual = case.forward(&layer, turned(x.clone()), Some(turned(residual)));
        assert_eq!(values(actual), expected);
        // The gradient arrives turned.
        let gradient = |path| {
            let (layer, x) = (layer.clone().with_path(path), x.clone().require_grad());
            let y = case.forward(&layer, x.clone(), None).swap_dims(1, 2);
            let gradients = y.mul_scalar(2.0).powi_scalar(2).sum().backward();
            x.grad(&gradients).expect("takes part").numbers()
        };
        let (ours, plain) = (gradient(LayerPath::Cube), gradient(LayerPath::Plain));
        assert_close_to_largest(&ours, &plain, tolerance::F32);
    }
}

#[test]
fn gradients_of_some_tensors_alone_are_those_of_all() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let case = Case::new([5, 3, 20], By::Batch, Activation::Relu);
        let [_, of_x, of_gamma, ..] = case.run(&device, None);
        let x = || case.tensor(&case.x, case.dims, &device);
        let dy = case.tensor(&case.dy, case.dims, &device);
        let layer = case.layer(&device);
        let gradients = (case.forward(&layer, x(), None) * dy.clone()).sum().backward();
        assert_eq!(values(layer.gamma.val().grad(&gradients).expect("takes part")), of_gamma);
        let (x, layer) = (x().require_grad(), layer.no_grad());
        let gradients = (case.forward(&layer, x.clone(), None) * dy).sum().backward();
        assert_eq!(values(x.grad(&gradients).expect("takes part")), of_x);
        assert!(layer.gamma.val().grad(&gradients).is_none());
    }
}

#[test]
fn a_block_normalizes_the_result_of_burns_convolution() {
    for device in gpus() {
        let conv = Conv2d::new(&Conv2dConfig::new([2, 3], [3, 3]).with_bias(false), &device);
        let norm = BatchNorm::new(&BatchNormConfig::new(3), &device);
        let block = ConvNormActivation::new(conv, norm, Activation::Relu);
        assert_eq!((block.path(), block.norm.path()), (LayerPath::Plain, LayerPath::Cube));
        let x = Tensor::<4>::ones([2, 2, 6, 7], &device);
        let plain = block.clone().with_path(LayerPath::Plain).forward(x.clone());
        for block in [block.clone(), block.with_path(LayerPath::Cube)] {
            let y = block.forward(x.clone());
            assert_close_to_largest(&y, &plain, tolerance::F32);
        }
    }
}

#[test]
#[should_panic(expected = "an empty tensor has no statistics")]
fn an_empty_batch_is_refused_as_on_the_cpu() {
    let devices = gpus();
    let Some(device) = devices.first() else {
        panic!("without a GPU: an empty tensor has no statistics");
    };
    let layer = BatchNorm::new(&BatchNormConfig::new(3), device);
    let _ = layer.forward(Tensor::<2>::zeros([0, 3], device));
}
