//! Our operations of volumes on burn's CPU backend.

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use updraft_simd::{Cut, pool_threads, take_memory, unspecified};

#[cfg(feature = "autodiff")]
use super::extension::VolumeGradients;
use super::extension::{GroupNormSpec, ResizeSpec, VolumeBackend};
use super::norm_convolution::{self, AnyConv, NormConvSpec};
#[cfg(feature = "autodiff")]
use crate::kernels::{
    Conv3dShape, group_norm_gradient_into, resize_gradient_into, weight_gradient_3d,
};
use crate::kernels::{
    GroupNormShape, GroupNormalization, NormSource, forward_3d, forward_joined, forward_joined_3d,
    group_norm_into, input_gradient_3d, resize_into,
};
use crate::ops::extension::{ConvSpec, Operand, PoolSpec};
#[cfg(feature = "autodiff")]
use crate::ops::flex::pooled_gradient;
use crate::ops::flex::{checked, contiguous, pooled, result, tensor, with};
use crate::ops::memory;

impl VolumeBackend for Flex {
    fn convolution_3d(
        x: FlexTensor,
        w: FlexTensor,
        bias: Operand<Self>,
        spec: ConvSpec<3>,
    ) -> FlexTensor {
        let ConvSpec { shape, activation, isa, .. } = spec;
        let geometry = checked(shape);
        let (x, w) = (contiguous(x), contiguous(w));
        let bias = bias.given().map(contiguous);
        let bias = bias.as_ref().map(FlexTensor::storage);
        let mut y = unwritten(geometry.output_len());
        with(|scratch, threads| {
            let (x, w) = (x.storage(), w.storage());
            forward_3d(isa, &geometry, x, w, bias, activation, &mut y, scratch, threads);
        });
        let dims = dims_like(&x, [shape.batch, shape.channels[1]], geometry.output());
        memory::keep([x]);
        tensor(y, dims)
    }

    fn transposed_convolution_3d(
        x: FlexTensor,
        w: FlexTensor,
        bias: Operand<Self>,
        spec: ConvSpec<3>,
    ) -> FlexTensor {
        let ConvSpec { shape, isa, .. } = spec;
        let geometry = checked(shape);
        let (x, w) = (contiguous(x), contiguous(w));
        let bias = bias.given().map(contiguous);
        let bias = bias.as_ref().map(FlexTensor::storage);
        let mut y = unwritten(geometry.input_len());
        with(|scratch, threads| {
            let (x, w) = (x.storage(), w.storage());
            input_gradient_3d(isa, &geometry, x, w, bias, &mut y, scratch, threads);
        });
        let dims = dims_like(&x, [shape.batch, shape.channels[0]], shape.input);
        memory::keep([x]);
        tensor(y, dims)
    }

    fn recomputed_transposed_convolution_3d(
        x: FlexTensor,
        w: FlexTensor,
        bias: Operand<Self>,
        spec: ConvSpec<3>,
    ) -> FlexTensor {
        Self::transposed_convolution_3d(x, w, bias, spec)
    }

    fn group_normalization(
        x: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        residual: Operand<Self>,
        spec: GroupNormSpec,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        let [x, gamma, beta] = [x, gamma, beta].map(contiguous);
        let shape = norm_shape(&x, spec);
        let dims = x.layout().shape().to_vec();
        let by = normalization(&gamma, &beta, spec);
        let [mut mean, mut variance] = [(); 2].map(|()| vec![0.0; shape.statistics()]);
        let mut run = |source: NormSource<'_>, y: &mut [f32]| {
            let (y, statistics) =
                (Cut::new(y, shape.of_group().max(1)), [&mut mean[..], &mut variance[..]]);
            group_norm_into(spec.isa, shape, by, source, y, statistics, pool_threads());
        };
        let y = match residual {
            Operand::Given(residual) => {
                let mut y = memory::into_vector(contiguous(residual));
                run(NormSource::Onto(x.storage()), &mut y);
                memory::keep([x]);
                y
            }
            Operand::Absent => match memory::own_memory(x) {
                Ok(mut y) => {
                    run(NormSource::InPlace, &mut y);
                    y
                }
                Err(x) => {
                    let mut y = unwritten(shape.len());
                    run(NormSource::Apart(x.storage()), &mut y);
                    y
                }
            },
        };
        let vector = |values| tensor(values, [shape.statistics()]);
        (tensor(y, dims), vector(mean), vector(variance))
    }

    fn normalized_convolution(
        x: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        w: FlexTensor,
        bias: Operand<Self>,
        spec: NormConvSpec,
    ) -> FlexTensor {
        norm_convolution::normalized_convolution::<Self>([x, gamma, beta, w], bias, spec).0
    }

    fn convolution_normalized(
        x: FlexTensor,
        w: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        spec: NormConvSpec,
    ) -> FlexTensor {
        norm_convolution::convolution_normalized::<Self>([x, w, gamma, beta], spec).0
    }

    fn joined_convolution(
        a: FlexTensor,
        b: FlexTensor,
        w: FlexTensor,
        spec: AnyConv,
    ) -> FlexTensor {
        let [a, b, w] = [a, b, w].map(contiguous);
        let channels = [&a, &b].map(|tensor| tensor.layout().shape()[1]);
        let x = ([a.storage(), b.storage()], channels);
        match spec {
            AnyConv::Images(ConvSpec { shape, isa, products, .. }) => {
                let geometry = checked(shape).with_products(products);
                let mut y = unwritten(geometry.output_len());
                with(|scratch, threads| {
                    forward_joined(isa, &geometry, x, w.storage(), &mut y, scratch, threads);
                });
                let [rows, columns] = geometry.output();
                tensor(y, [shape.batch, shape.channels[1], rows, columns])
            }
            AnyConv::Volumes(ConvSpec { shape, isa, .. }) => {
                let geometry = checked(shape);
                let mut y = unwritten(geometry.output_len());
                with(|scratch, threads| {
                    forward_joined_3d(isa, &geometry, x, w.storage(), &mut y, scratch, threads);
                });
                let [depth, height, width] = geometry.output();
                tensor(y, [shape.batch, shape.channels[1], depth, height, width])
            }
        }
    }

    fn pooling_3d(x: FlexTensor, spec: PoolSpec<3>) -> FlexTensor {
        pooled(x, spec)
    }

    fn resizing(x: FlexTensor, spec: ResizeSpec) -> FlexTensor {
        let ResizeSpec { geometry, planes, isa } = spec;
        let x = contiguous(x);
        let y = result(geometry.output_len(), geometry.output_plane(), |y| {
            with(|scratch, threads| resize_into(isa, &geometry, x.storage(), y, scratch, threads));
        });
        memory::keep([x]);
        let [depth, height, width] = geometry.output();
        tensor(y, [planes[0], planes[1], depth, height, width])
    }
}

