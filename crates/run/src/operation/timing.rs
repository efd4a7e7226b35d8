//! The time of training steps and of forward passes on a workload's own batches.

use std::path::Path;
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::tensor::Device;
use updraft_distributed::{Alone, Shared, Unconnected};
use updraft_precision::LossScaler;
use updraft_trainer::{
    BatchStream, EpochStream, Mode, StepAt, StepContext, StepTimes, Task, Tensors, TrainError,
    train_step_on_ranks,
};

use super::initial::initial_model;
use super::training_device::training_device;
use crate::config::Plan;
use crate::error::RunError;
use crate::task::{StreamUse, Workload};

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimedWork {
    /// Training steps: waiting for data, copying it, forward, backward and update.
    Training,
    /// The same as one of so many ranks, whose exchange takes no time on a network.
    TrainingOnRanks(usize),
    /// Forward passes on test data: waiting for data, copying it, and forward.
    Inference,
}

/// The times of a fresh model's steps.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Timed {
    /// Wall time of the first step in seconds, with what is compiled, tuned and allocated for it.
    pub first_s: f64,
    /// The steps after it, without the first one that uses cached data.
    pub steps: Vec<TimedStep>,
}

/// A step that was timed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedStep {
    /// Samples of all its batches, of one rank.
    pub samples: usize,
    /// Wall time in seconds until the device was done.
    pub seconds: f64,
    /// The part of it that waited for batches.
    pub data_s: f64,
    /// The part of it that exchanged with other ranks: reading gradients and statistics, packing,
    /// sums, and writing them back.
    pub exchange_s: f64,
}

/// The longest wait for workers to read ahead.
const READ_AHEAD: Duration = Duration::from_secs(1);

/// Trains or evaluates a fresh model of the plan's seed, and times `steps` steps.
///
/// The batches of these steps, and those that workers read ahead of them, are read once before, so
/// that a cache has what it has in later epochs of a run. Workers have time to read ahead before the
/// timed steps, during which they then load as many batches as the steps take.
pub(super) fn time_work<W: Workload>(
    workload: &W,
    plan: &Plan,
    (work, steps): (TimedWork, usize),
    device: &Device,
) -> Result<Timed, RunError> {
    match work {
        TimedWork::Training => time_training(workload, plan, steps, (device, Shared::new(Alone))),
        TimedWork::TrainingOnRanks(ranks) => {
            let collective = Shared::new(Unconnected::new(ranks));
            time_training(workload, plan, steps, (device, collective))
        }
        TimedWork::Inference => time_inference(workload, plan, steps, device),
    }
}

fn time_training<W: Workload>(
    workload: &W,
    plan: &Plan,
    steps: usize,
    (device, collective): (&Device, Shared),
) -> Result<Timed, RunError> {
    let (task, settings) = (workload.task(), plan.run_settings(Path::new("")));
    let train = workload.streams(plan, StreamUse::Reading)?.train;
    let model = *initial_model(workload, plan, device)?;
    let device = training_device(plan, device.clone());
    let mut optimizer = plan.train.optimizer.init();
    let mut scaler = LossScaler::try_new(settings.loss_scale).map_err(TrainError::from)?;
    let learning_rate = settings.learning_rate;
    let mut at = StepAt { epoch: 0, step: 0, learning_rate, seed: plan.seed };
    let mut ranks = plan.train.distributed.ranks(collective);
    let context = StepContext { mode: Mode::Training, epoch: 0, step: 0, seed: plan.seed };
    let on = (&device, plan.precision);
    ranks.follow_batch_norms(task, &model, &*train, on, context)?;
    let mut model = Some(model);
    let moves_ahead = settings.transfer.is_ahead(&device);
    let mut ahead = None;
    let clock = Clock { split: "training", plan, batches: settings.accumulate, steps };
    clock.run(&*train, &mut |given| {
        let Given { batches, epoch, is_first } = given;
        if is_first {
            // It belongs to another epoch.
            ahead = None;
        }
        let failed = |cause| TrainError::Data { epoch: 0, split: "training", cause };
        let place = |batch| task.place(batch, &device).map_err(failed);
        let (mut first, mut batches) = (ahead.take(), batches.into_iter());
        let mut waited_s = 0.0;
        // As a run, which moves a batch when it has submitted the backward pass.
        let mut on_device = std::iter::from_fn(|| {
            if let Some(batch) = first.take() {
                return Some(batch);
            }
            if let Some(batch) = batches.next() {
                return Some(place(batch));
            }
            if moves_ahead && ahead.is_none() && epoch.is_ready() {
                let waiting = Instant::now();
                let next = epoch.next();
                waited_s = waiting.elapsed().as_secs_f64();
                ahead = next.map(|batch| place(batch.map_err(failed)?));
            }
            None
        });
        let current = model.take().expect("a step that fails ends the timing");
        let (updated, outcome) = train_step_on_ranks(
            task,
            current,
            &mut optimizer,
            &mut scaler,
            &mut on_device,
            (&settings.step, at),
            &mut ranks,
        )?;
        model = Some(updated);
        at.step += 1;
        // An error of the device is reported at the next read of a tensor.
        let _ = device.sync();
        let StepTimes { rank_wait_us, exchange_us, .. } = outcome.times;
        let exchange_s = 1e-6 * (rank_wait_us + exchange_us) as f64;
        let samples = outcome.samples / ranks.size();
        Ok(Done { samples, exchange_s, waited_s, took_ahead: ahead.is_some() })
    })
}

