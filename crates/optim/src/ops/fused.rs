//! Steps by our kernels.

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::extension::{Moved, OptimBackend, Updated};
use crate::kernels::numbers::{AdamWUpdate, Momentum, SgdUpdate};

/// A step of `AdamW`.
pub(crate) fn adamw<const D: usize>(
    parameter: Tensor<D>,
    gradient: Tensor<D>,
    [first, second]: [Tensor<D>; 2],
    update: AdamWUpdate,
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
    update: SgdUpdate,
) -> Tensor<D> {
    let [parameter, gradient] = [parameter, gradient].map(Tensor::into_dispatch);
    Tensor::from_dispatch(<Dispatch as OptimBackend>::sgd(parameter, gradient, update))
}

/// A step of gradient descent with momentum.
pub(crate) fn sgd_with_momentum<const D: usize>(
    parameter: Tensor<D>,
    gradient: Tensor<D>,
    velocity: Tensor<D>,
    update: SgdUpdate,
    momentum: Momentum,
) -> [Tensor<D>; 2] {
    let [parameter, gradient, velocity] =
        [parameter, gradient, velocity].map(Tensor::into_dispatch);
    let Moved { parameter, velocity } = <Dispatch as OptimBackend>::sgd_with_momentum(
        parameter, gradient, velocity, update, momentum,
    );
    [parameter, velocity].map(Tensor::from_dispatch)
}
