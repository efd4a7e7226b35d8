//! Two training steps on examples, for data of a known signature.

use std::path::Path;
use std::time::Duration;

use burn::module::Module;
use burn::tensor::Device;
use updraft_trainer::Task;

use super::train::training_device;
use crate::config::Plan;
use crate::error::RunError;

/// Trains two steps of `batch` samples on examples of the task and returns how long each took.
///
/// For [`TaskPlan::rehearse`](crate::TaskPlan::rehearse); `device` is without autodiff.
///
/// # Errors
/// [`RunError::Train`].
pub fn rehearse<M: Module, T: Task<M>>(
    task: &T,
    init: impl FnOnce(&Device) -> M,
    plan: &Plan,
    device: &Device,
    batch: usize,
) -> Result<[Duration; 2], RunError> {
    let device = training_device(plan, device.clone());
    device.seed(plan.seed);
    let model = plan.precision.autocast(init(&device));
    let settings = plan.run_settings(Path::new(""));
    let optimizer = plan.train.optimizer.init();
    Ok(updraft_trainer::rehearse(task, model, optimizer, &settings, batch, &device)?)
}