#[cfg(feature = "autodiff")]
impl VolumeGradients for Flex {
    fn weight_gradient_3d(x: FlexTensor, dy: FlexTensor, spec: ConvSpec<3>) -> FlexTensor {
        let ConvSpec { shape, isa, .. } = spec;
        let geometry = checked(shape);
        let (x, dy) = (contiguous(x), contiguous(dy));
        let mut dw = vec![0.0; geometry.weight_len()];
        with(|scratch, threads| {
            let (x, dy) = (x.storage(), dy.storage());
            weight_gradient_3d(isa, &geometry, x, dy, &mut dw, scratch, threads);
        });
        let Conv3dShape { channels, groups, kernel, .. } = shape;
        let dims = dims_like(&x, [channels[1], channels[0] / groups], kernel);
        memory::keep([x, dy]);
        tensor(dw, dims)
    }

    fn group_normalization_gradient(
        x: FlexTensor,
        parameters: [FlexTensor; 2],
        statistics: [FlexTensor; 2],
        dy: FlexTensor,
        spec: GroupNormSpec,
    ) -> [FlexTensor; 3] {
        let [x, dy] = [x, dy].map(contiguous);
        let [gamma, beta] = parameters.map(contiguous);
        let statistics = statistics.map(contiguous);
        let shape = norm_shape(&x, spec);
        let [mut dgamma, mut dbeta] = [(); 2].map(|()| vec![0.0; shape.channels]);
        let mut dx = memory::into_vector(dy);
        let pieces = Cut::new(&mut dx, shape.of_group().max(1));
        let by = normalization(&gamma, &beta, spec);
        let statistics = statistics.each_ref().map(FlexTensor::storage);
        let (x_numbers, vectors) = (x.storage(), [&mut dgamma[..], &mut dbeta[..]]);
        let threads = pool_threads();
        group_norm_gradient_into(
            spec.isa, shape, by, statistics, x_numbers, pieces, vectors, threads,
        );
        let dims = x.layout().shape().to_vec();
        memory::keep([x]);
        let vector = |values| tensor(values, [shape.channels]);
        [tensor(dx, dims), vector(dgamma), vector(dbeta)]
    }

    fn pooling_3d_gradient(x: FlexTensor, dy: FlexTensor, spec: PoolSpec<3>) -> FlexTensor {
        pooled_gradient(x, dy, spec)
    }

    fn resizing_gradient(dy: FlexTensor, spec: ResizeSpec) -> FlexTensor {
        let ResizeSpec { geometry, planes, isa } = spec;
        let dy = contiguous(dy);
        let dx = result(geometry.input_len(), geometry.input_plane(), |dx| {
            with(|scratch, threads| {
                resize_gradient_into(isa, &geometry, dy.storage(), dx, scratch, threads);
            });
        });
        memory::keep([dy]);
        let [depth, height, width] = geometry.input();
        tensor(dx, [planes[0], planes[1], depth, height, width])
    }
}

/// The sizes of a result, which has no depth if `x` has none: an image is a volume of one slice.
fn dims_like(x: &FlexTensor, outer: [usize; 2], sides: [usize; 3]) -> Vec<usize> {
    let is_image = x.layout().shape().num_dims() == 4;
    outer.into_iter().chain(sides.into_iter().skip(usize::from(is_image))).collect()
}

/// Memory for a result of which every number will be written.
fn unwritten(len: usize) -> Vec<f32> {
    unspecified(take_memory(len), len)
}

fn norm_shape(x: &FlexTensor, spec: GroupNormSpec) -> GroupNormShape {
    let dims = x.layout().shape();
    let pixels = dims.iter().skip(2).product();
    GroupNormShape { batch: dims[0], channels: dims[1], groups: spec.groups, pixels }
}

fn normalization<'a>(
    gamma: &'a FlexTensor,
    beta: &'a FlexTensor,
    spec: GroupNormSpec,
) -> GroupNormalization<'a> {
    let GroupNormSpec { epsilon, activation, .. } = spec;
    GroupNormalization { gamma: gamma.storage(), beta: beta.storage(), epsilon, activation }
}
