//! A model's score on a data set.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use updraft_data::{DataError, Loader};
use updraft_precision::Policy;

use crate::events::{Control, Evaluation};
use crate::loss::cross_entropy;
use crate::step::correct_predictions;

/// Scores a model on every sample of a loader's first epoch.
///
/// `model` is a validation snapshot ([`Module::valid`]) on `device`, which carries no autodiff.
/// `None` when `poll`, asked after each batch with the samples scored so far, wants to stop.
///
/// # Errors
/// What the loader reports.
pub fn evaluate<M: Module>(
    model: &M,
    forward: &dyn Fn(&M, Tensor<4>) -> Tensor<2>,
    loader: &Loader,
    device: &Device,
    policy: Policy,
    poll: &mut dyn FnMut(usize) -> Control,
) -> Result<Option<Evaluation>, DataError> {
    let (mut loss_sum, mut correct_sum, mut samples) = (0.0, 0.0, 0);
    for batch in loader.epoch(0) {
        let (images, labels) = batch?.to_device(device);
        let [count] = labels.dims();
        let logits = forward(model, images.cast(policy.compute)).cast(policy.output);
        let correct = correct_predictions(&logits, &labels);
        let loss = cross_entropy(logits, labels, 0.0);
        let numbers: Vec<f64> = Tensor::cat(vec![loss, correct], 0).into_data().iter().collect();
        loss_sum += numbers[0] * count as f64;
        correct_sum += numbers[1];
        samples += count;
        if poll(samples) == Control::Stop {
            return Ok(None);
        }
    }
    let total = samples.max(1) as f64;
    Ok(Some(Evaluation { loss: loss_sum / total, accuracy: correct_sum / total, samples }))
}
