//! The kernels for GPUs as an operation on tensors.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use updraft_kan::{CubeForm, KanLinearConfig, LayerPath};
use updraft_testing::gpus;

use super::case::{Case, bits, error, values};

/// The largest difference allowed from burn's operations, which multiply matrices in TF32 where the
/// device has it.
const CLOSE_TO_TF32: f64 = 1e-3;

#[test]
fn two_runs_give_the_same_bits() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for intervals in [5, 20, 60] {
            let config = KanLinearConfig::new(30, 70).with_intervals(intervals).with_bias(true);
            let case = Case::new(config, 700);
            for &form in case.forms() {
                let first = bits(&case.run(&device, form));
                for _ in 0..3 {
                    let next = bits(&case.run(&device, form));
                    assert!(next == first, "{form}, {intervals} intervals");
                }
            }
        }
    }
}

#[test]
fn an_empty_batch_has_empty_outputs_and_gradients_of_zero() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let layer = Case::new(KanLinearConfig::new(3, 2).with_bias(true), 1).layer(&device);
        let y = layer.forward(Tensor::<2>::zeros([0, 3], &device));
        assert_eq!(y.dims(), [0, 2]);
        assert_eq!(layer.forward(Tensor::<3>::zeros([4, 0, 3], &device)).dims(), [4, 0, 2]);
        let gradients = y.sum().backward();
        let spline = layer.spline.val().grad(&gradients).expect("takes part");
        assert!(values(spline).iter().all(|&value| value == 0.0));
    }
}

#[test]
fn tensors_that_are_not_contiguous_are_read_in_their_order() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let case = Case::new(KanLinearConfig::new(6, 10), 12);
        let layer = case.layer(&device);
        let x = Tensor::<2>::from_data(TensorData::new(case.x.clone(), [12, 6]), &device);
        let expected = values(layer.forward(x.clone()));
        let turned = x.clone().transpose().mul_scalar(1.0).transpose();
        assert_eq!(values(layer.forward(turned.clone())), expected);
        let cut = Tensor::cat(vec![turned.clone(), turned], 1).narrow(1, 6, 6);
        assert_eq!(values(layer.forward(cut)), expected);
        let y = layer.forward(x.require_grad());
        // The gradient arrives transposed.
        let gradients = y.clone().transpose().mul_scalar(2.0).sum().backward();
        let plain = layer.clone().with_path(LayerPath::Plain);
        let x = Tensor::<2>::from_data(TensorData::new(case.x.clone(), [12, 6]), &device);
        let of_plain = plain.forward(x).mul_scalar(2.0).sum().backward();
        let [ours, plain] =
            [(&layer, &gradients), (&plain, &of_plain)].map(|(layer, gradients)| {
                values(layer.spline.val().grad(gradients).expect("takes part"))
            });
        let plain: Vec<_> = plain.into_iter().map(f64::from).collect();
        assert!(error(&ours, &plain) <= CLOSE_TO_TF32);
    }
}

#[test]
fn only_the_gradients_that_take_part_are_computed() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let case = Case::new(KanLinearConfig::new(5, 9), 20);
        let [_, of_x, of_spline, ..] = case.run(&device, CubeForm::Dense);
        let x = Tensor::<2>::from_data(TensorData::new(case.x.clone(), [20, 5]), &device);
        let dy = Tensor::<2>::from_data(TensorData::new(case.dy.clone(), [20, 9]), &device);
        let layer = case.layer(&device).with_path(LayerPath::CubeIn(CubeForm::Dense));
        let gradients = (layer.forward(x.clone()) * dy.clone()).sum().backward();
        assert!(x.grad(&gradients).is_none());
        assert_eq!(values(layer.spline.val().grad(&gradients).expect("takes part")), of_spline);
        let (x, layer) = (x.require_grad(), layer.no_grad());
        let gradients = (layer.forward(x.clone()) * dy).sum().backward();
        assert_eq!(values(x.grad(&gradients).expect("takes part")), of_x);
        assert!(layer.spline.val().grad(&gradients).is_none());
    }
}

#[test]
fn a_network_trains_as_on_burns_operations() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let case = Case::new(KanLinearConfig::new(6, 10), 50);
        let after = Case::new(KanLinearConfig::new(10, 3), 50);
        let loss = |path: Option<LayerPath>| {
            let mut layers = [case.layer(&device), after.layer(&device)];
            let x = Tensor::<2>::from_data(TensorData::new(case.x.clone(), [50, 6]), &device);
            let mut losses = Vec::new();
            for _ in 0..5 {
                let forced = layers.clone().map(|layer| match path {
                    Some(path) => layer.with_path(path),
                    None => layer,
                });
                let y = forced[1].forward(forced[0].forward(x.clone().mul_scalar(0.5)).tanh());
                let loss = y.powi_scalar(2).mean();
                losses.push(f64::from(values(loss.clone())[0]));
                let gradients = loss.backward();
                for layer in &mut layers {
                    let of = layer.spline.val().grad(&gradients).expect("takes part");
                    let spline = layer.spline.val().inner() - of.mul_scalar(0.5);
                    layer.spline = Param::from_tensor(Tensor::from_inner(spline));
                }
            }
            losses
        };
        let (ours, plain) = (loss(None), loss(Some(LayerPath::Plain)));
        assert!(ours[4] < 0.9 * ours[0], "{ours:?}");
        for (ours, plain) in ours.iter().zip(&plain) {
            assert!((ours / plain - 1.0).abs() <= CLOSE_TO_TF32, "{ours} and {plain}");
        }
    }
}
