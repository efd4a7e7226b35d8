//! One epoch of a run: its updates, then the served model and its evaluation.

use std::time::Instant;

use burn::module::Module;
use burn::tensor::Device;
use updraft_precision::LossScaler;

use crate::bn_recompute::{recompute_batch_norms, switched_off_layers};
use crate::comparison::Comparisons;
use crate::decisions::Decisions;
use crate::ema::Ema;
use crate::error::TrainError;
use crate::evaluate::{Evaluated, score_stream};
use crate::events::{Activity, Control, EpochReport, Event};
use crate::metric::{Evaluation, LossSums, MetricSpec, Score};
use crate::monitor::{PhaseClock, RankTimes, StepTimes};
use crate::ranks::{Ranks, fingerprint};
use crate::read_interval::ReadInterval;
use crate::reporting::Made;
use crate::run::{Run, RunData};
use crate::seed::{rank_seed, step_seed};
use crate::settings::{BatchNormStatistics, RunSettings};
use crate::step::{Placed, StepAt, train_step_on_ranks};
use crate::stream::{EpochStream, StreamError};
use crate::task::{Mode, StepContext, Task};
use crate::tensors::Tensors;
use crate::transfer::Upload;
use crate::unread::{NotSubmitted, submit_step};
use crate::update_numbers::Numbers;

/// The settings and state shared by all epochs of a run.
pub(crate) struct Course<'a, T, B> {
    pub(crate) task: &'a T,
    pub(crate) settings: &'a RunSettings,
    pub(crate) data: RunData<'a, B>,
    pub(crate) device: &'a Device,
    /// The loss, its parts and the task's metrics.
    pub(crate) metrics: Vec<MetricSpec>,
    pub(crate) comparisons: Comparisons,
    pub(crate) started: Instant,
    pub(crate) reading: ReadInterval,
    pub(crate) per_epoch: u64,
    pub(crate) steps: u64,
}

pub(crate) type Watch<'a, M> = &'a mut dyn FnMut(&Event, &M) -> Control;

/// Measurements of the training part of an epoch.
#[derive(Default)]
pub(crate) struct Pass<S> {
    pub(crate) times: StepTimes,
    pub(crate) samples: usize,
    /// The score of the epoch so far.
    pub(crate) score: S,
    left_out: usize,
    train_us: u64,
}

