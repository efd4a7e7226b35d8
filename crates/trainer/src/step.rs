//! One update of the parameters: forward, loss, scale, backward, mean, unscale, clip, update.

use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::Tensor;
use updraft_precision::{LossScaler, Policy, PrecisionError, Unscaled, square_sums};

use crate::accumulate::GradientMean;
use crate::batch_numbers::{BatchNumbers, BatchTensors};
use crate::batch_pass::{BatchPass, Passed};
use crate::bits::Bits;
use crate::buffers::Buffers;
use crate::device_read::read;
use crate::error::TrainError;
use crate::freeze::Freeze;
use crate::guard::{NonFinite, Skipped, first_bad_tensor};
use crate::metric::{LossSums, Score};
use crate::monitor::{PhaseClock, StepTimes, Timing};
use crate::ranks::{Ranks, StepShare, has_gradient};
use crate::task::Task;
use crate::tensors::Tensors;

/// Settings of an update.
#[derive(Debug, Clone, PartialEq)]
pub struct StepSettings {
    /// The three dtypes of the computation.
    pub policy: Policy,
    /// The largest global norm of the gradients; gradients are scaled down to it.
    pub clip_norm: Option<f64>,
    /// The policy for a non-finite loss or gradient.
    pub non_finite: NonFinite,
    /// When the clock of the phases is read.
    pub timing: Timing,
    /// Whether activations are recomputed, by [`Task::segments`], instead of kept.
    pub in_segments: bool,
    /// Parameters that are not trained in all epochs.
    pub freeze: Vec<Freeze>,
}

/// f32, no clipping, and an error for non-finite values.
impl Default for StepSettings {
    fn default() -> Self {
        Self {
            policy: Policy::F32,
            clip_norm: None,
            non_finite: NonFinite::default(),
            timing: Timing::default(),
            in_segments: false,
            freeze: Vec::new(),
        }
    }
}

/// What was measured in an update.
#[derive(Debug, Clone, PartialEq)]
pub struct StepOutcome<S> {
    /// Mean loss over the samples, before the update.
    pub loss: f64,
    /// The loss's parts, likewise, in the order of [`Task::parts`].
    pub parts: Vec<f64>,
    /// The score of the samples, before the update.
    pub score: S,
    /// Samples of all batches.
    pub samples: usize,
    /// Global norm of the gradients before clipping; `None` if it is not needed.
    pub gradient_norm: Option<f64>,
    /// Why the update was skipped, if it was.
    pub skipped: Option<Skipped>,
    /// The time of each phase, without the wait for data.
    pub times: StepTimes,
}

/// Which update it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepAt {
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// Updates before this one.
    pub step: u64,
    /// Its learning rate.
    pub learning_rate: f64,
    /// Seeds the random numbers of [`Task::segments`] and of
    /// [`StepContext`](crate::StepContext).
    pub seed: u64,
}

/// Runs one update on one batch, without a loss scale, and returns the updated model.
///
/// `batch` is the result of [`Task::place`] on the model's device.
///
/// # Errors
/// [`TrainError::NonFiniteLoss`] and [`TrainError::Gradient`]; the model is consumed, so the caller
/// has to restore its last checkpoint.
///
/// # Panics
/// If the input has no tensor, and as the task.
pub fn train_step<M: Module, T: Task<M>>(
    task: &T,
    model: M,
    optimizer: &mut ModuleOptimizer,
    batch: (T::Input, T::Target),
    settings: &StepSettings,
    at: StepAt,
) -> Result<(M, StepOutcome<T::Score>), TrainError> {
    let mut batches = std::iter::once(Ok(batch));
    train_step_accumulated(
        task,
        model,
        optimizer,
        &mut LossScaler::none(),
        &mut batches,
        settings,
        at,
    )
}

/// The input and the target of a batch, or an error.
pub type Placed<I, T> = Result<(I, T), TrainError>;

/// Runs one update on the mean gradient of several batches and returns the updated model.
///
/// The next batch is taken after the backward pass of the one before was submitted, so that an
/// asynchronous device computes in the meantime; two inputs and the activations of one batch are on
/// the device. Without batch norms, `k` batches of `b` samples make the same update as one of
/// `k·b`.
///
/// Loss, score and gradient norm are read after the backward pass was submitted: one read per
/// batch, with the norm in the last one.
///
/// The loss is multiplied by the scaler's factor and the mean gradient divided by it, in f32. Under
/// a dynamic scale an update whose gradients overflow is skipped: parameters, optimizer state and
/// running statistics are then as before, bit for bit. A loss that is not finite before scaling is
/// handled according to `settings.non_finite`.
///
/// # Errors
/// As [`train_step`], and the first error among the batches.
///
/// # Panics
/// If there is no batch or an input without a tensor, and as the task.
pub fn train_step_accumulated<M: Module, T: Task<M>>(
    task: &T,
    model: M,
    optimizer: &mut ModuleOptimizer,
    scaler: &mut LossScaler,
    batches: &mut dyn Iterator<Item = Placed<T::Input, T::Target>>,
    settings: &StepSettings,
    at: StepAt,
) -> Result<(M, StepOutcome<T::Score>), TrainError> {
    let mut ranks = Ranks::alone();
    train_step_on_ranks(task, model, optimizer, scaler, batches, (settings, at), &mut ranks)
}

