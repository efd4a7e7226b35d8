//! A run's model, loaded and scored.

use burn::module::Module;
use burn::tensor::Device;
use updraft_trainer::{Control, Evaluation, load_model};

use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::{StreamUse, Workload};

/// Loads the parameters that a run serves into a fresh model, in the run's precision.
///
/// For [`Predictor::load`](crate::Predictor::load); the result is on the device of `fresh`, without
/// autodiff.
///
/// # Errors
/// [`RunError::NoCheckpoint`], or [`RunError::Checkpoint`] for one that is damaged or of another
/// model.
pub fn load<M: Module>(fresh: M, plan: &Plan, folder: &RunFolder) -> Result<M, RunError> {
    load_stored(plan.precision.autocast(fresh), plan, folder)
}

/// As [`load`] with the parameters as they are stored, in f32, whatever the run computed in.
pub(crate) fn load_stored<M: Module>(
    fresh: M,
    plan: &Plan,
    folder: &RunFolder,
) -> Result<M, RunError> {
    Ok(load_model(&folder.served_checkpoint(plan)?, fresh)?.valid())
}

pub(super) fn evaluate<W: Workload>(
    workload: &W,
    plan: &Plan,
    folder: &RunFolder,
    device: &Device,
    poll: &mut dyn FnMut(usize) -> Control,
) -> Result<Option<Evaluation>, RunError> {
    workload.check(folder)?;
    let model = load(workload.init(device), plan, folder)?;
    let test = workload.streams(plan, StreamUse::Reading)?.test;
    let score =
        updraft_trainer::evaluate(workload.task(), &model, &*test, device, plan.precision, poll)?;
    Ok(score.map(|score| score.evaluation))
}
