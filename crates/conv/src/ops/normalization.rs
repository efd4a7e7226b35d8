//! Batch normalization in training.

use burn::tensor::{Tensor, assert_shape};

use super::plain;
use crate::kernels::Activation;

/// What [`batch_norm_train`] returns.
#[derive(Debug, Clone)]
pub struct BatchNormOutput<const D: usize> {
    /// The normalized, activated tensor.
    pub output: Tensor<D>,
    /// The batch's mean, `[channels]`; no gradient flows through it.
    pub mean: Tensor<1>,
    /// The batch's variance without Bessel's correction, `[channels]`; no gradient flows
    /// through it.
    pub variance: Tensor<1>,
}

/// Normalizes a batch by its own statistics: `activation((x − mean)/√(variance + ε)·γ + β)`.
///
/// On flex it runs our kernels, in f32; every other dtype and backend takes burn's own operation,
/// with the same result.
///
/// # Shapes
/// - `x`: `[batch, channels, ...]`
/// - `gamma`, `beta`: `[channels]`
///
/// # Panics
/// If the shapes do not fit each other, or `x` is empty.
pub fn batch_norm_train<const D: usize>(
    x: Tensor<D>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
    activation: Activation,
) -> BatchNormOutput<D> {
    assert!(D >= 2, "batch_norm_train: x needs an axis of channels after that of the batch");
    let channels = x.dims()[1];
    assert_shape!(gamma, [channels]);
    assert_shape!(beta, [channels]);
    #[cfg(feature = "flex")]
    {
        use burn::backend::Dispatch;
        use burn::tensor::DType;

        use super::extension::ConvBackend;
        use super::listed::runs_our_kernels;

        let is_f32 = [x.dtype(), gamma.dtype(), beta.dtype()].iter().all(|d| *d == DType::F32);
        if is_f32 && runs_our_kernels(&x.device()) {
            let (output, mean, variance) = Dispatch::normalization(
                x.into_dispatch(),
                gamma.into_dispatch(),
                beta.into_dispatch(),
                epsilon,
                activation,
            );
            return BatchNormOutput {
                output: Tensor::from_dispatch(output),
                mean: Tensor::from_dispatch(mean),
                variance: Tensor::from_dispatch(variance),
            };
        }
    }
    plain::batch_norm_train(x, gamma, beta, epsilon, activation)
}