/// The same with the mean gradient of several ranks, whose loss, score and samples are those of all
/// of them.
///
/// Ranks with local batch norms merge their running statistics as
/// [`follow_batch_norms`](Ranks::follow_batch_norms) has measured.
///
/// # Errors
/// As [`train_step_accumulated`], and [`TrainError::Collective`] if a rank is lost.
///
/// # Panics
/// As [`train_step_accumulated`].
pub fn train_step_on_ranks<M: Module, T: Task<M>>(
    task: &T,
    model: M,
    optimizer: &mut ModuleOptimizer,
    scaler: &mut LossScaler,
    batches: &mut dyn Iterator<Item = Placed<T::Input, T::Target>>,
    (settings, at): (&StepSettings, StepAt),
    ranks: &mut Ranks,
) -> Result<(M, StepOutcome<T::Score>), TrainError> {
    let StepAt { step, learning_rate, .. } = at;
    let mut counts = Vec::new();
    let mut bad = None;
    let is_taken_back = scaler.is_dynamic() || settings.non_finite.skips();
    let before = is_taken_back.then(|| Buffers::of(&model));
    let mut pass = BatchPass::new(task, settings, at)?;
    let mut times = StepTimes::default();
    let mut mean = GradientMean::default();
    let mut sums = LossSums::default();
    let mut score = T::Score::default();
    let mut batch = first_batch(batches)?;
    let model = pass.prepare(model, (&batch.0, &batch.1));
    let device = batch.0.device().expect("an input has at least one tensor");
    let mut clock = PhaseClock::start(&device, settings.timing);
    let mut statistics = ranks.statistics_before(&model);
    times.exchange_us += clock.lap_us();
    let result = loop {
        let (given, target) = batch;
        let count = task.samples(&target);
        clock.restart();
        let scale = |loss: Tensor<1>| scaler.scale_loss(loss);
        let passed = ranks
            .pass(count, || pass.run(&model, (&given, &target), &scale, &mut clock, &mut times))?;
        let Passed { gradients, losses, output, numbers } = passed;
        mean.add(gradients, count, &model);
        counts.push(count);
        times.backward_us += clock.lap_us();
        if let Some(statistics) = &mut statistics {
            statistics.add(&model);
            times.exchange_us += clock.lap_us();
        }
        let next = batches.next().transpose()?;
        // The time of the iterator is not part of the backward pass.
        clock.restart();
        let gradients = match (&next, ranks.is_alone()) {
            (None, true) => {
                let mean = std::mem::take(&mut mean).into_mean(&model);
                Some(Gradients::of(mean, &model, settings, scaler))
            }
            // Several ranks exchange them first.
            _ => None,
        };
        let squares = gradients.as_ref().and_then(|gradients| gradients.square_sums.clone());
        let BatchNumbers { loss, parts, numbers, squares } =
            BatchTensors::new(losses, numbers, squares).read();
        score.add(&numbers, count);
        sums.add(loss, &parts, count);
        times.backward_us += clock.lap_us();
        if !loss.is_finite() && settings.non_finite != NonFinite::Ignore {
            let tensor = first_bad_tensor(&given, &target, &model, &output);
            let error = TrainError::NonFiniteLoss { step, loss, tensor };
            if !ranks.synchronizes() {
                break Err(error);
            }
            // Other ranks wait for this one in the passes of the batches that are left.
            bad.get_or_insert(error);
        }
        match (next, bad.take()) {
            (Some(next), first) => (batch, bad) = (next, first),
            (None, Some(error)) => break Err(error),
            (None, None) => break Ok((gradients, squares)),
        }
    };
    clock.restart();
    let (result, model) = if ranks.is_alone() {
        let own = result.map(|(gradients, squares)| {
            (gradients.expect("the last batch completes the gradients"), squares)
        });
        (own, model)
    } else {
        let bad = result.as_ref().err().and_then(non_finite_loss);
        let own = match result {
            Ok(_) => mean.into_mean(&model),
            Err(_) => GradientsParams::new(),
        };
        let has_gradient = has_gradient(&own, &model);
        let samples = sums.samples;
        let shares = ranks.exchange(StepShare { sums, score, bad, has_gradient, counts })?;
        times.rank_wait_us += clock.lap_us();
        (sums, score) = StepShare::merged(&shares);
        match StepShare::first_bad(&shares, step) {
            Some(bad) => (Err(bad), model),
            None => {
                ranks.check_synchronized(&model)?;
                let weight = samples as f64 / sums.samples as f64;
                let expected = StepShare::expected(&shares);
                let mean = ranks.mean(own, weight, &expected, &model)?;
                let counts = StepShare::counts(&shares);
                let model = ranks.merge_statistics(statistics.as_ref(), &counts, model)?;
                times.exchange_us += clock.lap_us();
                let gradients = Gradients::of(mean, &model, settings, scaler);
                let squares = gradients.square_sums.clone().map(|sums| read(vec![sums]));
                let squares = squares.and_then(|mut read| read.pop()).unwrap_or_default();
                (Ok((gradients, squares)), model)
            }
        }
    };
    times.backward_us += clock.lap_us();
    let update = result.and_then(|(gradients, squares)| {
        gradients.decide(&model, settings, scaler, &squares, step)
    });
    let (model, gradient_norm, skipped) = match tolerate(update, settings.non_finite)? {
        Update::Apply(gradients, norm) => {
            (optimizer.step(learning_rate, model, gradients), norm, None)
        }
        Update::Skip(why) => {
            let model = match before {
                Some(before) => before.restore(model),
                None => model,
            };
            (model, None, Some(why))
        }
    };
    times.optimizer_us += clock.lap_us();
    let samples = sums.samples;
    let mut means = sums.means();
    let loss = means.next().expect("an update has at least one batch");
    let parts = means.collect();
    Ok((model, StepOutcome { loss, parts, score, samples, gradient_norm, skipped, times }))
}

