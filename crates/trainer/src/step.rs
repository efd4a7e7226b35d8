//! One update of the parameters: forward, loss, scale, backward, mean, unscale, clip, update.

use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Int, Tensor, Transaction};
use updraft_precision::{LossScaler, Policy, PrecisionError, Unscaled};

use crate::accumulate::GradientMean;
use crate::buffers::Buffers;
use crate::error::TrainError;
use crate::guard::{NonFinite, Skipped, first_bad_tensor};
use crate::loss::ClassLoss;
use crate::monitor::{PhaseClock, StepTimes, Timing};
use crate::passes::Passes;
use crate::target::Target;

/// What an update needs besides the model and the batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepSettings {
    /// The three dtypes of the computation.
    pub policy: Policy,
    /// The loss between logits and classes; other targets take the default.
    pub loss: ClassLoss,
    /// Share of each label spread over all classes, in `[0, 1)`; cross-entropy only.
    pub label_smoothing: f32,
    /// Largest global norm of the gradients; larger ones are scaled down to it.
    pub clip_norm: Option<f64>,
    /// What happens when a loss or a gradient is not finite.
    pub non_finite: NonFinite,
    /// When the phases' clock is read.
    pub timing: Timing,
}

/// f32, cross-entropy without smoothing, no clipping, and an error for what is not finite.
impl Default for StepSettings {
    fn default() -> Self {
        Self {
            policy: Policy::F32,
            loss: ClassLoss::default(),
            label_smoothing: 0.0,
            clip_norm: None,
            non_finite: NonFinite::default(),
            timing: Timing::default(),
        }
    }
}

/// What an update measured.
#[derive(Debug, Clone, PartialEq)]
pub struct StepOutcome {
    /// Mean loss over the samples, before the update.
    pub loss: f64,
    /// Samples classified correctly, before the update, where targets are classes.
    pub correct: Option<usize>,
    /// Samples of all batches.
    pub samples: usize,
    /// Global norm of the gradients before clipping; `None` where nobody asked for it.
    pub gradient_norm: Option<f64>,
    /// Why the update was left out, if it was.
    pub skipped: Option<Skipped>,
    /// Where the time went; the wait for data is not known here.
    pub times: StepTimes,
}

/// Runs one update on one batch, without a loss scale, and returns the updated model.
///
/// # Shapes
/// - the input: what `forward` takes, samples first
/// - classes: `[batch]`, each below their number; `forward` returns logits `[batch, classes]`
/// - or values: `[batch, values]`; `forward` returns as many
///
/// # Errors
/// [`TrainError::NonFiniteLoss`] and [`TrainError::Gradient`]; the model is gone then, so the
/// caller goes back to its last checkpoint. [`TrainError::Setting`] for a loss or smoothing of
/// classes where targets are values.
///
/// # Panics
/// If targets are values and the outputs have not their shape.
pub fn train_step<M: Module, const D: usize, T: Into<Target>>(
    model: M,
    optimizer: &mut ModuleOptimizer,
    forward: &dyn Fn(&M, Tensor<D>) -> Tensor<2>,
    batch: (Tensor<D>, T),
    settings: &StepSettings,
    at: (u64, f64),
) -> Result<(M, StepOutcome), TrainError> {
    let (step, learning_rate) = at;
    train_step_accumulated(
        model,
        optimizer,
        &mut LossScaler::none(),
        Passes::whole(forward),
        &mut [batch].into_iter(),
        settings,
        StepAt { step, learning_rate, seed: 0 },
    )
}

/// Which update it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepAt {
    /// Updates before this one.
    pub step: u64,
    /// Its learning rate.
    pub learning_rate: f64,
    /// Seeds the random numbers of [`Passes::segments`]; without segments nobody reads it.
    pub seed: u64,
}

