//! Evaluating a run's model with a forward pass that is recorded and replayed.

use burn::tensor::Device;
use updraft_trainer::{CaptureReport, Control, Evaluation, evaluate_captured as evaluate_recorded};

use super::evaluate::{load, not_finite};
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::{StreamUse, Workload};

/// The score of the served model, and how its forward passes were computed.
pub(super) fn evaluate_captured<W: Workload>(
    workload: &W,
    (plan, folder): (&Plan, &RunFolder),
    device: &Device,
    poll: &mut dyn FnMut(usize) -> Control,
) -> Result<Option<(Evaluation, CaptureReport)>, RunError> {
    workload.check(folder)?;
    let model = load(workload.init(device), plan, folder)?;
    let test = workload.streams(plan, StreamUse::Reading)?.test;
    let decided = workload.decided(folder)?;
    let task = decided.as_ref().unwrap_or(workload.task());
    let scored = evaluate_recorded(task, &model, &*test, (device, plan.precision), poll)?;
    match scored {
        Some((scored, _)) if !scored.evaluation.loss().is_finite() => {
            Err(not_finite(folder, "the loss".to_owned()))
        }
        scored => Ok(scored.map(|(scored, report)| (scored.evaluation, report))),
    }
}
