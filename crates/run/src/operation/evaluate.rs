//! Loading and evaluating a run's model.

use std::time::Instant;

use burn::module::Module;
use burn::tensor::Device;
use serde_json::json;
use updraft_data::Views;
use updraft_distributed::Collective;
use updraft_precision::Policy;
use updraft_trainer::{
    Control, Evaluation, EvaluationPass, evaluate_on_ranks, load_model, non_finite_parameter,
};

use super::layer_times::{TraceFiles, Tracer};
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::record::TracedStep;
use crate::task::{Ability, StreamUse, Workload};

/// Loads the served parameters of a run into a fresh model, in the run's precision.
///
/// For [`Predictor::load`](crate::Predictor::load); the result is on the device of `fresh`, without
/// autodiff.
///
/// # Errors
/// [`RunError::NoCheckpoint`], [`RunError::Checkpoint`] or [`RunError::Damaged`] for one that is
/// damaged or of another model, [`RunError::NotFinite`] for one that diverged.
pub fn load<M: Module>(fresh: M, plan: &Plan, folder: &RunFolder) -> Result<M, RunError> {
    load_as(plan.precision, fresh, plan, folder)
}

/// As [`load`], in another precision than the run's.
pub(super) fn load_as<M: Module>(
    policy: Policy,
    fresh: M,
    plan: &Plan,
    folder: &RunFolder,
) -> Result<M, RunError> {
    load_stored(policy.autocast(fresh), plan, folder)
}

/// As [`load`], with the parameters in f32 as they are stored, independent of the run's precision.
pub(crate) fn load_stored<M: Module>(
    fresh: M,
    plan: &Plan,
    folder: &RunFolder,
) -> Result<M, RunError> {
    let model = load_to_train(fresh, plan, folder)?.valid();
    refuse_non_finite(&model, folder)?;
    Ok(model)
}

/// Returns an error for a model with a parameter that is not finite.
pub(super) fn refuse_non_finite<M: Module>(model: &M, folder: &RunFolder) -> Result<(), RunError> {
    match non_finite_parameter(model) {
        None => Ok(()),
        Some(path) => Err(not_finite(folder, format!("parameter `{path}`"))),
    }
}

/// The served parameters of a run in a fresh model, on its device.
pub(super) fn load_to_train<M: Module>(
    fresh: M,
    plan: &Plan,
    folder: &RunFolder,
) -> Result<M, RunError> {
    let path = folder.served_checkpoint(plan)?;
    load_model(&path, fresh).map_err(|error| folder.advised(error))
}

pub(super) fn not_finite(folder: &RunFolder, what: String) -> RunError {
    RunError::NotFinite { run: folder.path().to_owned(), what }
}

pub(super) fn evaluate<W: Workload>(
    workload: &W,
    plan: &Plan,
    (folder, views): (&RunFolder, Option<Views>),
    (device, collective): (&Device, &mut dyn Collective),
    poll: &mut dyn FnMut(usize) -> Control,
) -> Result<Option<Evaluation>, RunError> {
    workload.check(folder)?;
    let model = load(workload.init(device), plan, folder)?;
    let test = workload.streams(plan, StreamUse::Reading)?.test;
    let decided = match views {
        None => workload.decided(folder)?,
        Some(views) => {
            let averaged = workload.averaged(views);
            Some(averaged.map_err(|reason| plan.kind().refused(Ability::Averaging, reason))?)
        }
    };
    let task = decided.as_ref().unwrap_or(workload.task());
    let on = (device, plan.precision);
    let score = evaluate_on_ranks(task, &model, &*test, on, collective, poll)?;
    match score {
        // Finite parameters may still overflow.
        Some(score) if !score.evaluation.loss().is_finite() => {
            Err(not_finite(folder, "the loss".to_owned()))
        }
        score => Ok(score.map(|score| score.evaluation)),
    }
}

/// As [`evaluate`], and writes a trace of the first `steps` batches.
pub(super) fn trace_evaluation<W: Workload>(
    workload: &W,
    (plan, folder): (&Plan, &RunFolder),
    steps: u64,
    device: &Device,
    poll: &mut dyn FnMut(usize) -> Control,
) -> Result<Option<Evaluation>, RunError> {
    workload.check(folder)?;
    let model = load(workload.init(device), plan, folder)?;
    let test = workload.streams(plan, StreamUse::Reading)?.test;
    let decided = workload.decided(folder)?;
    let task = decided.as_ref().unwrap_or(workload.task());
    let mut tracer =
        Tracer::start(folder, TraceFiles::EVALUATION, (plan.precision, device), (steps, None))?;
    let mut pass = EvaluationPass::new(task, &model, &*test, device, plan.precision);
    let started = Instant::now();
    let micros = |since: Instant| since.elapsed().as_micros() as u64;
    for number in 0.. {
        let (begun, begin_us) = (Instant::now(), micros(started));
        let batch = pass.next_batch();
        let batch = batch.map_err(|cause| RunError::Stream { split: "test", cause })?;
        let Some(batch) = batch else { break };
        let (name, samples) = (format!("batch {number}"), batch.samples);
        let (times, facts) = (pass.batch_times(), json!({ "samples": samples }));
        let (lasts_us, upload) = (micros(begun), None);
        let step = TracedStep { name, begin_us, lasts_us, times, upload, facts };
        tracer.step(&step, &model)?;
        if poll(pass.samples()) != Control::Continue {
            return Ok(None);
        }
    }
    tracer.finish()?;
    let score = pass.evaluation();
    match score.loss().is_finite() {
        false => Err(not_finite(folder, "the loss".to_owned())),
        true => Ok(Some(score)),
    }
}
