//! One update of the parameters: forward, loss, backward, clip, update.

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Int, Tensor};
use updraft_precision::{Policy, clip_global_norm};

use crate::error::TrainError;

/// What an update needs besides the model and the batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepSettings {
    /// The three dtypes of the computation.
    pub policy: Policy,
    /// Share of each label spread over all classes, in `[0, 1)`.
    pub label_smoothing: f32,
    /// Largest global norm of the gradients; larger ones are scaled down to it.
    pub clip_norm: Option<f64>,
}

/// What an update measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepOutcome {
    /// Mean loss of the batch, before the update.
    pub loss: f64,
    /// Samples of the batch classified correctly, before the update.
    pub correct: usize,
    /// Global norm of the gradients, before clipping.
    pub gradient_norm: f64,
}

/// Runs one update and returns the updated model.
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
    (images, labels): (Tensor<4>, Tensor<1, Int>),
    settings: &StepSettings,
    (step, learning_rate): (u64, f64),
) -> Result<(M, StepOutcome), TrainError> {
    let logits = forward(&model, images.cast(settings.policy.compute));
    let logits = logits.cast(settings.policy.output);
    let (loss, correct) = cross_entropy(logits, labels, settings.label_smoothing);
    // One read for both numbers: each read waits for the device.
    let numbers = Tensor::cat(vec![loss.clone().inner(), correct.inner()], 0).into_data();
    let numbers: Vec<f64> = numbers.iter::<f64>().collect();
    let value = numbers[0];
    if !value.is_finite() {
        return Err(TrainError::NonFiniteLoss { step, loss: value });
    }
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    let (gradients, gradient_norm) = clip_global_norm(gradients, &model, settings.clip_norm)
        .map_err(|source| TrainError::Gradient { step, source })?;
    let model = optimizer.step(learning_rate, model, gradients);
    Ok((model, StepOutcome { loss: value, correct: numbers[1] as usize, gradient_norm }))
}

/// Mean cross-entropy and the number of correct predictions, both of shape `[1]`.
///
/// The count is a float tensor: batches stay far below 2²⁴ samples, where `f32` counts exactly.
pub(crate) fn cross_entropy(
    logits: Tensor<2>,
    labels: Tensor<1, Int>,
    smoothing: f32,
) -> (Tensor<1>, Tensor<1>) {
    let predicted = logits.clone().argmax(1).flatten::<1>(0, 1);
    let correct = predicted.equal(labels.clone()).float().sum();
    let smoothing = (smoothing > 0.0).then_some(smoothing);
    let loss = CrossEntropyLossConfig::new()
        .with_smoothing(smoothing)
        .init(&logits.device())
        .forward(logits, labels);
    (loss, correct)
}
