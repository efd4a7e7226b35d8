//! Updates that the device decides about, without a read by the host.

use burn::tensor::{DType, Device, Tensor};

use crate::reason::plain_reason;
use crate::scope::Scope;

/// What is decided on the device about an update.
///
/// All tensors are in f32 on the device of the parameters.
#[derive(Debug, Clone)]
pub struct DeviceControl {
    /// `[1]`: gradients are multiplied by it, the loss scale's inverse times that of clipping; a
    /// finite number.
    pub factor: Tensor<1>,
    /// `[1]`: 1 applies the update, 0 leaves parameters and optimizer state as they are, to the
    /// bit.
    pub is_applied: Tensor<1>,
    /// `[1]`: updates applied before this one, for the bias correction of
    /// [`AdamW`](crate::AdamW); exact up to 2²⁴.
    pub applied: Tensor<1>,
}

/// Runs `step`, whose optimizers of this crate follow `control`.
///
/// `step` is usually one call of burn's `ModuleOptimizer::step`. Where our kernels update
/// parameters on a GPU, each of them reads the control; elsewhere operations on tensors have the
/// same effect, in the bits that [`Optimizer::step`](burn::optim::Optimizer::step) has with the
/// multiplied gradient. Neither waits for the device. Other optimizers, burn's own for example,
/// know of no control: their updates are applied, with the gradients as they are.
///
/// A parameter that takes part in some of the updates only, frozen in others for example, is
/// corrected by the number of its own. For that, `applied` grows by `is_applied` from each call to
/// the next one with the same parameters; it may begin with any number.
///
/// The control holds for this thread, and until `step` returns or panics; within a second call the
/// inner one holds.
///
/// # Example
/// ```
/// use burn::nn::LinearConfig;
/// use burn::optim::{GradientsParams, ModuleOptimizer};
/// use burn::tensor::{Device, Tensor};
/// use updraft_optim::{AdamW, DeviceControl, controlled};
///
/// let device = Device::flex();
/// let training = device.clone().autodiff();
/// let model = LinearConfig::new(2, 3).init(&training);
/// let before = model.weight.val().into_data();
/// let mut optimizer = ModuleOptimizer::from(AdamW::new());
/// let loss = model.forward(Tensor::<2>::ones([4, 2], &training)).sum();
/// let gradients = GradientsParams::from_grads(loss.backward(), &model);
/// let number = |number: f32| Tensor::<1>::from_floats([number], &device);
/// // A loss scale of 1024, and gradients that overflowed.
/// let control = DeviceControl {
///     factor: number(1.0 / 1024.0),
///     is_applied: number(0.0),
///     applied: number(0.0),
/// };
/// let model = controlled(&control, || optimizer.step(1e-3, model, gradients));
/// assert_eq!(model.weight.val().into_data(), before);
/// ```
pub fn controlled<R>(control: &DeviceControl, step: impl FnOnce() -> R) -> R {
    let _scope = Scope::enter(control);
    step()
}

/// Whether this crate's optimizers follow a control on the device: our kernels for GPUs update its
/// parameters in f32.
///
/// [`controlled()`] is correct on every device. Where this is `false`, deciding on the host is
/// faster: on a CPU a read costs nothing, and burn's operations compute also the update that is not
/// applied.
#[must_use]
pub fn takes_control(device: &Device) -> bool {
    plain_reason(device, DType::F32).is_none() && is_gpu(device)
}

#[cfg(feature = "cube")]
fn is_gpu(device: &Device) -> bool {
    crate::ops::kernels_of(&device.clone().without_autodiff()) == Ok(crate::ops::Kernels::Gpu)
}

#[cfg(not(feature = "cube"))]
fn is_gpu(_device: &Device) -> bool {
    false
}
