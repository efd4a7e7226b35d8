//! The forward and backward pass of one batch.

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use crate::error::TrainError;
use crate::freeze::Freeze;
use crate::monitor::{PhaseClock, StepTimes};
use crate::segments::SegmentedPass;
use crate::step::{StepAt, StepSettings};
use crate::task::{Losses, Mode, StepContext, Task};
use crate::tensors::Tensors;

/// The passes of an update: one for each of its batches.
pub(crate) struct BatchPass<'a, M, T: Task<M>> {
    task: &'a T,
    settings: &'a StepSettings,
    at: StepAt,
    segments: Option<&'a dyn SegmentedPass<M, T::Input, T::Output>>,
    /// Batches so far.
    index: usize,
}

/// What a pass leaves on the device.
pub(crate) struct Passed<O> {
    pub(crate) gradients: GradientsParams,
    pub(crate) losses: Losses,
    pub(crate) output: O,
    /// The numbers of [`Task::measure_in_training`].
    pub(crate) numbers: Option<Tensor<1>>,
}

impl<'a, M: Module, T: Task<M>> BatchPass<'a, M, T> {
    /// No batch yet.
    ///
    /// # Errors
    /// If the task has no segments and the settings ask for them.
    pub(crate) fn new(
        task: &'a T,
        settings: &'a StepSettings,
        at: StepAt,
    ) -> Result<Self, TrainError> {
        let segments = settings.in_segments.then(|| task.segments()).transpose();
        let segments = segments.map_err(TrainError::without_segments)?;
        Ok(Self { task, settings, at, segments, index: 0 })
    }

    fn context(&self) -> StepContext {
        let StepAt { epoch, step, seed, .. } = self.at;
        StepContext { mode: Mode::Training, epoch, step, seed }
    }

    /// The model after [`Task::before_update`]; `batch` is the update's first.
    pub(crate) fn prepare(&self, model: M, batch: (&T::Input, &T::Target)) -> M {
        let (context, policy) = (self.context(), self.settings.policy);
        policy.scope(|| self.task.before_update(model, batch, (&context, policy)))
    }

    /// Submits both passes of the next batch; nothing is read. `scale` multiplies the loss by the
    /// loss scale.
    pub(crate) fn run(
        &mut self,
        model: &M,
        (input, target): (&T::Input, &T::Target),
        scale: &dyn Fn(Tensor<1>) -> Tensor<1>,
        clock: &mut PhaseClock<'_>,
        times: &mut StepTimes,
    ) -> Passed<T::Output> {
        let (task, settings) = (self.task, self.settings);
        let StepAt { epoch, seed, .. } = self.at;
        let context = self.context();
        let mut measured = None;
        let mut head = |output: T::Output| {
            let output = output.cast_floats(settings.policy.output);
            let losses = task.loss(&output, target);
            times.forward_us += clock.lap_us();
            let scaled = scale(losses.total.clone());
            measured = Some((losses, output));
            scaled
        };
        let input = input.clone().cast_floats(settings.policy.compute);
        let mut gradients = settings.policy.scope(|| match self.segments {
            None => {
                let loss = head(task.forward(model, input, &context));
                GradientsParams::from_grads(loss.backward(), model)
            }
            Some(segments) => {
                let seed = batch_seed(seed, self.index);
                segments.backward(model, input, &mut head, seed)
            }
        });
        self.index += 1;
        Freeze::drop_gradients(&settings.freeze, epoch, model, &mut gradients);
        let (losses, output) = measured.expect("the pass hands its output to the loss");
        let numbers = task
            .measure_in_training(&output.clone().without_graph(), &target.clone().without_graph());
        Passed { gradients, losses, output, numbers }
    }
}

/// A seed for each batch of an update; that of the first is the update's own.
fn batch_seed(seed: u64, batch: usize) -> u64 {
    // The odd constant of L'Ecuyer 1999, table 4: different from the one that separates segments.
    seed.wrapping_add((batch as u64).wrapping_mul(0x27BB_2EE6_87B0_B0FD))
}
