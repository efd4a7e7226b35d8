//! Evaluating a run's model on several ranks.

use burn::tensor::Device;
use updraft_data::Views;
use updraft_device::Selection;
use updraft_distributed::{Collective, agree};
use updraft_trainer::{CaptureReport, Control, Evaluation, TrainError};

use super::evaluate::evaluate;
use super::evaluate_captured::evaluate_captured;
use super::evaluate_int8::evaluate_int8;
use super::shared_start::agree_on_start;
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::int8_network::Int8Network;
use crate::task::Workload;

/// What is evaluated.
#[derive(Debug, Clone, Copy)]
pub enum EvaluatedForm<'a> {
    /// The run's model, as it is served.
    Served,
    /// The same, with outputs averaged over several views of each input.
    Averaged(Views),
    /// The int8 network of the run.
    Int8(&'a Int8Network),
}

/// The arguments of an evaluation that several ranks divide.
pub struct RankEvaluation<'a> {
    /// The plan that the workload was opened with.
    pub plan: &'a Plan,
    /// The run.
    pub folder: &'a RunFolder,
    /// What is evaluated.
    pub form: EvaluatedForm<'a>,
    /// The device of this rank, opened, without autodiff.
    pub device: &'a Device,
    /// How the device was chosen.
    pub selection: &'a Selection,
    /// The ranks; each has its own `RankEvaluation`.
    pub collective: &'a mut dyn Collective,
    /// If given, the forward pass of [`EvaluatedForm::Served`] is recorded and replayed on a single
    /// rank, with the same score; receives how the passes were computed.
    pub captured: Option<&'a mut CaptureReport>,
}

pub(super) fn evaluate_on_ranks<W: Workload>(
    workload: &W,
    evaluation: RankEvaluation<'_>,
    poll: &mut dyn FnMut(usize) -> Control,
) -> Result<Option<Evaluation>, RunError> {
    let RankEvaluation { plan, folder, form, device, selection, collective, captured } = evaluation;
    if let Some(report) = captured {
        if collective.size() > 1 || !matches!(form, EvaluatedForm::Served) {
            let reason = "a captured evaluation is of the served model, on a single rank";
            return Err(RunError::Unusable { reason: reason.to_owned() });
        }
        let scored = evaluate_captured(workload, (plan, folder), device, poll)?;
        return Ok(scored.map(|(score, how)| {
            *report = how;
            score
        }));
    }
    if collective.size() > 1 {
        agree_on_start(collective, plan, workload, (device, selection.id.backend))?;
        let evaluated = match form {
            EvaluatedForm::Served => folder.served_digest(plan)?,
            EvaluatedForm::Averaged(views) => format!("{views} of {}", folder.served_digest(plan)?),
            EvaluatedForm::Int8(network) => format!("int8 {}", network.fingerprint()),
        };
        agree(collective, "the model", &evaluated).map_err(TrainError::from)?;
    }
    match form {
        EvaluatedForm::Served => {
            evaluate(workload, plan, (folder, None), (device, collective), poll)
        }
        EvaluatedForm::Averaged(views) => {
            evaluate(workload, plan, (folder, Some(views)), (device, collective), poll)
        }
        EvaluatedForm::Int8(network) => {
            evaluate_int8(workload, plan, (folder, network), (device, collective), poll)
        }
    }
}
