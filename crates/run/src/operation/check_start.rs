//! What training refuses before it creates a run folder.

use burn::tensor::Device;
use updraft_trainer::TrainError;

use super::AnyWorkload;
use crate::config::Plan;
use crate::error::RunError;
use crate::task::{Ability, Workload};

/// Refuses data without a whole batch, and settings that the workload does not support.
pub(super) fn check_start<W: Workload>(
    workload: &W,
    plan: &Plan,
    device: &Device,
) -> Result<(), RunError> {
    let (samples, batch) = (Workload::about(workload).train_samples, plan.train.batch);
    // A task may not know how many there are, and an automatic batch is not known yet.
    if (1..batch).contains(&samples) && plan.train.auto_batch.is_none() {
        return Err(TrainError::NoBatches { samples, batch }.into());
    }
    for ability in Ability::ALL {
        if ability.is_asked(&plan.train, &plan.log)
            && let Some(reason) = AnyWorkload::refusal(workload, ability, device)
        {
            return Err(plan.kind().refused(ability, reason));
        }
    }
    Ok(())
}
