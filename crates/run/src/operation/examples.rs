//! A model with its task, without data: training steps on example data, and unsupported settings.

use std::path::Path;
use std::time::Duration;

use burn::module::Module;
use burn::tensor::Device;
use updraft_trainer::{Task, keeps_statistics};

use super::training_device::training_device;
use crate::config::Plan;
use crate::error::RunError;
use crate::task::Ability;

/// A model with its task, without data; implemented by [`OnExamples`], which
/// [`TaskPlan::on_examples`](crate::TaskPlan::on_examples) returns.
pub trait AnyModel {
    /// Trains two steps of `batch` samples on example data and returns the time of each. `device`
    /// is without autodiff.
    ///
    /// # Errors
    /// [`RunError::Train`].
    fn rehearse(
        &self,
        plan: &Plan,
        device: &Device,
        batch: usize,
    ) -> Result<[Duration; 2], RunError>;

    /// The reason why the model does not support a setting; `None` if it does, or if only a
    /// [`Workload`](crate::Workload) can determine it.
    fn refusal(&self, setting: Ability, device: &Device) -> Option<&'static str>;
}

/// A task and the function that initializes a model for it.
#[derive(Debug)]
pub struct OnExamples<T, F> {
    /// The task: its loss, and its [`example`](Task::example) data.
    pub task: T,
    /// Initializes the model on a device.
    pub init: F,
}

impl<M: Module, T: Task<M>, F: Fn(&Device) -> M> AnyModel for OnExamples<T, F> {
    fn rehearse(
        &self,
        plan: &Plan,
        device: &Device,
        batch: usize,
    ) -> Result<[Duration; 2], RunError> {
        rehearse(&self.task, &self.init, plan, device, batch)
    }

    fn refusal(&self, setting: Ability, device: &Device) -> Option<&'static str> {
        refusal(&self.task, &self.init, setting, device)
    }
}

pub(super) fn rehearse<M: Module, T: Task<M>>(
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

pub(super) fn refusal<M: Module, T: Task<M>>(
    task: &T,
    init: impl FnOnce(&Device) -> M,
    setting: Ability,
    device: &Device,
) -> Option<&'static str> {
    match setting {
        Ability::Segments => task.segments().err(),
        Ability::BatchNorms => {
            let model = init(&device.clone().autodiff());
            (!keeps_statistics(&model)).then_some("its model has no batch norms")
        }
        Ability::Predict
        | Ability::Quantize
        | Ability::Int8
        | Ability::Averaging
        | Ability::Resident
        | Ability::Utilization => None,
    }
}
