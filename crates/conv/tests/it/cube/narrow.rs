//! Tensors of bf16 and f16 are read and written as they are, and summed in f32.

use burn::backend::{Backend as _, DTypeUsage, Dispatch};
use burn::tensor::{DType, Device, FloatDType};
use updraft_conv::Activation;
use updraft_testing::{Numbers, assert_close_to_largest, gpus, tolerance};

use super::case::{By, Case, values};

#[test]
fn narrow_tensors_are_normalized_as_their_numbers_in_f32() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for (dtype, allowed) in [(DType::BF16, tolerance::BF16), (DType::F16, tolerance::F16)] {
            let usage = Dispatch::dtype_usage(device.as_dispatch(), dtype);
            if !usage.contains(DTypeUsage::Storage) || !usage.contains(DTypeUsage::Arithmetic) {
                println!("{device:?} has no {dtype:?}");
                continue;
            }
            for by in [By::Batch, By::Running] {
                let mut case = Case::new([6, 3, 900], by, Activation::Silu).with_residual();
                let layer = case.layer(&device);
                let narrow = |numbers: &[f32]| {
                    case.tensor(numbers, case.dims, &device).cast(FloatDType::from(dtype))
                };
                let x = narrow(&case.x).detach().require_grad();
                let residual = narrow(case.residual.as_ref().expect("it has one"));
                let dy = narrow(&case.dy);
                let y = case.forward(&layer, x.clone(), Some(residual.clone()));
                assert_eq!(y.dtype(), dtype);
                let gradients = (y.clone() * dy.clone()).sum().backward();
                let dx = x.grad(&gradients).expect("takes part");
                assert_eq!(dx.dtype(), dtype);
                let dgamma = layer.gamma.val().grad(&gradients).expect("takes part");
                assert_eq!(dgamma.dtype(), DType::F32);

                // The numbers after they were rounded.
                let wide = |tensor: burn::tensor::Tensor<3>| values(tensor.cast(FloatDType::F32));
                (case.x, case.dy) = (wide(x), wide(dy));
                case.residual = Some(wide(residual));
                let [of_y, of_x, of_gamma, ..] = case.expected();
                assert_close_to_largest(&y.numbers(), &of_y, allowed);
                assert_close_to_largest(&dx.numbers(), &of_x, allowed);
                // A sum of f32: a sum of bf16 would stop growing at 256.
                assert_close_to_largest(&dgamma.numbers(), &of_gamma, tolerance::F32);
            }
        }
    }
}
