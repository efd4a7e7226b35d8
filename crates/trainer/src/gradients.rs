//! The loss and the gradients of one batch, to compare ways to compute them.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{FloatDType, Tensor};

use crate::error::TrainError;
use crate::freeze::Freeze;
use crate::step::StepSettings;
use crate::task::{Mode, StepContext, Task};
use crate::tensors::Tensors;

/// The loss and the gradients of one batch.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchGradients {
    /// The mean loss over the samples.
    pub loss: f64,
    /// The gradients of all parameters in f32, in the order of the model's modules; parameters
    /// without one, or frozen in the first epoch, are left out.
    pub gradients: Vec<f32>,
}

/// Computes the loss and the gradients of a batch as a training step does, in the dtypes of
/// `settings.policy` and in segments if `settings.in_segments`, without a loss scale.
///
/// The model is not changed, except for the running statistics of batch norms. Reads the device:
/// for comparing results, not for training.
///
/// # Errors
/// [`TrainError::Setting`] for a task without segments, if they are asked for.
///
/// # Panics
/// As the task.
pub fn batch_gradients<M: Module, T: Task<M>>(
    task: &T,
    model: &M,
    (input, target): (T::Input, T::Target),
    settings: &StepSettings,
    seed: u64,
) -> Result<BatchGradients, TrainError> {
    let context = StepContext { mode: Mode::Training, epoch: 0, step: 0, seed };
    let mut loss = f64::NAN;
    let mut head = |output: T::Output| {
        let output = output.cast_floats(settings.policy.output);
        let total = task.loss(&output, &target).total;
        let read = total.clone().without_autodiff().into_data();
        loss = read.iter().next().unwrap_or(f64::NAN);
        total
    };
    let input = input.cast_floats(settings.policy.compute);
    let segments = settings.in_segments.then(|| task.segments()).transpose();
    let segments = segments.map_err(TrainError::without_segments)?;
    let mut gradients = settings.policy.scope(|| match segments {
        None => {
            let loss = head(task.forward(model, input, &context));
            GradientsParams::from_grads(loss.backward(), model)
        }
        Some(segments) => segments.backward(model, input, &mut head, seed),
    });
    Freeze::drop_gradients(&settings.freeze, context.epoch, model, &mut gradients);
    let mut read = Read { gradients: &gradients, numbers: Vec::new() };
    model.visit(&mut read);
    let gradients = read.numbers;
    Ok(BatchGradients { loss, gradients })
}

struct Read<'a> {
    gradients: &'a GradientsParams,
    numbers: Vec<f32>,
}

impl ModuleVisitor for Read<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
            self.numbers.extend(gradient.cast(FloatDType::F32).into_data().iter::<f32>());
        }
    }
}
