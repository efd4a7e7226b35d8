//! The device of training steps, which decides what is recomputed.

use burn::tensor::Device;

use crate::config::{Plan, RecomputePlan};

/// The device with autodiff, and with burn's recomputation strategy if the plan uses it.
pub(super) fn training_device(plan: &Plan, device: Device) -> Device {
    in_recomputation(plan.train.recompute, device)
}

/// The same for a strategy.
pub(super) fn in_recomputation(recompute: RecomputePlan, device: Device) -> Device {
    match recompute {
        RecomputePlan::ElementWise => device.autodiff().gradient_checkpointing(),
        RecomputePlan::None | RecomputePlan::Segments => device.autodiff(),
    }
}
