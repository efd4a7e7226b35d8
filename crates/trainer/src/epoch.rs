//! One epoch of a run: its updates, then the model that is served and its score.

use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use updraft_data::{Collate, DataError, Epoch};
use updraft_precision::LossScaler;

use crate::bn_recompute::recompute_batch_norms;
use crate::criterion::Criterion;
use crate::ema::Ema;
use crate::error::TrainError;
use crate::evaluate::evaluate;
use crate::events::{Activity, Control, EpochReport, Evaluation, Event, StepReport};
use crate::guard::{NonFinite, Skipped};
use crate::monitor::{PhaseClock, StepTimes};
use crate::passes::Passes;
use crate::run::{Run, RunData};
use crate::settings::{BatchNormStatistics, RunSettings, Transfer};
use crate::step::{StepAt, train_step_accumulated};
use crate::target::{Target, TrainBatch};

/// All that stays the same while a run goes on.
pub(crate) struct Course<'a, M, C: Collate, const D: usize> {
    pub(crate) settings: &'a RunSettings,
    pub(crate) data: RunData<'a, C>,
    pub(crate) device: &'a Device,
    pub(crate) passes: Passes<'a, M, D>,
    pub(crate) started: Instant,
    pub(crate) per_epoch: u64,
    pub(crate) steps: u64,
}

/// The input of a batch, and what it is to be told as.
type OnDevice<const D: usize> = (Tensor<D>, Target);

pub(crate) type Watch<'a, M> = &'a mut dyn FnMut(&Event, &M) -> Control;

/// What the training part of an epoch measured.
#[derive(Default)]
pub(crate) struct Pass {
    times: StepTimes,
    samples: usize,
    left_out: usize,
    train_us: u64,
}

