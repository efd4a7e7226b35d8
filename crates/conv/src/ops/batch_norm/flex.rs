//! Batch normalization on burn's CPU backend.

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use updraft_simd::pool_threads;

use super::extension::{NormSpec, NormalizationBackend};
#[cfg(feature = "autodiff")]
use super::extension::{NormalizationGradientBackend, NormalizationGradients};
use crate::kernels::{BatchNormShape, Isa, Normalization, apply_into, moments};
#[cfg(feature = "autodiff")]
use crate::kernels::{GradientPass, StatisticsOf};
use crate::ops::flex::{contiguous, result, tensor, with};
use crate::ops::operand::Operand;
use crate::ops::{memory, synchronized};

impl NormalizationBackend for Flex {
    fn normalization(
        x: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        residual: Operand<Self>,
        spec: NormSpec,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        let x = contiguous(x);
        let shape = norm_shape(&x);
        let (mut mean, mut variance) = (vec![0.0; shape.channels], vec![0.0; shape.channels]);
        with(|scratch, threads| {
            let statistics = [&mut mean[..], &mut variance[..]];
            moments(isa(spec), shape, x.storage(), statistics, scratch, threads);
        });
        if let Some(ranks) = synchronized::ranks() {
            ranks.merge_moments(shape.count(), [&mut mean, &mut variance]);
        }
        let vector = |values| tensor(values, [shape.channels]);
        let (mean, variance) = (vector(mean), vector(variance));
        let statistics = (mean.clone(), variance.clone());
        let y = Self::normalization_by(x, gamma, beta, statistics.0, statistics.1, residual, spec);
        (y, mean, variance)
    }

    fn normalization_by(
        x: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        mean: FlexTensor,
        variance: FlexTensor,
        residual: Operand<Self>,
        spec: NormSpec,
    ) -> FlexTensor {
        let [x, gamma, beta, mean, variance] = [x, gamma, beta, mean, variance].map(contiguous);
        let residual = residual.given().map(contiguous);
        let shape = norm_shape(&x);
        let by = normalization(&gamma, &beta, residual.as_ref(), spec);
        let statistics = [mean.storage(), variance.storage()];
        let y = result(shape.len(), shape.piece(), |y| {
            apply_into(isa(spec), shape, by, statistics, x.storage(), y, pool_threads());
        });
        let dims = x.layout().shape().to_vec();
        memory::keep([x]);
        residual.into_iter().for_each(|residual| memory::keep([residual]));
        tensor(y, dims)
    }
}

#[cfg(feature = "autodiff")]
impl NormalizationGradientBackend for Flex {
    fn normalization_gradient(
        x: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        mean: FlexTensor,
        variance: FlexTensor,
        residual: Operand<Self>,
        dy: FlexTensor,
        spec: NormSpec,
    ) -> NormalizationGradients<Self> {
        let [x, dy, gamma, beta] = [x, dy, gamma, beta].map(contiguous);
        let statistics = [mean, variance].map(contiguous);
        let residual = residual.given().map(contiguous);
        let dims = x.layout().shape().to_vec();
        let shape = norm_shape(&x);
        let (mut dgamma, mut dbeta) = (vec![0.0; shape.channels], vec![0.0; shape.channels]);
        let by = normalization(&gamma, &beta, residual.as_ref(), spec);
        let statistics = statistics.each_ref().map(FlexTensor::storage);
        let inputs = [x.storage(), dy.storage()];
        let (mut dx, mut dresidual) = (Vec::new(), None);
        with(|scratch, threads| {
            let vectors = [&mut dgamma[..], &mut dbeta[..]];
            let (of, isa) = (spec.of, isa(spec));
            let mut pass = GradientPass::new(
                isa, shape, by, of, statistics, inputs, vectors, scratch, threads,
            );
            if of == StatisticsOf::Batch
                && let Some(ranks) = synchronized::ranks()
            {
                let (sums, count) = ranks.merge_sums(shape.count(), pass.sums());
                pass = pass.with_sums(sums, count);
            }
            dx = result(shape.len(), shape.piece(), |dx| match residual {
                None => pass.input(dx),
                Some(_) => {
                    dresidual = Some(result(shape.len(), shape.piece(), |dresidual| {
                        pass.input_and_residual((dx, dresidual));
                    }));
                }
            });
        });
        memory::keep([x, dy]);
        residual.into_iter().for_each(|residual| memory::keep([residual]));
        let vector = |values| tensor(values, [shape.channels]);
        let dresidual = dresidual.map(|dresidual| tensor(dresidual, dims.clone()));
        NormalizationGradients {
            x: tensor(dx, dims),
            gamma: vector(dgamma),
            beta: vector(dbeta),
            residual: dresidual.into(),
        }
    }
}

/// The instruction set of a pass on the CPU.
fn isa(spec: NormSpec) -> Isa {
    spec.isa.expect("the path of the CPU has an instruction set")
}

fn norm_shape(x: &FlexTensor) -> BatchNormShape {
    let dims = x.layout().shape();
    let pixels = dims.iter().skip(2).product();
    BatchNormShape { batch: dims[0], channels: dims[1], pixels }
}

fn normalization<'a>(
    gamma: &'a FlexTensor,
    beta: &'a FlexTensor,
    residual: Option<&'a FlexTensor>,
    spec: NormSpec,
) -> Normalization<'a> {
    let NormSpec { epsilon, activation, .. } = spec;
    let residual = residual.map(FlexTensor::storage);
    Normalization { gamma: gamma.storage(), beta: beta.storage(), epsilon, residual, activation }
}
