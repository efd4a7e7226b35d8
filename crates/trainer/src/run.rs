//! A run: epochs of steps with evaluation, checkpoints and a clean stop.

use std::path::PathBuf;
use std::time::Instant;

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, Tensor};
use updraft_data::Loader;

use crate::checkpoint::{self, CheckpointError, EpochSums, RunState};
use crate::error::TrainError;
use crate::evaluate::evaluate;
use crate::events::{Control, EpochReport, Evaluation, Event, StepReport};
use crate::schedule::Schedule;
use crate::step::{StepSettings, train_step};

/// What a run is to do.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSettings {
    /// Passes over the training data.
    pub epochs: u64,
    /// Seeds everything random on the device; the loaders carry their own.
    pub seed: u64,
    /// The learning rate's peak.
    pub learning_rate: f64,
    /// How the learning rate moves.
    pub schedule: Schedule,
    /// What each update does.
    pub step: StepSettings,
    /// Where checkpoints go and when.
    pub checkpoints: CheckpointSettings,
}

/// Where checkpoints go and when they are written.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointSettings {
    /// The folder that holds them.
    pub folder: PathBuf,
    /// Also one after every so many steps, beside the one at each epoch's end.
    pub every_steps: Option<u64>,
    /// How many of the newest are kept; at least one.
    pub keep_last: usize,
}

impl RunSettings {
    /// Checks every number that has a range.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the number that is out of range.
    pub fn validate(&self) -> Result<(), TrainError> {
        let refuse =
            |name, value: String, expected| Err(TrainError::Setting { name, value, expected });
        if self.epochs == 0 {
            return refuse("epochs", "0".to_owned(), "at least 1");
        }
        if !(self.learning_rate.is_finite() && self.learning_rate > 0.0) {
            return refuse(
                "learning_rate",
                self.learning_rate.to_string(),
                "a finite number above 0",
            );
        }
        if !(0.0..1.0).contains(&self.step.label_smoothing) {
            let value = self.step.label_smoothing.to_string();
            return refuse("label_smoothing", value, "at least 0 and below 1");
        }
        if let Some(norm) = self.step.clip_norm
            && !(norm.is_finite() && norm > 0.0)
        {
            return refuse("clip_norm", norm.to_string(), "a finite number above 0");
        }
        if self.checkpoints.keep_last == 0 {
            return refuse("keep_last", "0".to_owned(), "at least 1");
        }
        if self.checkpoints.every_steps == Some(0) {
            return refuse("checkpoint_every_steps", "0".to_owned(), "at least 1");
        }
        self.schedule.validate()
    }
}

/// A model on its way through a run.
#[derive(Debug)]
pub struct Run<M> {
    model: M,
    optimizer: OptimizerBox,
    state: RunState,
}

/// burn's optimizer has no `Debug`; this names it.
struct OptimizerBox(ModuleOptimizer);

impl std::fmt::Debug for OptimizerBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ModuleOptimizer")
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Finished<M> {
    /// The model as the last update left it.
    pub model: M,
    /// Updates made.
    pub steps: u64,
    /// The test data's last verdict.
    pub test: Option<Evaluation>,
    /// Whether all epochs were run, or the watcher stopped it.
    pub ending: Ending,
    /// The newest checkpoint.
    pub checkpoint: PathBuf,
}

/// Why a run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All epochs were run.
    Complete,
    /// The watcher answered [`Control::Stop`]; the checkpoint resumes exactly there.
    Stopped,
}

/// The data of a run.
#[derive(Debug, Clone, Copy)]
pub struct RunData<'a> {
    /// What the model learns from.
    pub train: &'a Loader,
    /// What it is scored on after each epoch.
    pub test: Option<&'a Loader>,
}

impl<M: Module> Run<M> {
    /// A run before its first step.
    #[must_use]
    pub fn new(model: M, optimizer: ModuleOptimizer) -> Self {
        let state = RunState {
            step: 0,
            epoch: 0,
            loader: None,
            sums: EpochSums::default(),
            optimizer_tensors: 0,
        };
        Self { model, optimizer: OptimizerBox(optimizer), state }
    }

    /// A run as a checkpoint left it; `model` and `optimizer` give structure and settings.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`] when the checkpoint is damaged, foreign or unfinished.
    pub fn resume(
        path: &std::path::Path,
        model: M,
        optimizer: ModuleOptimizer,
    ) -> Result<Self, TrainError> {
        let (model, optimizer, state) = checkpoint::load(path, model, optimizer)
            .map_err(|source| TrainError::Checkpoint { path: path.to_owned(), source })?;
        Ok(Self { model, optimizer: OptimizerBox(optimizer), state })
    }