impl<M: Module> Run<M> {
    /// Runs the updates of an epoch, or the remaining ones; `None` if the observer stops the run.
    #[allow(clippy::type_complexity, reason = "a pair that one caller takes apart at once")]
    pub(crate) fn pass<T: Task<M>>(
        mut self,
        course: &Course<'_, T, T::Batch>,
        ema: &mut Option<Ema<M>>,
        ranks: &mut Ranks,
        watch: Watch<'_, M>,
    ) -> Result<(Self, Option<Pass<T::Score>>), TrainError> {
        let (task, settings, device) = (course.task, course.settings, course.device);
        let epoch = self.state.epoch;
        let started = Instant::now();
        let mut scaler = self.loss_scaler(settings)?;
        let mut pass = Pass { score: self.epoch_score()?, ..Pass::default() };
        // Since the last read.
        let (mut unread, mut decisions) = (Vec::new(), None);
        let failed = |cause| TrainError::Data { epoch, split: "training", cause };
        let mut stream = match &self.state.loader {
            Some(state) => course.data.train.resume(epoch, state).map_err(failed)?,
            None => course.data.train.epoch(epoch),
        };
        let moves_ahead = settings.transfer.is_ahead(device);
        let mut ahead: Option<Placed<T::Input, T::Target>> = None;
        // The wait for a batch that is moved ahead counts for the step that uses it.
        let mut ahead_wait_us = 0;
        loop {
            let at_us = micros(course.started);
            let waiting = Instant::now();
            let taken = ahead.take().transpose().and_then(|first| {
                let missing = settings.accumulate - usize::from(first.is_some());
                Ok((first, take(&mut *stream, missing).map_err(failed)?))
            });
            let (mut first, batches) = match taken {
                Ok(taken) => taken,
                Err(error) => {
                    let state = (&mut scaler, ema.as_mut());
                    self.report_unread(course, unread, state, &mut pass, ranks, watch)?;
                    return Err(error);
                }
            };
            if first.is_none() && batches.is_empty() {
                break;
            }
            let data_wait_us = micros(waiting) + std::mem::take(&mut ahead_wait_us);
            // A step that moves a batch ahead leaves the stream behind that batch.
            let used = moves_ahead.then(|| stream.state());
            let updating = Instant::now();
            let step = self.state.step;
            let seed = rank_seed(step_seed(settings.seed, step), ranks.rank());
            device.seed(seed);
            let learning_rate = self.learning_rate(course);
            let loss_scale = (!scaler.is_none()).then_some(scaler.scale());
            let mut copy_us = 0;
            let mut upload = None;
            let mut placed = |batch: T::Batch| {
                let mut clock = PhaseClock::start(device, settings.step.timing);
                let batch = task.place(batch, device).map_err(failed);
                copy_us += clock.lap_us();
                batch
            };
            let mut batches = batches.into_iter();
            // When the step asks for another batch, it has submitted the backward pass of the last
            // one.
            let mut on_device = std::iter::from_fn(|| {
                if let Some(batch) = first.take() {
                    return Some(Ok(batch));
                }
                if let Some(batch) = batches.next() {
                    return Some(placed(batch));
                }
                if moves_ahead && ahead.is_none() && stream.is_ready() {
                    let waiting = Instant::now();
                    let next = stream.next();
                    ahead_wait_us = micros(waiting);
                    let (at_us, placing) = (micros(course.started), Instant::now());
                    ahead = next.map(|batch| placed(batch.map_err(failed)?));
                    upload = ahead.is_some().then(|| Upload { at_us, us: micros(placing) });
                }
                None
            });
            let at = StepAt { epoch, step, learning_rate, seed };
            let (model, numbers) = if course.reading.updates == 1 {
                let (model, outcome) = train_step_on_ranks(
                    task,
                    self.model,
                    &mut self.optimizer.0,
                    &mut scaler,
                    &mut on_device,
                    (&settings.step, at),
                    ranks,
                )?;
                (model, Numbers::Read(outcome))
            } else {
                if course.reading.decides && decisions.is_none() {
                    decisions = Some(self.decisions(course, scaler, ema.as_ref()));
                }
                let (optimizer, batches) = (&mut self.optimizer.0, &mut on_device);
                let (step, decisions) = ((&settings.step, at), decisions.as_mut());
                match submit_step(task, self.model, optimizer, batches, step, decisions) {
                    Ok((model, update)) => (model, Numbers::Unread(Box::new(update))),
                    Err(NotSubmitted { model, cause }) => {
                        self.model = model;
                        let state = (&mut scaler, ema.as_mut());
                        self.report_unread(course, unread, state, &mut pass, ranks, watch)?;
                        return Err(cause);
                    }
                }
            };
            self.model = model;
            self.state.step += 1;
            if let Some(lookahead) = &settings.lookahead {
                self.look_ahead(lookahead, course.steps);
            }
            self.state.loss_scale = loss_scale.map(|_| scaler.state());
            if let Some(ema) = &mut *ema {
                numbers.average(ema, &self.model);
            }
            let step_us = micros(updating).saturating_sub(ahead_wait_us);
            let made = Made {
                step,
                learning_rate,
                loss_scale,
                at_us,
                step_us,
                data_wait_us,
                copy_us,
                upload,
            };
            let every_steps = settings.checkpoints.every_steps;
            let is_due = every_steps.is_some_and(|every| self.state.step.is_multiple_of(every))
                // The checkpoint at the epoch's end follows.
                && !self.state.step.is_multiple_of(course.per_epoch);
            let control = match numbers {
                Numbers::Read(outcome) => {
                    self.report_update(course, made, outcome, &mut pass, ranks, watch)?
                }
                Numbers::Unread(update) => {
                    unread.push((made, *update));
                    match is_due || unread.len() as u64 == course.reading.updates {
                        true => {
                            let unread = std::mem::take(&mut unread);
                            let state = (&mut scaler, ema.as_mut());
                            decisions = None;
                            self.report_unread(course, unread, state, &mut pass, ranks, watch)?
                        }
                        false => Control::Continue,
                    }
                }
            };
            if is_due || control == Control::Stop {
                self.state.loader = Some(used.unwrap_or_else(|| stream.state()));
                self.state.epoch_score = stored(&pass.score)?;
            }
            if control == Control::Stop {
                return Ok((self, None));
            }
            if is_due {
                self.save(settings, ema.as_ref(), None, ranks, watch)?;
            }
        }
        let state = (&mut scaler, ema.as_mut());
        let control = self.report_unread(course, unread, state, &mut pass, ranks, watch)?;
        self.state.loader = Some(stream.state());
        self.state.epoch_score = stored(&pass.score)?;
        pass.train_us = micros(started);
        pass.left_out = stream.left_out();
        Ok((self, (control == Control::Continue).then_some(pass)))
    }

    /// What the device decides about the updates until the next read.
    fn decisions<T: Task<M>>(
        &self,
        course: &Course<'_, T, T::Batch>,
        scaler: LossScaler,
        ema: Option<&Ema<M>>,
    ) -> Decisions {
        let updates = course.reading.updates.min(course.per_epoch) as usize;
        let pulls = ema.map(|ema| ema.pulls(updates));
        let applied = self.state.applied.unwrap_or_default();
        Decisions::begin(course.device, course.settings, scaler, applied, pulls)
    }

    /// The score of the epoch so far, as stored in a checkpoint.
    fn epoch_score<S: Score>(&self) -> Result<S, TrainError> {
        match &self.state.epoch_score {
            serde_json::Value::Null => Ok(S::default()),
            stored => S::deserialize(stored).map_err(|cause| TrainError::Score { cause }),
        }
    }

    fn loss_scaler(&self, settings: &RunSettings) -> Result<LossScaler, TrainError> {
        let scaler = match self.state.loss_scale {
            Some(state) => LossScaler::resume(settings.loss_scale, state),
            None => LossScaler::try_new(settings.loss_scale),
        };
        Ok(scaler?)
    }

