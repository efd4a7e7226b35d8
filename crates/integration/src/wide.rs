//! Batch normalization that computes in at least f32 whatever dtype passes through it.

use burn::module::{Flag, Module, Param, RunningState};
use burn::tensor::activation::relu;
use burn::tensor::module::batch_norm;
use burn::tensor::{DType, Device, FloatDType, Tensor};
use updraft_conv::{Activation, batch_norm_train};

/// The dtype in which sums over many values of `dtype` are taken: f64 for f64, else f32.
pub(crate) fn wide(dtype: DType) -> FloatDType {
    match dtype {
        DType::F64 => FloatDType::F64,
        _ => FloatDType::F32,
    }
}

/// Batch normalization over all axes but the second.
///
/// `y = (x − mean)/√(variance + ε)·γ + β`, with the batch's statistics while training and the
/// running ones otherwise. Statistics and arithmetic are in at least f32; the result has the
/// input's dtype. Fields, and so records, are those of burn's `BatchNorm`.
#[derive(Module, Debug)]
pub(crate) struct BatchNorm {
    gamma: Param<Tensor<1>>,
    beta: Param<Tensor<1>>,
    training: Param<Flag>,
    running_mean: RunningState<Tensor<1>>,
    running_var: RunningState<Tensor<1>>,
    momentum: f64,
    epsilon: f64,
}

impl BatchNorm {
    /// A normalization that starts as the identity, with burn's and `PyTorch`'s defaults.
    pub(crate) fn new(channels: usize, device: &Device) -> Self {
        let ones = || Tensor::ones([channels], device);
        let zeros = || Tensor::zeros([channels], device);
        Self {
            gamma: Param::from_tensor(ones()),
            beta: Param::from_tensor(zeros()),
            training: Param::from_bool(true),
            running_mean: RunningState::new(zeros()),
            running_var: RunningState::new(ones()),
            momentum: 0.1,
            epsilon: 1e-5,
        }
    }

    /// Normalizes, then activates.
    pub(crate) fn forward<const D: usize>(
        &self,
        input: Tensor<D>,
        activation: Activation,
    ) -> Tensor<D> {
        let dtype = input.dtype();
        let compute = wide(dtype);
        let trains = input.device().is_autodiff() && self.training.is_enabled();
        let input = input.cast(compute);
        let (gamma, beta) = (self.gamma.val().cast(compute), self.beta.val().cast(compute));
        let output = if trains {
            let result = batch_norm_train(input, gamma, beta, self.epsilon, activation);
            self.follow(&self.running_mean, result.mean);
            self.follow(&self.running_var, result.variance);
            result.output
        } else {
            let device = input.device();
            let statistic = |state: &RunningState<Tensor<1>>| {
                state.value_sync().to_device(&device).cast(compute)
            };
            let (mean, var) = (statistic(&self.running_mean), statistic(&self.running_var));
            let output = batch_norm(input, gamma, beta, mean, var, self.epsilon);
            match activation {
                Activation::Relu => relu(output),
                _ => output,
            }
        };
        output.cast(dtype)
    }

    /// Moves a running statistic a step of `momentum` toward the batch's.
    fn follow(&self, state: &RunningState<Tensor<1>>, batch: Tensor<1>) {
        let running = state.value_sync().to_device(&batch.device());
        let batch = batch.detach().cast(running.dtype());
        let next = running.mul_scalar(1.0 - self.momentum) + batch.mul_scalar(self.momentum);
        state.update(next.detach());
    }
}
