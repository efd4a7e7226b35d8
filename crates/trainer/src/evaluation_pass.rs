//! An evaluation batch by batch, with the outputs of the model.

use std::time::Instant;

use burn::tensor::Device;
use updraft_precision::Policy;

use crate::batch_numbers::{BatchNumbers, BatchTensors};
use crate::captured::{CaptureReport, CapturedForward};
use crate::metric::{Evaluation, LossSums, Score};
use crate::monitor::StepTimes;
use crate::stream::{BatchStream, EpochPart, StreamError};
use crate::task::{StepContext, Task, metric_specs};
use crate::tensors::Tensors;

/// An evaluation batch by batch, for callers that compare the outputs of models.
///
/// [`evaluate`](crate::evaluate()) runs it to its end.
pub struct EvaluationPass<'a, M, T: Task<M>> {
    task: &'a T,
    model: &'a M,
    batches: EpochPart<'a, T::Batch>,
    device: &'a Device,
    policy: Policy,
    sums: LossSums,
    score: T::Score,
    times: StepTimes,
    captured: Option<CapturedPass<'a, T::Input, T::Output>>,
}

/// The forward pass of a task and a model.
type CapturedPass<'a, I, O> = CapturedForward<I, O, Box<dyn FnMut(I) -> O + 'a>>;

/// A batch that was evaluated.
#[derive(Debug, Clone)]
pub struct EvaluatedBatch<I, O> {
    /// The input, before it is cast to the dtype of the computation.
    pub input: I,
    /// What the model returned, in the dtype of outputs.
    pub output: O,
    /// The number of samples.
    pub samples: usize,
}

impl<'a, M, T: Task<M>> EvaluationPass<'a, M, T> {
    /// A pass over every sample of a stream's first epoch; the arguments are those of
    /// [`evaluate`](crate::evaluate()).
    pub fn new(
        task: &'a T,
        model: &'a M,
        stream: &'a dyn BatchStream<T::Batch>,
        device: &'a Device,
        policy: Policy,
    ) -> Self {
        Self::over(EpochPart::all(stream.epoch(0)), task, model, device, policy)
    }

    /// A pass over batches of a stream.
    pub(crate) fn over(
        batches: EpochPart<'a, T::Batch>,
        task: &'a T,
        model: &'a M,
        device: &'a Device,
        policy: Policy,
    ) -> Self {
        let (sums, score, times) = Default::default();
        Self { task, model, batches, device, policy, sums, score, times, captured: None }
    }

    /// The same with the forward pass captured at the first batch, and replayed for batches of its
    /// shape where the device can; see [`CapturedModel`](crate::CapturedModel).
    #[must_use]
    pub fn captured(mut self) -> Self {
        let (task, model, policy) = (self.task, self.model, self.policy);
        let forward =
            move |input| policy.scope(|| task.forward(model, input, &StepContext::evaluation()));
        self.captured = Some(CapturedForward::new(Box::new(forward)));
        self
    }

    /// How the forward passes were computed so far; `None` if they are not
    /// [captured](Self::captured).
    #[must_use]
    pub fn capture_report(&self) -> Option<CaptureReport> {
        self.captured.as_ref().map(CapturedForward::report)
    }

    /// Evaluates the next batch; `None` after the last one.
    ///
    /// # Errors
    /// The error of the stream or of [`Task::place`].
    #[allow(clippy::type_complexity, reason = "the form of an iterator of results")]
    pub fn next_batch(
        &mut self,
    ) -> Result<Option<EvaluatedBatch<T::Input, T::Output>>, StreamError> {
        let evaluated = self.evaluate_next(T::Input::clone)?;
        Ok(evaluated.map(|(input, output, samples)| EvaluatedBatch { input, output, samples }))
    }

    /// Evaluates the next batch, and returns what `keep` returns for its input, the output and the
    /// number of samples. An input that is not kept may be overwritten by the forward pass.
    #[allow(clippy::type_complexity, reason = "the form of an iterator of results")]
    pub(crate) fn evaluate_next<K>(
        &mut self,
        keep: impl FnOnce(&T::Input) -> K,
    ) -> Result<Option<(K, T::Output, usize)>, StreamError> {
        let Some((kept, output, (samples, numbers))) = self.measure_next(keep)? else {
            return Ok(None);
        };
        self.add(samples, &numbers);
        Ok(Some((kept, output, samples)))
    }

    /// Adds the numbers of a batch, here or of another rank, to the sums.
    pub(crate) fn add(&mut self, samples: usize, batch: &BatchNumbers) {
        self.sums.add(batch.loss, &batch.parts, samples);
        self.score.add(&batch.numbers, samples);
    }

    /// Computes the next batch without adding it to the sums.
    #[allow(clippy::type_complexity, reason = "the form of an iterator of results")]
    pub(crate) fn measure_next<K>(
        &mut self,
        keep: impl FnOnce(&T::Input) -> K,
    ) -> Result<Option<(K, T::Output, (usize, BatchNumbers))>, StreamError> {
        let mut last = Instant::now();
        let mut lap_us = || {
            let before = std::mem::replace(&mut last, Instant::now());
            last.duration_since(before).as_micros().try_into().unwrap_or(u64::MAX)
        };
        let Some(batch) = self.batches.next() else { return Ok(None) };
        let data_wait_us = lap_us();
        let (input, target) = self.task.place(batch?, self.device)?;
        let copy_us = lap_us();
        let samples = self.task.samples(&target);
        let kept = keep(&input);
        let cast = input.cast_floats(self.policy.compute);
        let output = match &mut self.captured {
            Some(captured) => captured.call(cast),
            None => {
                let forward = || self.task.forward(self.model, cast, &StepContext::evaluation());
                self.policy.scope(forward)
            }
        };
        let output = output.cast_floats(self.policy.output);
        let losses = self.task.loss(&output, &target);
        let read = BatchTensors::new(losses, self.task.measure(&output, &target), None).read();
        let forward_us = lap_us();
        self.times = StepTimes { data_wait_us, copy_us, forward_us, ..StepTimes::default() };
        Ok(Some((kept, output, (samples, read))))
    }

    /// The number of samples so far.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.sums.samples
    }

    /// The times of the last batch: waiting for it, copying it to the device, and the forward pass
    /// with loss, metrics and the read that waits for all of them.
    #[must_use]
    pub fn batch_times(&self) -> StepTimes {
        self.times
    }

    /// The metrics of the samples so far.
    #[must_use]
    pub fn evaluation(&self) -> Evaluation {
        self.sums.evaluation(&metric_specs(self.task), &self.task.values(&self.score))
    }

    pub(crate) fn into_sums(self) -> (LossSums, T::Score) {
        (self.sums, self.score)
    }
}