impl<M: Module> Run<M> {
    /// The updates of one epoch, or of what is left of it; `None` if the watcher wants to stop.
    pub(crate) fn pass<C: Collate, const D: usize>(
        mut self,
        course: &Course<'_, M, C, D>,
        ema: &mut Option<Ema<M>>,
        watch: Watch<'_, M>,
    ) -> Result<(Self, Option<Pass>), TrainError>
    where
        C::Batch: TrainBatch<D>,
    {
        let (settings, device) = (course.settings, course.device);
        let epoch = self.state.epoch;
        let started = Instant::now();
        let mut pass = Pass::default();
        let mut scaler = self.loss_scaler(settings)?;
        let failed = |source| TrainError::Data { epoch, split: "training", source };
        let mut stream = match &self.state.loader {
            Some(state) => course.data.train.resume(state).map_err(failed)?,
            None => course.data.train.epoch(epoch),
        };
        let mut ahead = None;
        // Waiting for a batch that is moved ahead counts to the step that uses it.
        let mut ahead_wait_us = 0;
        loop {
            let at_us = micros(course.started);
            let waiting = Instant::now();
            let mut first: Option<OnDevice<D>> = ahead.take().transpose()?;
            let missing = settings.accumulate - usize::from(first.is_some());
            let batches = take(&mut stream, missing).map_err(failed)?;
            if first.is_none() && batches.is_empty() {
                break;
            }
            let data_wait_us = micros(waiting) + std::mem::take(&mut ahead_wait_us);
            let used = stream.state();
            let updating = Instant::now();
            let step = self.state.step;
            let seed = step_seed(settings.seed, step);
            device.seed(seed);
            let learning_rate = self.learning_rate(course);
            let loss_scale = (!scaler.is_none()).then_some(scaler.scale());
            let mut copy_us = 0;
            let mut moved = |batch: C::Batch| {
                let mut clock = PhaseClock::start(device, settings.step.timing);
                let batch = batch.into_tensors(device);
                copy_us += clock.lap_us();
                batch
            };
            let mut batches = batches.into_iter();
            if first.is_none() {
                first = batches.next().map(&mut moved);
            }
            if let Some((_, Target::Values(_))) = &first {
                check_criterion(settings)?;
            }
            // Asked for a batch more, the step has submitted the backward pass of its last.
            let mut on_device = std::iter::from_fn(|| {
                if let Some(batch) = first.take() {
                    return Some(batch);
                }
                if let Some(batch) = batches.next() {
                    return Some(moved(batch));
                }
                if settings.transfer == Transfer::Ahead && ahead.is_none() {
                    let waiting = Instant::now();
                    let next = stream.next();
                    ahead_wait_us = micros(waiting);
                    ahead = next.map(|batch| Ok(moved(batch.map_err(failed)?)));
                }
                None
            });
            let (model, outcome) = train_step_accumulated(
                self.model,
                &mut self.optimizer.0,
                &mut scaler,
                course.passes,
                &mut on_device,
                &settings.step,
                StepAt { step, learning_rate, seed },
            )?;
            self.model = model;
            self.state.step += 1;
            self.state.loader = Some(used);
            self.state.loss_scale = loss_scale.map(|_| scaler.state());
            match &outcome.skipped {
                Some(Skipped::NotFinite { tensor }) => self.left_out(settings, step, tensor)?,
                // The scale has a limit of its own.
                Some(Skipped::Overflow { .. }) => {}
                None => {
                    self.state.skipped_in_a_row = 0;
                    self.state.sums.add(outcome.loss, outcome.correct, outcome.samples);
                    if let Some(ema) = ema {
                        ema.update(&self.model);
                    }
                }
            }
            let times = StepTimes { data_wait_us, copy_us, ..outcome.times };
            pass.times.add(&times);
            pass.samples += outcome.samples;
            let report = StepReport {
                epoch,
                step,
                steps: course.steps,
                samples: outcome.samples,
                loss: outcome.loss,
                correct: outcome.correct,
                learning_rate,
                gradient_norm: outcome.gradient_norm,
                loss_scale,
                skipped: outcome.skipped.map(|why| why.to_string()),
                at_us,
                step_us: micros(updating).saturating_sub(ahead_wait_us),
                times,
            };
            if watch(&Event::Step(report), &self.model) == Control::Stop {
                return Ok((self, None));
            }
            let every_steps = settings.checkpoints.every_steps;
            let is_due = every_steps.is_some_and(|every| self.state.step.is_multiple_of(every))
                // The epoch's own checkpoint follows.
                && !self.state.step.is_multiple_of(course.per_epoch);
            if is_due {
                self.save(settings, ema.as_ref(), None, watch)?;
            }
        }
        pass.train_us = micros(started);
        pass.left_out = stream.skipped().len();
        Ok((self, Some(pass)))
    }

    fn loss_scaler(&self, settings: &RunSettings) -> Result<LossScaler, TrainError> {
        let scaler = match self.state.loss_scale {
            Some(state) => LossScaler::resume(settings.loss_scale, state),
            None => LossScaler::try_new(settings.loss_scale),
        };
        scaler.map_err(|source| TrainError::Precision { source })
    }

    fn learning_rate<C: Collate, const D: usize>(&self, course: &Course<'_, M, C, D>) -> f64 {
        let settings = course.settings;
        let scheduled =
            settings.learning_rate * settings.schedule.factor(self.state.step, course.steps);
        match &settings.plateau {
            Some(plateau) => scheduled * self.state.plateau.factor(plateau),
            None => scheduled,
        }
    }

