//! Two updates and an evaluation on example data, to measure memory and to warm up a device.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use updraft_device::clean_up;
use updraft_precision::LossScaler;

use crate::bn_recompute::recompute_batch_norms;
use crate::ema::Ema;
use crate::error::TrainError;
use crate::events::Control;
use crate::settings::{BatchNormStatistics, RunSettings};
use crate::step::{StepAt, train_step_accumulated};
use crate::task::{Mode, StepContext, Task};
use crate::tensors::Tensors;

/// Trains two steps on example data and evaluates one batch; returns the time of each step.
///
/// The first step creates the optimizer's state, the second uses it. Everything that takes memory
/// in such a run is included: several batches per update, a batch that is moved ahead, the moving
/// average, recomputed batch norms.
///
/// Before, the device gets back what its allocator keeps of earlier work, such as the rehearsal of
/// another size; after it, what the allocator has reserved is what this one took.
///
/// # Errors
/// As [`train_step_accumulated`].
///
/// # Panics
/// As the task, and where the device runs out of memory.
pub fn rehearse<M: Module, T: Task<M>>(
    task: &T,
    mut model: M,
    mut optimizer: ModuleOptimizer,
    settings: &RunSettings,
    batch: usize,
    device: &Device,
) -> Result<[Duration; 2], TrainError> {
    // An error of the device is reported at the next read of a tensor.
    let _ = clean_up(device);
    let mut scaler = LossScaler::try_new(settings.loss_scale)?;
    let mut average = settings.ema.map(|config| Ema::new(config, &model));
    let mut took = [Duration::ZERO; 2];
    for (step, took) in (0..).zip(&mut took) {
        let started = Instant::now();
        let ahead = settings.transfer.is_ahead(device).then(|| task.example(batch, device));
        // A run takes all batches of an update from the stream before it moves the first one.
        let loaded: Vec<_> =
            (0..settings.accumulate).map(|_| task.example(batch, device)).collect();
        let mut batches = loaded.into_iter().map(Ok);
        let at = StepAt { epoch: 0, step, learning_rate: 1e-6, seed: settings.seed };
        (model, _) = train_step_accumulated(
            task,
            model,
            &mut optimizer,
            &mut scaler,
            &mut batches,
            &settings.step,
            at,
        )?;
        if let Some(average) = &mut average {
            average.update(&model);
        }
        let _ = device.sync();
        drop(ahead);
        *took = started.elapsed();
    }
    let policy = settings.step.policy;
    let (input, target) = task.example(batch, device);
    let input = input.cast_floats(policy.compute);
    let mut served = average.as_ref().map_or_else(|| model.valid(), |kept| kept.average().clone());
    if settings.batch_norm != BatchNormStatistics::Running {
        let samples = task.samples(&target);
        let mut batches = std::iter::once(Ok::<_, Infallible>((input.clone(), samples)));
        let context = StepContext { mode: Mode::Training, epoch: 0, step: 2, seed: settings.seed };
        let forward =
            |model: &M, input| drop(policy.scope(|| task.forward(model, input, &context)));
        let recomputed =
            recompute_batch_norms(&served, &forward, &mut batches, &mut |_| Control::Continue);
        match recomputed {
            Ok(recomputed) => served = recomputed.unwrap_or(served),
            Err(impossible) => match impossible {},
        }
    }
    let input = input.without_graph();
    let output = policy.scope(|| task.forward(&served, input, &StepContext::evaluation()));
    let losses = task.loss(&output.cast_floats(policy.output), &target.without_graph());
    let _ = losses.total.into_data();
    Ok(took)
}
