//! A model's score on a data set.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use updraft_data::{Collate, DataError, Loader};
use updraft_precision::Policy;

use crate::events::{Control, Evaluation};
use crate::step::StepSettings;
use crate::target::{Target, TrainBatch};

/// Scores a model on every sample of a loader's first epoch.
///
/// `model` is a validation snapshot ([`Module::valid`]) on `device`, which carries no autodiff.
/// Samples that a loader mixed are held to their shares, and count as their own class.
/// `None` when `poll`, asked after each batch with the samples scored so far, wants to stop.
///
/// # Errors
/// What the loader reports.
///
/// # Panics
/// As [`TrainBatch::into_tensors`], and if targets are values and the outputs have not their shape.
pub fn evaluate<M: Module, C: Collate, const D: usize>(
    model: &M,
    forward: &dyn Fn(&M, Tensor<D>) -> Tensor<2>,
    loader: &Loader<C>,
    device: &Device,
    policy: Policy,
    poll: &mut dyn FnMut(usize) -> Control,
) -> Result<Option<Evaluation>, DataError>
where
    C::Batch: TrainBatch<D>,
{
    let mut sums = Sums::default();
    for batch in loader.epoch(0) {
        let (input, target) = batch?.into_tensors(device);
        let outputs = forward(model, input.cast(policy.compute)).cast(policy.output);
        sums.add(outputs, target);
        if poll(sums.samples) == Control::Stop {
            return Ok(None);
        }
    }
    Ok(Some(sums.evaluation()))
}

/// What a score is made of.
#[derive(Default)]
struct Sums {
    loss: f64,
    samples: usize,
    /// Samples classified correctly, where there are classes.
    correct: Option<f64>,
    /// One an output, where there are values.
    deviations: Vec<Deviations>,
}

impl Sums {
    fn add(&mut self, outputs: Tensor<2>, target: Target) {
        let samples = target.samples();
        self.samples += samples;
        match target {
            Target::Classes(_) | Target::Mixed(_) => {
                let (loss, correct) = target.hold(&outputs, &StepSettings::default());
                // Both numbers by one read, as each waits for the device.
                let numbers = Tensor::cat([Some(loss), correct].into_iter().flatten().collect(), 0);
                let numbers: Vec<f64> = numbers.into_data().iter().collect();
                self.loss += numbers[0] * samples as f64;
                *self.correct.get_or_insert(0.0) += numbers[1];
            }
            Target::Values(values) => {
                assert_eq!(outputs.dims(), values.dims(), "outputs and values have one shape");
                let width = values.dims()[1];
                self.deviations.resize_with(width, Deviations::default);
                let (outputs, values) = (outputs.into_data(), values.into_data());
                let pairs = outputs.iter::<f64>().zip(values.iter::<f64>());
                for (at, (output, value)) in pairs.enumerate() {
                    self.deviations[at % width].add(output, value);
                    self.loss += (output - value).powi(2) / width as f64;
                }
            }
        }
    }

    fn evaluation(&self) -> Evaluation {
        let total = self.samples.max(1) as f64;
        let each = self.deviations.iter().map(Deviations::r_squared);
        let each: Option<Vec<f64>> = each.collect();
        let each = each.filter(|each| !each.is_empty());
        Evaluation {
            loss: self.loss / total,
            accuracy: self.correct.map(|correct| correct / total),
            r_squared: each.map(|each| each.iter().sum::<f64>() / each.len() as f64),
            samples: self.samples,
        }
    }
}

/// How far one output's values are from their mean and from the output.
#[derive(Default)]
struct Deviations {
    /// The first value, which the others are measured from: sums of squares of what is far from 0
    /// lose the digits that tell values apart.
    first: Option<f64>,
    count: f64,
    sum: f64,
    squares: f64,
    errors: f64,
}

impl Deviations {
    fn add(&mut self, output: f64, value: f64) {
        let away = value - *self.first.get_or_insert(value);
        self.count += 1.0;
        self.sum += away;
        self.squares += away * away;
        self.errors += (output - value).powi(2);
    }

    /// `None` where the values do not differ.
    fn r_squared(&self) -> Option<f64> {
        let total = self.squares - self.sum * self.sum / self.count;
        (total > 0.0).then(|| 1.0 - self.errors / total)
    }
}