fn time_inference<W: Workload>(
    workload: &W,
    plan: &Plan,
    steps: usize,
    device: &Device,
) -> Result<Timed, RunError> {
    let task = workload.task();
    let test = workload.streams(plan, StreamUse::Reading)?.test;
    let model = initial_model(workload, plan, device)?.valid();
    let clock = Clock { split: "test", plan, batches: 1, steps };
    clock.run(&*test, &mut |given| {
        let mut samples = 0;
        for batch in given.batches {
            let placed = task.place(batch, device);
            let (input, target) =
                placed.map_err(|cause| RunError::Stream { split: "test", cause })?;
            let input = input.cast_floats(plan.precision.compute);
            let forward = || task.forward(&model, input, &StepContext::evaluation());
            let output = plan.precision.scope(forward);
            let _ = device.sync();
            samples += task.samples(&target);
            drop(output);
        }
        Ok(Done { samples, exchange_s: 0.0, waited_s: 0.0, took_ahead: false })
    })
}

/// What a step is given.
struct Given<'a, B> {
    /// Its batches, without the one that the step before took ahead.
    batches: Vec<B>,
    /// The batches after them.
    epoch: &'a mut dyn EpochStream<B>,
    /// Whether they are the first ones of the epoch.
    is_first: bool,
}

/// A step that is done.
struct Done {
    samples: usize,
    exchange_s: f64,
    /// The time that it waited for a batch of the next step.
    waited_s: f64,
    /// Whether it took one.
    took_ahead: bool,
}

/// A step of the work.
type Step<'a, B> = &'a mut dyn FnMut(Given<'_, B>) -> Result<Done, RunError>;

/// Runs steps and reads the clock.
struct Clock<'a> {
    split: &'static str,
    plan: &'a Plan,
    /// Batches of a step.
    batches: usize,
    steps: usize,
}