/// The batch that an update begins with.
pub(crate) fn first_batch<I, T>(batches: &mut dyn Iterator<Item = Placed<I, T>>) -> Placed<I, T> {
    batches.next().expect("an update has at least one batch")
}

/// The loss and the tensor of an error about a loss that is not finite.
fn non_finite_loss(error: &TrainError) -> Option<(Bits, String)> {
    match error {
        TrainError::NonFiniteLoss { loss, tensor, .. } => Some((Bits::of(*loss), tensor.clone())),
        _ => None,
    }
}

/// The mean gradients of an update, and the sums of squares that its norm is computed from.
pub(crate) struct Gradients {
    pub(crate) mean: GradientsParams,
    /// `None` where the norm is not needed.
    pub(crate) square_sums: Option<Tensor<1>>,
    needs_norm: bool,
}

impl Gradients {
    pub(crate) fn of<M: Module>(
        mean: GradientsParams,
        model: &M,
        settings: &StepSettings,
        scaler: &LossScaler,
    ) -> Self {
        let needs_norm = settings.non_finite != NonFinite::Ignore
            || settings.clip_norm.is_some()
            || !scaler.is_none();
        let square_sums = needs_norm.then(|| square_sums(&mean, model)).flatten();
        Self { mean, square_sums, needs_norm }
    }

    /// Gradients whose norm stays on the device.
    pub(crate) fn unmeasured(mean: GradientsParams) -> Self {
        Self { mean, square_sums: None, needs_norm: false }
    }

    /// Removes the loss scale and clips.
    fn decide<M: Module>(
        self,
        model: &M,
        settings: &StepSettings,
        scaler: &mut LossScaler,
        square_sums: &[f64],
        step: u64,
    ) -> Result<Update, TrainError> {
        if !self.needs_norm {
            return Ok(Update::Apply(self.mean, None));
        }
        let scale = scaler.scale();
        match scaler.unscale_measured(self.mean, model, settings.clip_norm, square_sums) {
            Ok(Unscaled::Update { gradients, norm }) => Ok(Update::Apply(gradients, Some(norm))),
            Ok(Unscaled::Skip { .. }) => Ok(Update::Skip(Skipped::Overflow { scale })),
            Err(cause) => Err(TrainError::Gradient { step, cause }),
        }
    }
}

/// What is done with the gradients.
enum Update {
    /// The optimizer uses them; with their norm, if it was computed.
    Apply(GradientsParams, Option<f64>),
    /// The update is skipped.
    Skip(Skipped),
}

/// Turns an error that the settings tolerate into a skipped update; a loss scale at its lower
/// bound is never tolerated.
fn tolerate(
    result: Result<Update, TrainError>,
    non_finite: NonFinite,
) -> Result<Update, TrainError> {
    match result {
        Err(TrainError::Gradient { cause: PrecisionError::TooManySkips { .. }, .. }) => result,
        Err(error) if non_finite.skips() => {
            let tensor = error.bad_tensor().unwrap_or_default();
            Ok(Update::Skip(Skipped::NotFinite { tensor }))
        }
        _ => result,
    }
}
