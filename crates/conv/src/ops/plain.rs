//! The same operations by burn's own: for other backends, and as the reference in tests.

use burn::tensor::Tensor;
use burn::tensor::activation::{gelu, leaky_relu, relu, silu};
use burn::tensor::module;
use burn::tensor::ops::ConvOptions;
use updraft_simd::mark_plain;

use super::normalization::Normalizing;
use crate::kernels::Activation;

pub(super) fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    options: ConvOptions<2>,
) -> Tensor<4> {
    mark_plain();
    module::conv2d(x, weight, bias, options)
}

pub(super) fn activate<const D: usize>(x: Tensor<D>, activation: Activation) -> Tensor<D> {
    mark_plain();
    match activation {
        Activation::Identity => x,
        Activation::Relu => relu(x),
        Activation::Silu => silu(x),
        Activation::Gelu => gelu(x),
        Activation::LeakyRelu(slope) => leaky_relu(x, f64::from(slope.get())),
        // Not burn's `elu`, whose gradient is NaN where `exp(x)` is infinite.
        Activation::Elu => relu(x.clone()) + x.clamp_max(0.0).exp().sub_scalar(1.0),
        // The slopes of burn's `clamp` at the ends are 1.
        Activation::Relu6 => relu(x.clone()).mask_fill(x.greater_equal_elem(6.0), 6.0),
        // `x` only where the gate is open, so that an infinite `x` is not multiplied by 0.
        Activation::HardSwish => {
            let gate = x.clone().add_scalar(3.0).clamp(0.0, 6.0).div_scalar(6.0);
            x.clamp_min(-3.0) * gate
        }
    }
}

/// The result, and the batch's mean and variance if they were computed.
pub(super) fn normalize<const D: usize>(
    x: Tensor<D>,
    by: Normalizing<D>,
) -> (Tensor<D>, Option<[Tensor<1>; 2]>) {
    mark_plain();
    let Normalizing { gamma, beta, given, residual, epsilon, activation } = by;
    let (output, statistics) = match given {
        Some([mean, variance]) => {
            (module::batch_norm(x, gamma, beta, mean, variance, epsilon), None)
        }
        None => {
            let result = module::batch_norm_train(x, gamma, beta, epsilon);
            (result.output, Some([result.mean, result.variance]))
        }
    };
    let output = match residual {
        Some(residual) => output + residual,
        None => output,
    };
    (activate(output, activation), statistics)
}