impl Clock<'_> {
    fn run<B>(self, stream: &dyn BatchStream<B>, step: Step<'_, B>) -> Result<Timed, RunError> {
        let first_s = {
            let started = Instant::now();
            let mut epoch = stream.epoch(0);
            let batches = self.take(&mut *epoch, false)?.ok_or_else(|| self.no_batch())?;
            step(Given { batches, epoch: &mut *epoch, is_first: true })?;
            let first_s = started.elapsed().as_secs_f64();
            // The steps that follow find in a cache what later epochs of a run find there.
            let untimed = self.steps + stream.read_ahead().div_ceil(self.batches);
            for _ in 0..untimed {
                if self.take(&mut *epoch, false)?.is_none() {
                    break;
                }
            }
            first_s
        };
        let mut steps = Vec::with_capacity(self.steps);
        let mut is_warm = false;
        for number in 0.. {
            let mut epoch = stream.epoch(number);
            let (mut is_first, mut has_ahead) = (true, false);
            loop {
                let started = Instant::now();
                let Some(batches) = self.take(&mut *epoch, has_ahead)? else { break };
                let data_s = started.elapsed().as_secs_f64();
                let done = step(Given { batches, epoch: &mut *epoch, is_first })?;
                let Done { samples, exchange_s, waited_s, took_ahead } = done;
                let (seconds, data_s) = (started.elapsed().as_secs_f64(), data_s + waited_s);
                (is_first, has_ahead) = (false, took_ahead);
                // The first one of the second pass starts the threads that load data.
                if is_warm {
                    steps.push(TimedStep { samples, seconds, data_s, exchange_s });
                } else {
                    let ahead = stream.read_ahead().min(stream.batches()) as f64;
                    let filled = ahead * data_s / self.batches as f64;
                    std::thread::sleep(READ_AHEAD.min(Duration::from_secs_f64(filled)));
                    is_warm = true;
                }
                if steps.len() == self.steps {
                    return Ok(Timed { first_s, steps });
                }
            }
        }
        Err(self.no_batch())
    }

    /// The batches of a step, without one that was taken ahead; `None` at the end of the epoch.
    fn take<B>(
        &self,
        epoch: &mut dyn EpochStream<B>,
        has_ahead: bool,
    ) -> Result<Option<Vec<B>>, RunError> {
        let missing = self.batches - usize::from(has_ahead);
        let batches = epoch.take(missing).collect::<Result<Vec<_>, _>>();
        let batches = batches.map_err(|cause| RunError::Stream { split: self.split, cause })?;
        Ok((batches.len() == missing).then_some(batches))
    }

    fn no_batch(&self) -> RunError {
        let Self { split, batches, .. } = self;
        let batch = self.plan.train.batch;
        let reason = format!(
            "the {split} data has no {batches} batches of {batch} samples; set `train.batch` lower"
        );
        RunError::Unusable { reason }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use updraft_trainer::Counted;

    use super::*;
    use crate::task::TASKS;

    /// Numbers, of which threads read some ahead.
    struct Ahead {
        read_ahead: usize,
        taken: RefCell<Vec<usize>>,
    }

    impl BatchStream<usize> for Ahead {
        fn epoch(&self, _: u64) -> Box<dyn EpochStream<usize> + '_> {
            let take = |batch| {
                self.taken.borrow_mut().push(batch);
                Ok(batch)
            };
            Box::new(Counted::new((0..self.batches()).map(take)))
        }

        fn batches(&self) -> usize {
            10
        }

        fn samples(&self) -> usize {
            10
        }

        fn batch(&self) -> usize {
            1
        }

        fn read_ahead(&self) -> usize {
            self.read_ahead
        }
    }

    #[test]
    fn what_timed_steps_read_and_workers_read_ahead_of_them_was_read_before() {
        let plan = Plan::read(TASKS, "", Path::new("none"), &[]).expect("valid").plan;
        for (read_ahead, first_pass) in [(0, 4), (3, 7), (30, 10)] {
            let stream = Ahead { read_ahead, taken: RefCell::default() };
            let clock = Clock { split: "test", plan: &plan, batches: 1, steps: 3 };
            let timed = clock.run(&stream, &mut |given| {
                let samples = given.batches.len();
                Ok(Done { samples, exchange_s: 0.0, waited_s: 0.0, took_ahead: false })
            });
            let timed = timed.expect("timed");
            assert_eq!(timed.steps.len(), 3);
            let expected: Vec<usize> = (0..first_pass).chain(0..4).collect();
            assert_eq!(*stream.taken.borrow(), expected, "{read_ahead} ahead");
        }
    }
    #[test]
    fn a_batch_that_a_step_takes_ahead_belongs_to_the_next_step_of_its_epoch() {
        let plan = Plan::read(TASKS, "", Path::new("none"), &[]).expect("valid").plan;
        let stream = Ahead { read_ahead: 0, taken: RefCell::default() };
        let clock = Clock { split: "test", plan: &plan, batches: 2, steps: 6 };
        let mut kept: Option<usize> = None;
        let mut seen = Vec::new();
        let timed = clock.run(&stream, &mut |given| {
            let own = kept.take().filter(|_| !given.is_first);
            let batches: Vec<usize> = own.into_iter().chain(given.batches).collect();
            kept = given.epoch.next().transpose().expect("a number");
            seen.push(batches);
            Ok(Done { samples: 2, exchange_s: 0.0, waited_s: 1.0, took_ahead: kept.is_some() })
        });
        let timed = timed.expect("timed");
        // One step before the clock, then epochs of five steps of two of the ten batches, of which
        // the first step starts the threads.
        let epoch: Vec<Vec<usize>> = (0..5).map(|step| vec![2 * step, 2 * step + 1]).collect();
        let expected = [&epoch[..1], &epoch[..], &epoch[..2]].concat();
        assert_eq!(seen, expected);
        assert!(timed.steps.iter().all(|step| step.data_s >= 1.0), "the wait is left out");
    }
}
