//! The metrics of a model on a data set.

use burn::tensor::Device;
use updraft_precision::Policy;

use crate::captured::CaptureReport;
use crate::error::TrainError;
use crate::evaluation_pass::EvaluationPass;
use crate::events::Control;
use crate::metric::{Evaluation, LossSums, Score};
use crate::stream::{BatchStream, StreamError};
use crate::task::{Task, metric_specs};

/// The metrics of a model on a data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluated<S> {
    /// Its metrics: the task's own loss first.
    pub evaluation: Evaluation,
    /// The score from which the task's metrics were computed.
    pub score: S,
}

/// Evaluates a model on every sample of a stream's first epoch, by the task's own loss and metrics.
///
/// `model` is a validation snapshot ([`Module::valid`](burn::module::Module::valid)) on `device`,
/// without autodiff, or any other type that the task runs. `poll` is called after each batch with
/// the samples so far; `None` if it returns [`Control::Stop`].
///
/// # Errors
/// [`TrainError::Evaluation`] with the error of the stream or of [`Task::place`].
///
/// # Panics
/// As the task.
pub fn evaluate<M, T: Task<M>>(
    task: &T,
    model: &M,
    stream: &dyn BatchStream<T::Batch>,
    device: &Device,
    policy: Policy,
    poll: &mut dyn FnMut(usize) -> Control,
) -> Result<Option<Evaluated<T::Score>>, TrainError> {
    let scored = score_stream(task, model, stream, device, policy, poll);
    let Some((sums, score)) = scored.map_err(|cause| TrainError::Evaluation { cause })? else {
        return Ok(None);
    };
    Ok(Some(Evaluated::of(task, &sums, score)))
}

/// As [`evaluate`], with the forward pass captured at the first batch and replayed for batches of its
/// shape where the device can; returns also how the passes were computed.
///
/// A pass that is replayed returns the bits of a plain one; see
/// [`CapturedModel`](crate::CapturedModel) for what the model has to keep to.
///
/// # Errors
/// As [`evaluate`].
///
/// # Panics
/// As the task.
#[allow(clippy::type_complexity, reason = "a pair that its callers take apart at once")]
pub fn evaluate_captured<M, T: Task<M>>(
    task: &T,
    model: &M,
    stream: &dyn BatchStream<T::Batch>,
    (device, policy): (&Device, Policy),
    poll: &mut dyn FnMut(usize) -> Control,
) -> Result<Option<(Evaluated<T::Score>, CaptureReport)>, TrainError> {
    let mut pass = EvaluationPass::new(task, model, stream, device, policy).captured();
    let failed = |cause| TrainError::Evaluation { cause };
    while pass.evaluate_next(|_| ()).map_err(failed)?.is_some() {
        if poll(pass.samples()) != Control::Continue {
            return Ok(None);
        }
    }
    let report = pass.capture_report().unwrap_or_default();
    let (sums, score) = pass.into_sums();
    Ok(Some((Evaluated::of(task, &sums, score), report)))
}

impl<S: Score> Evaluated<S> {
    pub(crate) fn of<M, T: Task<M, Score = S>>(task: &T, sums: &LossSums, score: S) -> Self {
        Self { evaluation: sums.evaluation(&metric_specs(task), &task.values(&score)), score }
    }
}

/// The sums of [`evaluate`], with the error of the stream or of the task.
#[allow(clippy::type_complexity, reason = "a pair that its callers take apart at once")]
pub(crate) fn score_stream<M, T: Task<M>>(
    task: &T,
    model: &M,
    stream: &dyn BatchStream<T::Batch>,
    device: &Device,
    policy: Policy,
    poll: &mut dyn FnMut(usize) -> Control,
) -> Result<Option<(LossSums, T::Score)>, StreamError> {
    let mut pass = EvaluationPass::new(task, model, stream, device, policy);
    while pass.evaluate_next(|_| ())?.is_some() {
        if poll(pass.samples()) != Control::Continue {
            return Ok(None);
        }
    }
    Ok(Some(pass.into_sums()))
}
