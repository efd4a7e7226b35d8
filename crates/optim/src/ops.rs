//! The kernels as operations on burn's tensors.

use std::sync::Arc;

use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, DispatchDevice, ExtensionType, Flex, backend_extension};
use burn::tensor::{DType, Tensor};
use updraft_simd::keep_memory;

use crate::kernels::adamw::{self, Update};
use crate::kernels::sgd;

/// A parameter and its moments after a step.
#[derive(ExtensionType)]
pub(crate) struct Updated<B: Backend> {
    parameter: FloatTensor<B>,
    first: FloatTensor<B>,
    second: FloatTensor<B>,
}

/// A parameter and its velocity after a step.
#[derive(ExtensionType)]
pub(crate) struct Moved<B: Backend> {
    parameter: FloatTensor<B>,
    velocity: FloatTensor<B>,
}

/// Our operations, on f32 tensors of one shape.
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

    /// A step of gradient descent without momentum.
    fn sgd(
        parameter: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        update: sgd::Update,
    ) -> FloatTensor<Self>;

    /// A step of gradient descent with momentum.
    fn sgd_with_momentum(
        parameter: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        velocity: FloatTensor<Self>,
        update: sgd::Update,
        momentum: sgd::Momentum,
    ) -> Moved<Self>;
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
        adamw::step(update, parameter.storage_mut(), gradient.storage(), moments);
        keep(gradient);
        Updated { parameter, first, second }
    }

    fn sgd(parameter: FlexTensor, gradient: FlexTensor, update: sgd::Update) -> FlexTensor {
        let [mut parameter, gradient] = [parameter, gradient].map(contiguous);
        sgd::step(update, parameter.storage_mut(), gradient.storage());
        keep(gradient);
        parameter
    }

    fn sgd_with_momentum(
        parameter: FlexTensor,
        gradient: FlexTensor,
        velocity: FlexTensor,
        update: sgd::Update,
        momentum: sgd::Momentum,
    ) -> Moved<Self> {
        let [mut parameter, gradient, mut velocity] =
            [parameter, gradient, velocity].map(contiguous);
        let (numbers, velocities) = (parameter.storage_mut(), velocity.storage_mut());
        sgd::step_with_momentum(update, momentum, numbers, gradient.storage(), velocities);
        keep(gradient);
        Moved { parameter, velocity }
    }
}

/// The tensor, its numbers in order; not held twice, since then it would be copied to be written.
fn contiguous(tensor: FlexTensor) -> FlexTensor {
    let in_order = tensor.to_contiguous();
    drop(tensor);
    in_order
}

/// Keeps the memory of a gradient without other owners for the next backward pass.
fn keep(gradient: FlexTensor) {
    let data = gradient.data_arc();
    drop(gradient);
    let memory = Arc::try_unwrap(data).ok().and_then(|bytes| bytes.try_into_vec().ok());
    memory.into_iter().for_each(keep_memory);
}

/// Whether the kernels take a tensor.
pub(crate) fn runs_kernels<const D: usize>(tensor: &Tensor<D>) -> bool {
    let device = tensor.device();
    tensor.dtype() == DType::F32 && matches!(device.as_dispatch(), DispatchDevice::Flex(_))
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

/// A step of gradient descent without momentum.
pub(crate) fn sgd<const D: usize>(
    parameter: Tensor<D>,
    gradient: Tensor<D>,
    update: sgd::Update,
) -> Tensor<D> {
    let [parameter, gradient] = [parameter, gradient].map(Tensor::into_dispatch);
    Tensor::from_dispatch(<Dispatch as OptimBackend>::sgd(parameter, gradient, update))
}

/// A step of gradient descent with momentum.
pub(crate) fn sgd_with_momentum<const D: usize>(
    parameter: Tensor<D>,
    gradient: Tensor<D>,
    velocity: Tensor<D>,
    update: sgd::Update,
    momentum: sgd::Momentum,
) -> [Tensor<D>; 2] {
    let [parameter, gradient, velocity] =
        [parameter, gradient, velocity].map(Tensor::into_dispatch);
    let Moved { parameter, velocity } = <Dispatch as OptimBackend>::sgd_with_momentum(
        parameter, gradient, velocity, update, momentum,
    );
    [parameter, velocity].map(Tensor::from_dispatch)
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};
    use updraft_simd::{release_memory, take_memory};

    use super::*;

    #[test]
    fn the_memory_of_a_gradient_is_kept_unless_something_else_owns_it() {
        // A length that no other test uses: the list is shared by the process.
        let len = (1 << 14) + 13_579;
        let tensor =
            || Tensor::<1>::from_data(TensorData::new(vec![1.0_f32; len], [len]), &Device::flex());
        let update = sgd::Update { penalty: None, rate: 0.5 };
        assert!(take_memory(len).is_empty());
        let gradient = tensor();
        let _ = sgd(tensor(), gradient.clone(), update);
        assert!(take_memory(len).is_empty(), "somebody holds it still");
        let _ = sgd(tensor(), gradient, update);
        assert_eq!(take_memory(len).len(), len);
        release_memory();
    }
}
