//! The same operations by burn's own: for other backends, and as what ours are tested against.

use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::module;
use burn::tensor::ops::ConvOptions;

use super::normalization::BatchNormOutput;
use crate::kernels::Activation;

pub(super) fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    options: ConvOptions<2>,
) -> Tensor<4> {
    module::conv2d(x, weight, bias, options)
}

pub(super) fn batch_norm_train<const D: usize>(
    x: Tensor<D>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
    activation: Activation,
) -> BatchNormOutput<D> {
    let result = module::batch_norm_train(x, gamma, beta, epsilon);
    let output = match activation {
        Activation::Identity => result.output,
        Activation::Relu => relu(result.output),
    };
    BatchNormOutput { output, mean: result.mean, variance: result.variance }
}
