//! A model with its task before any data is opened: what it does on examples, and what it cannot do.

use std::path::Path;
use std::time::Duration;

use burn::module::Module;
use burn::tensor::Device;
use updraft_trainer::{Task, keeps_statistics};

use super::train::training_device;
use crate::config::Plan;
use crate::error::RunError;
use crate::task::Ability;

/// A model with its task, without data; [`TaskPlan::on_examples`](crate::TaskPlan::on_examples)
/// returns an [`OnExamples`] as this.
pub trait AnyModel {
    /// Trains two steps of `batch` samples on examples; returns how long each took. `device` is
    /// without autodiff.
    ///
    /// # Errors
    /// [`RunError::Train`].
    fn rehearse(
        &self,
        plan: &Plan,
        device: &Device,
        batch: usize,
    ) -> Result<[Duration; 2], RunError>;

    /// Why the model cannot do what a setting asks for; `None` where it can, and for what only a
    /// [`Workload`](crate::Workload) knows.
    fn refusal(&self, setting: Ability, device: &Device) -> Option<&'static str>;
}

/// A task, and the function that draws the parameters of a model for it.
#[derive(Debug)]
pub struct OnExamples<T, F> {
    /// The loss, and [`Task::example`].
    pub task: T,
    /// Draws fresh parameters on a device.
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
        Ability::Predict | Ability::Quantize | Ability::Utilization => None,
    }
}