/// Runs one update on the mean gradient of several batches and returns the updated model.
///
/// Each batch is taken from the iterator when the one before is done with, so that only one has to
/// be on the device. Without batch norms, `k` batches of `b` samples make the same update as one of
/// `k·b`.
///
/// The loss is multiplied by the scaler's factor and the mean gradient divided by it, in f32. Under
/// a dynamic scale an update whose gradients overflow is left out: parameters, optimizer state and
/// running statistics are then as before, bit for bit. A loss that is not finite before scaling is
/// no matter of the scale, and goes to `settings.non_finite`.
///
/// # Shapes
/// As [`train_step`], for each batch.
///
/// # Errors
/// As [`train_step`].
///
/// # Panics
/// If there is no batch, and as [`train_step`].
pub fn train_step_accumulated<M: Module, const D: usize, T: Into<Target>>(
    model: M,
    optimizer: &mut ModuleOptimizer,
    scaler: &mut LossScaler,
    passes: Passes<'_, M, D>,
    batches: &mut dyn Iterator<Item = (Tensor<D>, T)>,
    settings: &StepSettings,
    StepAt { step, learning_rate, seed }: StepAt,
) -> Result<(M, StepOutcome), TrainError> {
    let is_taken_back = scaler.is_dynamic() || settings.non_finite.skips();
    let before = is_taken_back.then(|| Buffers::of(&model));
    let mut times = StepTimes::default();
    let mut mean = GradientMean::default();
    let mut losses = Vec::with_capacity(1);
    let mut correct: Option<usize> = None;
    let mut device = None;
    let mut bad = None;
    for (given, target) in batches {
        let target: Target = target.into();
        target.check(settings)?;
        let device = device.insert(given.device());
        let mut clock = PhaseClock::start(device, settings.timing);
        let count = target.samples();
        let mut scored = None;
        let mut score = |outputs: Tensor<2>| {
            let outputs = outputs.cast(settings.policy.output);
            let (loss, right) = target.hold(&outputs, settings);
            // One read for both numbers: each read waits for the device.
            let mut read = Transaction::default().register(loss.clone().inner());
            if let Some(right) = right {
                read = read.register(right.inner());
            }
            let read = read.execute();
            let numbers: Vec<f64> = read.iter().flat_map(|one| one.iter::<f64>()).collect();
            times.forward_us += clock.lap_us();
            let right = numbers.get(1).map(|&right| right as usize);
            scored = Some((numbers[0], right, outputs));
            scaler.scale_loss(loss)
        };
        let input = given.clone().cast(settings.policy.compute);
        let found = match passes.segments {
            None => Found::Objective(score((passes.forward)(&model, input))),
            Some(segments) => {
                let seed = batch_seed(seed, losses.len());
                Found::Gradients(segments.backward(&model, input, &mut score, seed))
            }
        };
        let (loss, right, outputs) = scored.expect("the pass hands its outputs to the loss");
        losses.push((loss, count));
        if let Some(right) = right {
            *correct.get_or_insert(0) += right;
        }
        if !loss.is_finite() && settings.non_finite != NonFinite::Ignore {
            let tensor = first_bad_tensor(&given, &target, &model, &outputs);
            bad = Some(TrainError::NonFiniteLoss { step, loss, tensor });
            break;
        }
        let gradients = match found {
            Found::Objective(loss) => GradientsParams::from_grads(loss.backward(), &model),
            Found::Gradients(gradients) => gradients,
        };
        mean.add(gradients, count, &model);
        times.backward_us += clock.lap_us();
    }
    let device = device.expect("an update has at least one batch");
    let mut clock = PhaseClock::start(&device, settings.timing);
    let verdict = match bad {
        Some(error) => Err(error),
        None => unscaled(mean.into_mean(&model), &model, settings, scaler, step),
    };
    let (model, gradient_norm, skipped) = match borne(verdict, settings.non_finite)? {
        Verdict::Update(gradients, norm) => {
            (optimizer.step(learning_rate, model, gradients), norm, None)
        }
        Verdict::Skip(why) => {
            let model = match before {
                Some(before) => before.restore(model),
                None => model,
            };
            (model, None, Some(why))
        }
    };
    times.optimizer_us += clock.lap_us();
    let samples = losses.iter().map(|(_, count)| count).sum();
    let loss = match losses[..] {
        // One batch's mean is its own loss, to the last bit.
        [(loss, _)] => loss,
        _ => losses.iter().map(|(loss, n)| loss * *n as f64).sum::<f64>() / samples as f64,
    };
    Ok((model, StepOutcome { loss, correct, samples, gradient_norm, skipped, times }))
}

/// What a pass leaves: a whole one has its backward pass before it, one in segments is through.
#[allow(clippy::large_enum_variant, reason = "there is one at a time, taken apart at once")]
enum Found {
    Objective(Tensor<1>),
    Gradients(GradientsParams),
}

/// A seed for each batch of an update; that of the first is the update's own.
fn batch_seed(seed: u64, batch: usize) -> u64 {
    // The odd constant of L'Ecuyer 1999, table 4: another than the one that keeps segments apart.
    seed.wrapping_add((batch as u64).wrapping_mul(0x27BB_2EE6_87B0_B0FD))
}

/// How many logits are largest at their label, of shape `[1]`.
///
/// The count is a float tensor: batches stay far below 2²⁴ samples, where `f32` counts exactly.
pub(crate) fn correct_predictions(logits: &Tensor<2>, labels: &Tensor<1, Int>) -> Tensor<1> {
    let predicted = logits.clone().argmax(1).flatten::<1>(0, 1);
    predicted.equal(labels.clone()).float().sum()
}

/// What becomes of an update.
enum Verdict {
    /// It is made with these gradients, whose norm is known if anybody asked for it.
    Update(GradientsParams, Option<f64>),
    /// It is left out.
    Skip(Skipped),
}

/// The gradients without the loss scale, clipped if asked for.
fn unscaled<M: Module>(
    gradients: GradientsParams,
    model: &M,
    settings: &StepSettings,
    scaler: &mut LossScaler,
    step: u64,
) -> Result<Verdict, TrainError> {
    let nobody_looks = settings.non_finite == NonFinite::Ignore && settings.clip_norm.is_none();
    if nobody_looks && scaler.is_none() {
        return Ok(Verdict::Update(gradients, None));
    }
    let scale = scaler.scale();
    match scaler.unscale(gradients, model, settings.clip_norm) {
        Ok(Unscaled::Update { gradients, norm }) => Ok(Verdict::Update(gradients, Some(norm))),
        Ok(Unscaled::Skip { .. }) => Ok(Verdict::Skip(Skipped::Overflow { scale })),
        Err(source) => Err(TrainError::Gradient { step, source }),
    }
}

/// An error that the settings bear leaves the update out; a scale at its end they do not.
fn borne(
    verdict: Result<Verdict, TrainError>,
    non_finite: NonFinite,
) -> Result<Verdict, TrainError> {
    match verdict {
        Err(TrainError::Gradient { source: PrecisionError::TooManySkips { .. }, .. }) => verdict,
        Err(error) if non_finite.skips() => {
            let tensor = error.bad_tensor().unwrap_or_default();
            Ok(Verdict::Skip(Skipped::NotFinite { tensor }))
        }
        _ => verdict,
    }
}
