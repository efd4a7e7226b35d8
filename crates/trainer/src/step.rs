//! One update of the parameters: forward, loss, backward, mean, clip, update.

use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Int, Tensor};
use updraft_precision::{Policy, clip_global_norm};

use crate::accumulate::GradientMean;
use crate::buffers::Buffers;
use crate::error::TrainError;
use crate::guard::{NonFinite, first_bad_tensor};
use crate::loss::ClassLoss;
use crate::monitor::{PhaseClock, StepTimes, Timing};

/// What an update needs besides the model and the batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepSettings {
    /// The three dtypes of the computation.
    pub policy: Policy,
    /// The loss between logits and labels.
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
    /// Samples classified correctly, before the update.
    pub correct: usize,
    /// Samples of all batches.
    pub samples: usize,
    /// Global norm of the gradients before clipping; `None` where nobody asked for it.
    pub gradient_norm: Option<f64>,
    /// The first bad tensor of an update that was left out.
    pub skipped: Option<String>,
    /// Where the time went; the wait for data is not known here.
    pub times: StepTimes,
}

/// Runs one update on one batch and returns the updated model.
///
/// # Shapes
/// - `images`: `[batch, channels, height, width]`
/// - `labels`: `[batch]`, each below the number of classes
/// - `forward` returns logits `[batch, classes]`
///
/// # Errors
/// [`TrainError::NonFiniteLoss`] and [`TrainError::Gradient`]; the model is gone then, so the
/// caller goes back to its last checkpoint.
pub fn train_step<M: Module>(
    model: M,
    optimizer: &mut ModuleOptimizer,
    forward: &dyn Fn(&M, Tensor<4>) -> Tensor<2>,
    batch: (Tensor<4>, Tensor<1, Int>),
    settings: &StepSettings,
    at: (u64, f64),
) -> Result<(M, StepOutcome), TrainError> {
    train_step_accumulated(model, optimizer, forward, &mut [batch].into_iter(), settings, at)
}

/// Runs one update on the mean gradient of several batches and returns the updated model.
///
/// Each batch is taken from the iterator when the one before is done with, so that only one has
/// to be on the device. `at` is the step, counted from 0, and its learning rate. Without batch
/// norms, `k` batches of `b` samples make the same update as one of `k·b`.
///
/// # Shapes
/// As [`train_step`], for each batch.
///
/// # Errors
/// As [`train_step`].
///
/// # Panics
/// If there is no batch.
pub fn train_step_accumulated<M: Module>(
    model: M,
    optimizer: &mut ModuleOptimizer,
    forward: &dyn Fn(&M, Tensor<4>) -> Tensor<2>,
    batches: &mut dyn Iterator<Item = (Tensor<4>, Tensor<1, Int>)>,
    settings: &StepSettings,
    (step, learning_rate): (u64, f64),
) -> Result<(M, StepOutcome), TrainError> {
    let before = matches!(settings.non_finite, NonFinite::Skip { .. }).then(|| Buffers::of(&model));
    let mut times = StepTimes::default();
    let mut mean = GradientMean::default();
    let mut losses = Vec::with_capacity(1);
    let mut correct = 0;
    let mut device = None;
    let mut bad = None;
    for (images, labels) in batches {
        let device = device.insert(images.device());
        let mut clock = PhaseClock::start(device, settings.timing);
        let [count] = labels.dims();
        let logits = forward(&model, images.clone().cast(settings.policy.compute));
        let logits = logits.cast(settings.policy.output);
        let right = correct_predictions(&logits, &labels);
        let loss = settings.loss.forward(logits.clone(), labels, settings.label_smoothing);
        // One read for both numbers: each read waits for the device.
        let numbers = Tensor::cat(vec![loss.clone().inner(), right.inner()], 0).into_data();
        let numbers: Vec<f64> = numbers.iter::<f64>().collect();
        times.forward_us += clock.lap_us();
        losses.push((numbers[0], count));
        correct += numbers[1] as usize;
        if !numbers[0].is_finite() && settings.non_finite != NonFinite::Ignore {
            let tensor = first_bad_tensor(&images, &model, &logits);
            bad = Some(TrainError::NonFiniteLoss { step, loss: numbers[0], tensor });
            break;
        }
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        mean.add(gradients, count, &model);
        times.backward_us += clock.lap_us();
    }
    let device = device.expect("an update has at least one batch");
    let mut clock = PhaseClock::start(&device, settings.timing);
    let updated = match bad {
        Some(error) => Err(error),
        None => clipped(mean.into_mean(&model), &model, settings, step),
    };
    let (model, gradient_norm, skipped) = match (updated, before) {
        (Ok((gradients, norm)), _) => (optimizer.step(learning_rate, model, gradients), norm, None),
        (Err(error), Some(before)) => {
            (before.restore(model), None, Some(error.bad_tensor().unwrap_or_default()))
        }
        (Err(error), None) => return Err(error),
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

/// How many logits are largest at their label, of shape `[1]`.
///
/// The count is a float tensor: batches stay far below 2²⁴ samples, where `f32` counts exactly.
pub(crate) fn correct_predictions(logits: &Tensor<2>, labels: &Tensor<1, Int>) -> Tensor<1> {
    let predicted = logits.clone().argmax(1).flatten::<1>(0, 1);
    predicted.equal(labels.clone()).float().sum()
}

/// The gradients, clipped if asked for, with their norm if anybody looks at it.
fn clipped<M: Module>(
    gradients: GradientsParams,
    model: &M,
    settings: &StepSettings,
    step: u64,
) -> Result<(GradientsParams, Option<f64>), TrainError> {
    if settings.non_finite == NonFinite::Ignore && settings.clip_norm.is_none() {
        return Ok((gradients, None));
    }
    clip_global_norm(gradients, model, settings.clip_norm)
        .map(|(gradients, norm)| (gradients, Some(norm)))
        .map_err(|source| TrainError::Gradient { step, source })
}