    fn left_out(
        &mut self,
        settings: &RunSettings,
        step: u64,
        tensor: &str,
    ) -> Result<(), TrainError> {
        self.state.skipped_in_a_row += 1;
        let skips = self.state.skipped_in_a_row;
        match settings.step.non_finite {
            NonFinite::Skip { at_most } if skips > at_most => {
                Err(TrainError::TooManySkips { step, skips, tensor: tensor.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Makes the model that is served, if it is a third one, and scores what is served; `None` if
    /// the watcher wants to stop.
    #[allow(clippy::type_complexity, reason = "a pair that one caller takes apart at once")]
    pub(crate) fn judge<C: Collate, const D: usize>(
        &self,
        course: &Course<'_, M, C, D>,
        ema: Option<&Ema<M>>,
        watch: Watch<'_, M>,
    ) -> Result<Option<(Option<M>, Option<Evaluation>)>, TrainError>
    where
        C::Batch: TrainBatch<D>,
    {
        let settings = course.settings;
        let epoch = self.state.epoch;
        let mut between =
            |activity, samples| watch(&Event::Between { activity, epoch, samples }, &self.model);
        let mut served = None;
        if let BatchNormStatistics::Recomputed { batches } = settings.batch_norm {
            let failed = |source| TrainError::Data { epoch, split: "training", source };
            // Copies of a model never carry burn's strategy of recomputing, and do not mix with it.
            let device = course.device.clone().without_autodiff().autodiff();
            let mut inputs = course.data.train.epoch(epoch).take(batches).map(|batch| {
                let (input, _) = batch?.into_tensors(&device);
                Ok(input.cast(settings.step.policy.compute))
            });
            let batch = course.data.train.batch();
            let recomputed = recompute_batch_norms(
                ema.map_or(&self.model, Ema::average),
                course.passes.forward,
                &mut inputs,
                &mut |batches| between(Activity::Recomputing, batches as usize * batch),
            );
            served = recomputed.map_err(failed)?;
            if served.is_none() {
                return Ok(None);
            }
        }
        let Some(loader) = course.data.test else { return Ok(Some((served, None))) };
        let live;
        let scored = match (&served, ema) {
            (Some(served), _) => served,
            (None, Some(ema)) => ema.average(),
            (None, None) => {
                live = self.model.valid();
                &live
            }
        };
        let score = evaluate(
            scored,
            course.passes.forward,
            loader,
            &course.device.clone().without_autodiff(),
            settings.step.policy,
            &mut |samples| between(Activity::Scoring, samples),
        );
        let score = score.map_err(|source| TrainError::Data { epoch, split: "test", source })?;
        Ok(score.map(|score| (served, Some(score))))
    }

    pub(crate) fn report(&self, pass: Pass, test: Option<Evaluation>) -> EpochReport {
        let sums = self.state.sums;
        let total = sums.samples.max(1) as f64;
        EpochReport {
            epoch: self.state.epoch,
            step: self.state.step,
            train_loss: sums.loss_sum() / total,
            train_accuracy: sums.correct.map(|correct| correct as f64 / total),
            test,
            samples_per_s: pass.samples as f64 / (pass.train_us.max(1) as f64 * 1e-6),
            left_out: pass.left_out,
            train_us: pass.train_us,
            times: pass.times,
        }
    }
}

/// The next batches of a stream, at most `count`.
fn take<C: Collate>(stream: &mut Epoch<C>, count: usize) -> Result<Vec<C::Batch>, DataError> {
    stream.take(count).collect()
}

/// Refuses to compare epochs by their accuracy where there are no classes to be right about.
fn check_criterion(settings: &RunSettings) -> Result<(), TrainError> {
    if settings.compares_epochs() && settings.criterion == Criterion::TestAccuracy {
        return Err(TrainError::Setting {
            name: "criterion",
            value: "`TestAccuracy`, and values have none".to_owned(),
            expected: "`TestLoss` or `TrainLoss`",
        });
    }
    Ok(())
}

/// The device seed of one step: distinct for neighbouring seeds and steps.
///
/// The mixer is the finalizer of `SplitMix64` (Steele, Lea and Flood 2014).
fn step_seed(seed: u64, step: u64) -> u64 {
    let mut mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(step);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn micros(since: Instant) -> u64 {
    since.elapsed().as_micros().try_into().unwrap_or(u64::MAX)
}
