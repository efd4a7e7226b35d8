//! The kernel as an operation on burn's tensors.

use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, DispatchDevice, ExtensionType, Flex, backend_extension};
use burn::optim::AdamWState;
use burn::tensor::{DType, Tensor};

use crate::kernel::{self, Update};

/// A parameter and its moments after a step.
#[derive(ExtensionType)]
pub(crate) struct Updated<B: Backend> {
    parameter: FloatTensor<B>,
    first: FloatTensor<B>,
    second: FloatTensor<B>,
}

/// Our operation, on f32 tensors of one shape.
#[backend_extension(Flex)]
pub(crate) trait OptimBackend: Backend {
    /// A step of `AdamW`.
    fn adamw(
        parameter: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        update: Update,
    ) -> Updated<Self>;
}

impl OptimBackend for Flex {
    fn adamw(
        parameter: FlexTensor,
        gradient: FlexTensor,
        first: FlexTensor,
        second: FlexTensor,
        update: Update,
    ) -> Updated<Self> {
        let [mut parameter, gradient, mut first, mut second] =
            [parameter, gradient, first, second].map(contiguous);
        // Memory that another tensor shares, an average of the weights for example, is copied here.
        let moments = [first.storage_mut(), second.storage_mut()];
        kernel::step(update, parameter.storage_mut(), gradient.storage(), moments);
        Updated { parameter, first, second }
    }
}

/// The tensor, its numbers in order; not held twice, since then it would be copied to be written.
fn contiguous(tensor: FlexTensor) -> FlexTensor {
    let in_order = tensor.to_contiguous();
    drop(tensor);
    in_order
}

/// Whether the kernel takes these tensors.
pub(crate) fn take<const D: usize>(
    parameter: &Tensor<D>,
    gradient: &Tensor<D>,
    state: Option<&AdamWState<D>>,
) -> bool {
    let moments = state.map(|state| &state.momentum);
    let others = moments.iter().flat_map(|moments| [&moments.moment_1, &moments.moment_2]);
    moments.is_none_or(|moments| moments.max_moment_2.is_none())
        && [parameter, gradient].into_iter().chain(others).all(|tensor| {
            let device = tensor.device();
            tensor.dtype() == DType::F32 && matches!(device.as_dispatch(), DispatchDevice::Flex(_))
        })
}

/// A step of `AdamW`.
pub(crate) fn adamw<const D: usize>(
    parameter: Tensor<D>,
    gradient: Tensor<D>,
    [first, second]: [Tensor<D>; 2],
    update: Update,
) -> (Tensor<D>, [Tensor<D>; 2]) {
    let Updated { parameter, first, second } = <Dispatch as OptimBackend>::adamw(
        parameter.into_dispatch(),
        gradient.into_dispatch(),
        first.into_dispatch(),
        second.into_dispatch(),
        update,
    );
    let [parameter, first, second] = [parameter, first, second].map(Tensor::from_dispatch);
    (parameter, [first, second])
}
