//! Batch normalization, followed by an addition and an activation.

#[cfg(feature = "cube")]
use burn::tensor::Device;
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
/// On flex and on GPUs it runs our kernels, in f32; every other dtype and backend takes burn's own
/// operation, with the same result.
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
    let path = match is_f32 {
        true => LayerPath::picked_for_batch_norm(None, &x.device(), DType::F32),
        false => LayerPath::Plain,
    };
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
/// All tensors are of one dtype, f32 on our kernels; on those for GPUs `x` and the residual may be of
/// bf16 or f16, as is the result.
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
        LayerPath::Kernels(isa) => fused::normalize(x, by, Some(isa)),
        #[cfg(not(feature = "flex"))]
        LayerPath::Kernels(_) => unreachable!("kernels are picked where they are compiled"),
        #[cfg(feature = "cube")]
        LayerPath::Cube => {
            // There is nothing to launch, and a buffer of no bytes cannot be bound.
            assert!(x.shape().num_elements() > 0, "batch norm: an empty tensor has no statistics");
            fused::normalize(x, by, None)
        }
        #[cfg(not(feature = "cube"))]
        LayerPath::Cube => unreachable!("kernels are picked where they are compiled"),
    }
}

/// The dtype in which the kernels for GPUs read a tensor of `dtype` and write its result: the same if
/// the device has a type for it in memory, else f32.
#[cfg(feature = "cube")]
pub(crate) fn stored_on_gpus(device: &Device, dtype: DType) -> FloatDType {
    use burn::backend::{Backend as _, DTypeUsage, Dispatch};

    let usage = Dispatch::dtype_usage(device.as_dispatch(), dtype);
    match usage.contains(DTypeUsage::Storage) {
        true => FloatDType::from(dtype),
        false => FloatDType::F32,
    }
}

#[cfg(any(feature = "flex", feature = "cube"))]
mod fused {
    use burn::backend::Dispatch;
    use burn::tensor::Tensor;

    use super::Normalizing;
    use crate::kernels::{Isa, StatisticsOf};
    use crate::ops::batch_norm::{NormSpec, NormalizationBackend};
    use crate::ops::operand::Operand;

    /// By the kernels on the CPU with an instruction set, else by those for GPUs.
    pub(super) fn normalize<const D: usize>(
        x: Tensor<D>,
        by: Normalizing<D>,
        isa: Option<Isa>,
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
