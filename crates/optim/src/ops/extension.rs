//! The operations that a backend must provide to run our kernels.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};

use crate::kernels::numbers::{AdamWUpdate, Momentum, SgdUpdate};

/// A parameter and its moments after a step.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(all(feature = "cube", feature = "fusion")))]
pub(crate) struct Updated<B: Backend> {
    pub(crate) parameter: FloatTensor<B>,
    pub(crate) first: FloatTensor<B>,
    pub(crate) second: FloatTensor<B>,
}

/// A parameter and its velocity after a step.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(all(feature = "cube", feature = "fusion")))]
pub(crate) struct Moved<B: Backend> {
    pub(crate) parameter: FloatTensor<B>,
    pub(crate) velocity: FloatTensor<B>,
}

/// Our operations, on f32 tensors of one shape.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(feature = "cube"),
    Fusion: cfg(all(feature = "cube", feature = "fusion"))
)]
pub(crate) trait OptimBackend: Backend {
    /// A step of `AdamW`.
    #[fusion(meta = |parameter, _gradient, first, second, _update| UpdatedMetadata {
        parameter: parameter.clone(),
        first: first.clone(),
        second: second.clone(),
    })]
    fn adamw(
        parameter: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        update: AdamWUpdate,
    ) -> Updated<Self>;

    /// A step of gradient descent without momentum.
    #[fusion(dtype = parameter, shape = parameter)]
    fn sgd(
        parameter: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        update: SgdUpdate,
    ) -> FloatTensor<Self>;

    /// A step of gradient descent with momentum.
    #[fusion(meta = |parameter, _gradient, velocity, _update, _momentum| MovedMetadata {
        parameter: parameter.clone(),
        velocity: velocity.clone(),
    })]
    fn sgd_with_momentum(
        parameter: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        velocity: FloatTensor<Self>,
        update: SgdUpdate,
        momentum: Momentum,
    ) -> Moved<Self>;
}

/// The same under a control on the device.
#[cfg(feature = "cube")]
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(crate) trait ControlledBackend: Backend {
    /// What [`adamw_controlled`](Self::adamw_controlled) reads of a control, for parameters of one
    /// history and the decay rates `β₁` and `β₂`.
    #[fusion(dtype = factor, shape = burn::tensor::Shape::new([crate::kernels::cube::CONTROL]))]
    fn adamw_control(
        factor: FloatTensor<Self>,
        is_applied: FloatTensor<Self>,
        applied: FloatTensor<Self>,
        missed: FloatTensor<Self>,
        beta: [f32; 2],
    ) -> FloatTensor<Self>;

    /// A step of `AdamW`, or none.
    #[fusion(meta = |parameter, _gradient, first, second, _control, _update| UpdatedMetadata {
        parameter: parameter.clone(),
        first: first.clone(),
        second: second.clone(),
    })]
    fn adamw_controlled(
        parameter: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        control: FloatTensor<Self>,
        update: AdamWUpdate,
    ) -> Updated<Self>;

    /// A step of gradient descent without momentum, or none.
    #[fusion(dtype = parameter, shape = parameter)]
    fn sgd_controlled(
        parameter: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        factor: FloatTensor<Self>,
        is_applied: FloatTensor<Self>,
        update: SgdUpdate,
    ) -> FloatTensor<Self>;

    /// A step of gradient descent with momentum, or none.
    #[fusion(meta = |parameter, _gradient, velocity, _factor, _is_applied, _update, _momentum| {
        MovedMetadata { parameter: parameter.clone(), velocity: velocity.clone() }
    })]
    fn sgd_with_momentum_controlled(
        parameter: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        velocity: FloatTensor<Self>,
        factor: FloatTensor<Self>,
        is_applied: FloatTensor<Self>,
        update: SgdUpdate,
        momentum: Momentum,
    ) -> Moved<Self>;
}
