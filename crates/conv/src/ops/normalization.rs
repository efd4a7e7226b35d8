//! Batch normalization, followed by an addition and an activation.

use burn::tensor::{DType, FloatDType, Tensor, assert_shape};

use super::path::LayerPath;
use super::plain;
use crate::kernels::Activation;

/// The result of [`batch_norm_train`].
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
/// If the shapes do not match, or `x` is empty.
pub fn batch_norm_train<const D: usize>(
    x: Tensor<D>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
    activation: Activation,
) -> BatchNormOutput<D> {
    let is_f32 = [x.dtype(), gamma.dtype(), beta.dtype()].iter().all(|d| *d == DType::F32);
    let path = if is_f32 { LayerPath::of(&x.device()) } else { LayerPath::Plain };
    let by = Normalizing { gamma, beta, given: None, residual: None, epsilon, activation };
    let (output, statistics) = normalize(x, by, path);
    let [mean, variance] = statistics.expect("the batch's own are returned");
    BatchNormOutput { output, mean, variance }
}

/// The dtype in which sums over many values of `dtype` are taken: f64 for f64, else f32.
pub(crate) fn wide(dtype: DType) -> FloatDType {
    match dtype {
        DType::F64 => FloatDType::F64,
        _ => FloatDType::F32,
    }
}

/// How a tensor is normalized.
#[derive(Debug, Clone)]
pub(crate) struct Normalizing<const D: usize> {
    pub(crate) gamma: Tensor<1>,
    pub(crate) beta: Tensor<1>,
    /// Mean and variance; the batch's own if `None`.
    pub(crate) given: Option<[Tensor<1>; 2]>,
    /// A tensor that is added before the activation.
    pub(crate) residual: Option<Tensor<D>>,
    pub(crate) epsilon: f64,
    pub(crate) activation: Activation,
}

/// The result, and the batch's mean and variance if they were computed.
///
/// All tensors are of one dtype, f32 on our kernels.
///
/// # Panics
/// If the shapes do not match, or `x` is empty.
pub(crate) fn normalize<const D: usize>(
    x: Tensor<D>,
    by: Normalizing<D>,
    path: LayerPath,
) -> (Tensor<D>, Option<[Tensor<1>; 2]>) {
    assert!(D >= 2, "batch norm: x needs an axis of channels after that of the batch");
    let channels = x.dims()[1];
    let Normalizing { gamma, beta, given, residual, .. } = &by;
    for vector in [gamma, beta].into_iter().chain(given.iter().flatten()) {
        assert_shape!(vector, [channels]);
    }
    if let Some(residual) = residual {
        assert_eq!(residual.dims(), x.dims(), "batch norm: the residual is as large as x");
    }
    match path {
        LayerPath::Plain => plain::normalize(x, by),
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) => fused::normalize(x, by, isa),
        #[cfg(not(feature = "flex"))]
        LayerPath::Kernels(_) => unreachable!("kernels are picked where they are compiled"),
    }
}

#[cfg(feature = "flex")]
mod fused {
    use burn::backend::Dispatch;
    use burn::tensor::Tensor;

    use super::Normalizing;
    use crate::kernels::{Isa, StatisticsOf};
    use crate::ops::extension::{ConvBackend, NormSpec, Operand};

    pub(super) fn normalize<const D: usize>(
        x: Tensor<D>,
        by: Normalizing<D>,
        isa: Isa,
    ) -> (Tensor<D>, Option<[Tensor<1>; 2]>) {
        let Normalizing { gamma, beta, given, residual, epsilon, activation } = by;
        let x = x.into_dispatch();
        let residual = Operand::from(residual.map(Tensor::into_dispatch));
        let (gamma, beta) = (gamma.into_dispatch(), beta.into_dispatch());
        let spec = |of| NormSpec { epsilon, activation, of, isa };
        match given {
            Some(given) => {
                let [mean, variance] = given.map(|vector| vector.into_dispatch());
                let spec = spec(StatisticsOf::Others);
                let y = Dispatch::normalization_by(x, gamma, beta, mean, variance, residual, spec);
                (Tensor::from_dispatch(y), None)
            }
            None => {
                let spec = spec(StatisticsOf::Batch);
                let (y, mean, variance) = Dispatch::normalization(x, gamma, beta, residual, spec);
                let statistics = [mean, variance].map(Tensor::from_dispatch);
                (Tensor::from_dispatch(y), Some(statistics))
            }
        }
    }
}