    fn learning_rate<T: Task<M>>(&self, course: &Course<'_, T, T::Batch>) -> f64 {
        let settings = course.settings;
        let scheduled =
            settings.learning_rate * settings.schedule.factor(self.state.step, course.steps);
        match &settings.plateau {
            Some(plateau) => scheduled * self.state.plateau.factor(plateau),
            None => scheduled,
        }
    }

    /// Recomputes batch norms, if set, and evaluates the served model; `None` if the observer stops
    /// the run.
    #[allow(clippy::type_complexity, reason = "a pair that one caller takes apart at once")]
    pub(crate) fn serve<T: Task<M>>(
        &self,
        course: &Course<'_, T, T::Batch>,
        ema: Option<&Ema<M>>,
        ranks: &mut Ranks,
        watch: Watch<'_, M>,
    ) -> Result<Option<(Option<M>, Option<Evaluation>)>, TrainError> {
        let (task, settings) = (course.task, course.settings);
        let epoch = self.state.epoch;
        let model = &self.model;
        let between = |watch: Watch<'_, M>, activity, samples| {
            watch(&Event::Between { activity, epoch, samples }, model)
        };
        let policy = settings.step.policy;
        let mut served = None;
        if let BatchNormStatistics::Recomputed { batches } = settings.batch_norm {
            let failed = |cause| TrainError::Data { epoch, split: "training", cause };
            // Copies of a model do not use burn's recomputation strategy, and cannot be mixed with
            // it.
            let device = course.device.clone().without_autodiff().autodiff();
            let mut inputs = course.data.train.epoch(epoch).take(batches).map(|batch| {
                let (input, target) = task.place(batch?, &device)?;
                let input = input.cast_floats(policy.compute);
                Ok::<_, StreamError>((input, task.samples(&target)))
            });
            let batch = course.data.train.batch();
            let (step, seed) = (self.state.step, settings.seed);
            let context = StepContext { mode: Mode::Training, epoch, step, seed };
            let averaged = ema.map_or(&self.model, Ema::average);
            let mut batches = 0;
            let recomputed = recompute_batch_norms(
                averaged,
                &|model, input| drop(policy.scope(|| task.forward(model, input, &context))),
                &mut inputs,
                &mut |done| {
                    batches = done;
                    between(&mut *watch, Activity::Recomputing, done as usize * batch)
                },
            );
            served = recomputed.map_err(failed)?;
            if served.is_none() {
                return Ok(None);
            }
            let switched_off = switched_off_layers(averaged);
            watch(&Event::Recomputed { epoch, batches, switched_off }, &self.model);
        }
        let Some(test) = course.data.test else { return Ok(Some((served, None))) };
        let live;
        let scored = match (&served, ema) {
            (Some(served), _) => served,
            (None, Some(ema)) => ema.average(),
            (None, None) => {
                live = self.model.valid();
                &live
            }
        };
        let scored = score_stream(
            task,
            scored,
            test,
            &course.device.clone().without_autodiff(),
            policy,
            &mut |samples| between(&mut *watch, Activity::Scoring, samples),
        );
        let own = scored.map_err(|cause| TrainError::Data { epoch, split: "test", cause })?;
        let mut all = (LossSums::default(), T::Score::default());
        for of_rank in ranks.exchange(own)? {
            let Some((sums, score)) = of_rank else { return Ok(None) };
            all.0.merge(&sums);
            all.1.merge(&score);
        }
        let (sums, score) = all;
        Ok(Some((served, Some(Evaluated::of(task, &sums, score).evaluation))))
    }

    pub(crate) fn report<T: Task<M>>(
        &self,
        course: &Course<'_, T, T::Batch>,
        pass: Pass<T::Score>,
        test: Option<Evaluation>,
        ranks: &mut Ranks,
    ) -> Result<EpochReport, TrainError> {
        let own = || RankTimes {
            train_us: pass.train_us,
            times: pass.times,
            parameters: fingerprint(&self.model),
        };
        let of_ranks = if ranks.is_alone() { Vec::new() } else { ranks.exchange(own())? };
        let values = course.task.values(&self.epoch_score()?);
        Ok(EpochReport {
            epoch: self.state.epoch,
            step: self.state.step,
            train: self.state.sums.evaluation(&course.metrics, &values),
            test,
            samples_per_s: pass.samples as f64 / (pass.train_us.max(1) as f64 * 1e-6),
            left_out: pass.left_out,
            train_us: pass.train_us,
            times: pass.times,
            ranks: of_ranks,
        })
    }
}

/// A score as stored in a checkpoint.
fn stored<S: Score>(score: &S) -> Result<serde_json::Value, TrainError> {
    serde_json::to_value(score).map_err(|cause| TrainError::Score { cause })
}

/// The next batches of a stream, at most `count`.
fn take<B>(stream: &mut dyn EpochStream<B>, count: usize) -> Result<Vec<B>, StreamError> {
    stream.take(count).collect()
}

pub(crate) fn micros(since: Instant) -> u64 {
    since.elapsed().as_micros().try_into().unwrap_or(u64::MAX)
}