    /// Updates made so far.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.state.step
    }

    /// Trains to the end of the last epoch, or until `watch` answers [`Control::Stop`].
    ///
    /// `device` carries autodiff and holds the model. The device's random state is seeded from
    /// (seed, step) before every step, so a resumed run draws what the unbroken one drew.
    /// `watch` sees every event with the model as it then is; its answer counts after steps.
    ///
    /// # Errors
    /// [`TrainError`]; checkpoints already on disk stay.
    pub fn train(
        mut self,
        settings: &RunSettings,
        data: RunData<'_>,
        device: &Device,
        forward: &dyn Fn(&M, Tensor<4>) -> Tensor<2>,
        watch: &mut dyn FnMut(&Event, &M) -> Control,
    ) -> Result<Finished<M>, TrainError> {
        settings.validate()?;
        #[cfg(feature = "tracing")]
        let watch = &mut |event: &Event, model: &M| {
            event.trace();
            watch(event, model)
        };
        let per_epoch = data.train.batches() as u64;
        if per_epoch == 0 {
            let (samples, batch) = (data.train.samples(), data.train.batch());
            return Err(TrainError::NoBatches { samples, batch });
        }
        let steps = settings.epochs * per_epoch;
        let mut test = None;
        let mut saved = None;
        while self.state.epoch < settings.epochs {
            let epoch = self.state.epoch;
            #[cfg(feature = "tracing")]
            let _span = tracing::info_span!("epoch", epoch).entered();
            let started = Instant::now();
            let mut data_wait_us = 0;
            let mut trained = 0;
            let failed = |source| TrainError::Data { epoch, split: "training", source };
            let mut stream = match &self.state.loader {
                Some(state) => data.train.resume(state).map_err(failed)?,
                None => data.train.epoch(epoch),
            };
            loop {
                let waiting = Instant::now();
                let Some(batch) = stream.next() else { break };
                let batch = batch.map_err(failed)?;
                let wait_us = micros(waiting);
                data_wait_us += wait_us;
                let updating = Instant::now();
                let step = self.state.step;
                device.seed(step_seed(settings.seed, step));
                let samples = batch.len();
                let learning_rate = settings.learning_rate * settings.schedule.factor(step, steps);
                let (model, outcome) = train_step(
                    self.model,
                    &mut self.optimizer.0,
                    forward,
                    batch.to_device(device),
                    &settings.step,
                    (step, learning_rate),
                )?;
                self.model = model;
                self.state.step += 1;
                self.state.sums.add(outcome.loss, outcome.correct, samples);
                self.state.loader = Some(stream.state());
                trained += samples;
                let report = StepReport {
                    epoch,
                    step,
                    steps,
                    samples,
                    loss: outcome.loss,
                    correct: outcome.correct,
                    learning_rate,
                    gradient_norm: outcome.gradient_norm,
                    data_wait_us: wait_us,
                    step_us: micros(updating),
                };
                let control = watch(&Event::Step(report), &self.model);
                let is_due = settings
                    .checkpoints
                    .every_steps
                    .is_some_and(|every| self.state.step.is_multiple_of(every))
                    // The epoch's own checkpoint follows.
                    && !self.state.step.is_multiple_of(per_epoch);
                if control == Control::Stop {
                    let checkpoint = self.save(settings, watch)?;
                    return Ok(self.finish(test, Ending::Stopped, checkpoint));
                }
                if is_due {
                    self.save(settings, watch)?;
                }
            }
            let train_us = micros(started);
            if let Some(loader) = data.test {
                let score = evaluate(
                    &self.model.valid(),
                    forward,
                    loader,
                    &device.clone().without_autodiff(),
                    settings.step.policy,
                    &mut |_| Control::Continue,
                );
                test = score.map_err(|source| TrainError::Data { epoch, split: "test", source })?;
            }
            let sums = self.state.sums;
            let total = sums.samples.max(1) as f64;
            let report = EpochReport {
                epoch,
                step: self.state.step,
                train_loss: sums.loss_sum() / total,
                train_accuracy: sums.correct as f64 / total,
                test,
                samples_per_s: trained as f64 / (train_us.max(1) as f64 * 1e-6),
                data_wait_us,
                train_us,
            };
            // The report comes before the checkpoint: a run killed between the two repeats it.
            let control = watch(&Event::Epoch(report), &self.model);
            self.state.epoch += 1;
            self.state.loader = None;
            self.state.sums = EpochSums::default();
            let checkpoint = self.save(settings, watch)?;
            if control == Control::Stop && self.state.epoch < settings.epochs {
                return Ok(self.finish(test, Ending::Stopped, checkpoint));
            }
            saved = Some(checkpoint);
        }
        let checkpoint = match saved {
            Some(checkpoint) => checkpoint,
            None => self.save(settings, watch)?,
        };
        Ok(self.finish(test, Ending::Complete, checkpoint))
    }

    fn save(
        &self,
        settings: &RunSettings,
        watch: &mut dyn FnMut(&Event, &M) -> Control,
    ) -> Result<PathBuf, TrainError> {
        let folder = &settings.checkpoints.folder;
        let failed =
            |source: CheckpointError| TrainError::Checkpoint { path: folder.clone(), source };
        let path = checkpoint::save(folder, &self.model, &self.optimizer.0, &self.state)
            .map_err(failed)?;
        checkpoint::prune(folder, settings.checkpoints.keep_last).map_err(failed)?;
        watch(&Event::Saved { path: path.clone(), step: self.state.step }, &self.model);
        Ok(path)
    }

    fn finish(self, test: Option<Evaluation>, ending: Ending, checkpoint: PathBuf) -> Finished<M> {
        Finished { model: self.model, steps: self.state.step, test, ending, checkpoint }
    }
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
