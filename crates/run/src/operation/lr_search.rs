//! Range tests of learning rates on a new model.

use std::path::Path;

use burn::tensor::Device;
use updraft_trainer::{Control, LrPoint, LrRange, TrainError, find_learning_rate};

use super::new_model::new_model;
use super::training_device::training_device;
use crate::config::Plan;
use crate::error::RunError;
use crate::task::{StreamUse, Workload};

/// A range test of learning rates.
pub struct LrSearch<'a> {
    /// The learning rates to try.
    pub range: LrRange,
    /// Called after each update with the number of updates; may end the test.
    pub poll: &'a mut dyn FnMut(usize) -> Control,
}

pub(super) fn find_rate<W: Workload>(
    workload: &W,
    plan: &Plan,
    device: &Device,
    search: LrSearch<'_>,
) -> Result<Option<Vec<LrPoint>>, RunError> {
    let device = training_device(plan, device.clone());
    plan.precision.check_device(&device).map_err(TrainError::from)?;
    let streams = workload.streams(plan, StreamUse::Reading)?;
    device.seed(plan.seed);
    let model = new_model(workload, plan, &device, false)?;
    let settings = plan.run_settings(Path::new(""));
    let points = find_learning_rate(
        workload.task(),
        &*model,
        plan.train.optimizer.init(),
        &*streams.train,
        (&device, plan.seed),
        (&settings.step, settings.loss_scale, &search.range),
        search.poll,
    )?;
    Ok(points)
}
