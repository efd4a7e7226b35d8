//! Steps by our kernels under a control on the device.

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::extension::{ControlledBackend, Moved, Updated};
use crate::kernels::numbers::{AdamWUpdate, Momentum, SgdUpdate};

/// What [`adamw_controlled`] reads: `factor`, `is_applied`, and the corrections of the bias after
/// `applied − missed` updates and this one.
pub(crate) fn adamw_control(
    [factor, is_applied, applied, missed]: [Tensor<1>; 4],
    beta: [f32; 2],
) -> Tensor<1> {
    Tensor::from_dispatch(<Dispatch as ControlledBackend>::adamw_control(
        factor.into_dispatch(),
        is_applied.into_dispatch(),
        applied.into_dispatch(),
        missed.into_dispatch(),
        beta,
    ))
}

/// A step of `AdamW`, or none.
pub(crate) fn adamw_controlled<const D: usize>(
    parameter: Tensor<D>,
    gradient: Tensor<D>,
    [first, second]: [Tensor<D>; 2],
    control: Tensor<1>,
    update: AdamWUpdate,
) -> (Tensor<D>, [Tensor<D>; 2]) {
    let Updated { parameter, first, second } = <Dispatch as ControlledBackend>::adamw_controlled(
        parameter.into_dispatch(),
        gradient.into_dispatch(),
        first.into_dispatch(),
        second.into_dispatch(),
        control.into_dispatch(),
        update,
    );
    let [parameter, first, second] = [parameter, first, second].map(Tensor::from_dispatch);
    (parameter, [first, second])
}

/// A step of gradient descent without momentum, or none; `control` has the factor of the gradient,
/// and whether the update is applied.
pub(crate) fn sgd_controlled<const D: usize>(
    parameter: Tensor<D>,
    gradient: Tensor<D>,
    control: [Tensor<1>; 2],
    update: SgdUpdate,
) -> Tensor<D> {
    let [parameter, gradient] = [parameter, gradient].map(Tensor::into_dispatch);
    let [factor, is_applied] = control.map(Tensor::into_dispatch);
    let moved = <Dispatch as ControlledBackend>::sgd_controlled(
        parameter, gradient, factor, is_applied, update,
    );
    Tensor::from_dispatch(moved)
}

/// The same with momentum.
pub(crate) fn sgd_with_momentum_controlled<const D: usize>(
    parameter: Tensor<D>,
    gradient: Tensor<D>,
    velocity: Tensor<D>,
    control: [Tensor<1>; 2],
    update: SgdUpdate,
    momentum: Momentum,
) -> [Tensor<D>; 2] {
    let [parameter, gradient, velocity] =
        [parameter, gradient, velocity].map(Tensor::into_dispatch);
    let [factor, is_applied] = control.map(Tensor::into_dispatch);
    let Moved { parameter, velocity } =
        <Dispatch as ControlledBackend>::sgd_with_momentum_controlled(
            parameter, gradient, velocity, factor, is_applied, update, momentum,
        );
    [parameter, velocity].map(Tensor::from_dispatch)
}
