//! The settings of the trainer for a run on a device.

use std::path::Path;

use updraft_device::Backend;
use updraft_trainer::RunSettings;

use crate::config::{Plan, ReadEveryPlan};

/// The settings of a run in a folder, on a device of a backend; `traced` is the number of steps that
/// are traced.
pub(super) fn trainer_settings(
    plan: &Plan,
    folder: &Path,
    backend: Backend,
    traced: Option<u64>,
) -> RunSettings {
    let read_every = match plan.train.read_every {
        // A read that waits for each update measures it.
        ReadEveryPlan::Auto if traced.is_some() => 1,
        ReadEveryPlan::Auto | ReadEveryPlan::Count(_) => plan.read_every(backend),
    };
    RunSettings { read_every, ..plan.run_settings(folder) }
}
