//! The network as a plan trains it: on which kind of device, whole or in segments, and on noise.

use std::convert::Infallible;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use burn::module::Module;
use burn::tensor::{Device, Distribution, Int, Tensor, TensorData};
use updraft_precision::LossScaler;
use updraft_trainer::{
    BatchNormStatistics, Control, Ema, Passes, Segments, StepAt, Transfer, recompute_batch_norms,
    train_step_accumulated,
};

use crate::classifier::{Classifier, Flow};
use crate::config::{Plan, RecomputePlan};

/// The device with autodiff, and with burn's own strategy where the plan asks for it.
pub(crate) fn training_device(plan: &Plan, device: Device) -> Device {
    match plan.train.recompute {
        RecomputePlan::ElementWise => device.autodiff().gradient_checkpointing(),
        RecomputePlan::None | RecomputePlan::Segments => device.autodiff(),
    }
}

/// The network cut where maps flow from stage to stage, or from block to block.
pub(crate) fn segments(network: &Classifier) -> Segments<'static, Classifier, Flow> {
    Segments {
        count: network.segments(),
        enter: &|network: &Classifier, images| network.enter(images),
        segment: &|network: &Classifier, index, flow| network.segment(index, flow),
        leave: &|network: &Classifier, flow| network.leave(flow),
    }
}

/// How the plan runs the network.
pub(crate) fn passes<'a>(
    plan: &Plan,
    segments: &'a Segments<'a, Classifier, Flow>,
) -> Passes<'a, Classifier> {
    Passes {
        forward: &|network: &Classifier, images| network.forward(images),
        segments: match plan.train.recompute {
            RecomputePlan::Segments => Some(segments),
            RecomputePlan::None | RecomputePlan::ElementWise => None,
        },
        // The normalizations of `updraft-conv` compute in f32 by themselves.
        is_cast: &|_| true,
    }
}

/// Trains two steps on batches of noise and ends an epoch on one; how long each step took.
///
/// The first step makes the optimizer's state, the second has it. All that the plan holds in memory
/// beside it takes part: several batches an update, one that is moved ahead, the moving average,
/// recomputed batch norms.
pub(crate) fn train_on_noise(
    plan: &Plan,
    device: &Device,
    classes: usize,
    batch: usize,
) -> Result<[Duration; 2]> {
    device.seed(plan.seed);
    let network = plan.network(classes);
    network.validate()?;
    let mut model = plan.precision.autocast(network.init(device));
    let mut optimizer = plan.train.optimizer.init();
    let settings = plan.settings(Path::new(""));
    let mut scaler = LossScaler::try_new(settings.loss_scale)?;
    let segments = segments(&model);
    let shape = [batch, 3, plan.data.height, plan.data.width];
    let noise = Tensor::<4>::random(shape, Distribution::Default, device);
    let pixels: Vec<f32> = noise.into_data().iter().collect();
    let images = || Tensor::<4>::from_data(TensorData::new(pixels.clone(), shape), device);
    let labels = Tensor::<1, Int>::zeros([batch], device);
    let mut average = settings.ema.map(|config| Ema::new(config, &model));
    let mut took = [Duration::ZERO; 2];
    for (step, took) in (0..).zip(&mut took) {
        let started = Instant::now();
        // A run has all batches of an update from the loader before it moves the first one.
        let loaded = vec![pixels.clone(); settings.accumulate];
        let ahead = (settings.transfer == Transfer::Ahead).then(&images);
        let mut batches = loaded.into_iter().map(|pixels| {
            (Tensor::from_data(TensorData::new(pixels, shape), device), labels.clone())
        });
        let at = StepAt { step, learning_rate: 1e-6, seed: plan.seed };
        (model, _) = train_step_accumulated(
            model,
            &mut optimizer,
            &mut scaler,
            passes(plan, &segments),
            &mut batches,
            &settings.step,
            at,
        )?;
        if let Some(average) = &mut average {
            average.update(&model);
        }
        device.sync()?;
        drop(ahead);
        *took = started.elapsed();
    }
    let images = images().cast(plan.precision.compute);
    let mut served = average.as_ref().map_or_else(|| model.valid(), |kept| kept.average().clone());
    if settings.batch_norm != BatchNormStatistics::Running {
        let mut batches = std::iter::once(Ok::<_, Infallible>(images.clone()));
        let forward = passes(plan, &segments).forward;
        let recomputed =
            recompute_batch_norms(&served, forward, &mut batches, &mut |_| Control::Continue);
        match recomputed {
            Ok(recomputed) => served = recomputed.unwrap_or(served),
            Err(impossible) => match impossible {},
        }
    }
    let _ = served.forward(images.without_autodiff()).into_data();
    Ok(took)
}
