//! A run: epochs of updates with evaluation, checkpoints, stop and resume.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use updraft_precision::Norm;

use crate::checkpoint::{self, CheckpointError, RunState, counted_updates};
use crate::comparison::Comparisons;
use crate::ema::Ema;
use crate::ending::early_stop_checkpoint;
use crate::epoch::{Course, Watch};
use crate::error::TrainError;
use crate::events::{Control, EpochReport, Event};
use crate::freeze::Freeze;
use crate::metric::{Evaluation, LossSums};
use crate::ranks::Ranks;
use crate::settings::RunSettings;
use crate::stream::BatchStream;
use crate::task::{Mode, StepContext, Task, metric_specs};

/// The training of a model: its optimizer, its progress and the model itself.
#[derive(Debug)]
pub struct Run<M> {
    pub(crate) model: M,
    pub(crate) optimizer: OptimizerBox,
    pub(crate) state: RunState,
    average: Option<M>,
    /// The slow weights of a lookahead, on the device without autodiff; in a box, because a run is
    /// moved on the stack.
    pub(crate) slow: Option<Box<M>>,
}

/// burn's optimizer has no `Debug`; this names it.
pub(crate) struct OptimizerBox(pub(crate) ModuleOptimizer);

impl std::fmt::Debug for OptimizerBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ModuleOptimizer")
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Finished<M> {
    /// The model after the last update.
    pub model: M,
    /// The served model, on the device without autodiff: with early stopping that of the best epoch
    /// of a run that was not stopped, otherwise the average of the parameters if one is kept, with
    /// recomputed batch norms if enabled.
    pub served: M,
    /// Updates made.
    pub steps: u64,
    /// The metrics of the served model on the test data, if there is any.
    pub test: Option<Evaluation>,
    /// Why the run ended.
    pub ending: Ending,
    /// The checkpoint of the served model.
    pub checkpoint: PathBuf,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All epochs were run; with early stopping the model of the best one is served.
    Complete,
    /// Epochs no longer improved; the model of the best one is served.
    Early,
    /// The observer returned [`Control::Stop`]; the newest checkpoint resumes from there.
    Stopped,
}

/// The data of a run whose batches are of type `B`.
pub struct RunData<'a, B> {
    /// The training data.
    pub train: &'a dyn BatchStream<B>,
    /// The data that every epoch is evaluated on, if any.
    pub test: Option<&'a dyn BatchStream<B>>,
}

impl<B> std::fmt::Debug for RunData<'_, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunData")
            .field("train_samples", &self.train.samples())
            .field("test_samples", &self.test.map(BatchStream::samples))
            .finish()
    }
}

// Not derived: that would require `B: Copy`.
impl<B> Clone for RunData<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for RunData<'_, B> {}

impl<M: Module> Run<M> {
    /// A run that starts at its first step.
    #[must_use]
    pub fn new(model: M, optimizer: ModuleOptimizer) -> Self {
        let optimizer = OptimizerBox(optimizer);
        Self { model, optimizer, state: RunState::default(), average: None, slow: None }
    }

    /// Resumes a run from a checkpoint.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`]; the checkpoint is not changed.
    pub fn resume(path: &Path, model: M, optimizer: ModuleOptimizer) -> Result<Self, TrainError> {
        let loaded = checkpoint::load(path, model, optimizer)?;
        Ok(Self {
            model: loaded.model,
            optimizer: OptimizerBox(loaded.optimizer),
            state: loaded.state,
            average: loaded.average,
            slow: loaded.slow.map(Box::new),
        })
    }

    /// Updates made so far.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.state.step
    }

    /// Where the run is, with the position in the stream of batches.
    #[must_use]
    pub const fn state(&self) -> &RunState {
        &self.state
    }

    /// Trains to the end of the last epoch, or until `watch` returns [`Control::Stop`].
    ///
    /// `device` has autodiff and is that of the model, with burn's recomputation of element-wise
    /// operations (`Device::gradient_checkpointing`) if the model was created with it. The device's
    /// random state is seeded from (seed, step) before every step, so a resumed run draws the same
    /// random numbers as an uninterrupted one. `watch` receives every event with the current model,
    /// which is that after the last of the updates that are read together
    /// ([`RunSettings::read_every`]); its return value is ignored after [`Event::Saved`], and after
    /// [`Event::Saving`] unless it is [`Control::Abort`].
    ///
    /// # Errors
    /// [`TrainError`]; checkpoints already on disk stay.
    ///
    /// # Panics
    /// As the task.
    pub fn train<T: Task<M>>(
        self,
        task: &T,
        settings: &RunSettings,
        data: RunData<'_, T::Batch>,
        device: &Device,
        watch: &mut dyn FnMut(&Event, &M) -> Control,
    ) -> Result<Finished<M>, TrainError> {
        let mut ranks = Ranks::alone();
        self.train_on_ranks(task, settings, data, device, &mut ranks, watch)
    }

    /// As [`train`](Self::train), together with other ranks: each calls it with its own part of
    /// every batch (`StreamConfig::part` of a loader) and with the same settings, and returns the
    /// same model.
    ///
    /// The parameters are those of rank 0. Losses and scores are those of all ranks. Batch norms
    /// normalize by the statistics of a rank's own part, unless they are
    /// [synchronized](Ranks::with_synchronized_batch_norms); the running statistics are those of
    /// the batches of all ranks after every update: variances include the differences between the
    /// means of ranks. Rank 0 alone writes checkpoints, and all of them read the
    /// folder. A request to stop takes effect after the next update. With one rank it is
    /// [`train`](Self::train), bit for bit; the same number of ranks gives the same bits, another
    /// number another rounding. Random numbers of the device differ from rank to rank.
    ///
    /// # Errors
    /// As [`train`](Self::train); [`TrainError::Collective`] if a rank is lost or has other
    /// settings, another model or other data, [`TrainError::Rank`] if rank 0 cannot write a
    /// checkpoint, [`TrainError::NotSynchronized`] for a layer that cannot synchronize its
    /// statistics, [`TrainError::Setting`] for recomputed batch norms, which need a single rank.
    ///
    /// # Panics
    /// As the task.
    pub fn train_on_ranks<T: Task<M>>(
        mut self,
        task: &T,
        settings: &RunSettings,
        data: RunData<'_, T::Batch>,
        device: &Device,
        ranks: &mut Ranks,
        watch: &mut dyn FnMut(&Event, &M) -> Control,
    ) -> Result<Finished<M>, TrainError> {
        settings.validate()?;
        let policy = settings.step.policy;
        policy.check_device(device)?;
        policy.check_norms(&self.model, |norm: &Norm| task.casts(norm))?;
        Freeze::check(&settings.step.freeze, &self.model)?;
        #[cfg(feature = "tracing")]
        let watch = &mut |event: &Event, model: &M| {
            event.trace();
            watch(event, model)
        };
        let batches = data.train.batches();
        if batches == 0 {
            let (samples, batch) = (data.train.samples(), data.train.batch());
            return Err(TrainError::NoBatches { samples, batch });
        }
        let metrics = metric_specs(task);
        let comparisons = Comparisons::new(settings, &metrics, data.test.is_some())?;
        let per_epoch = batches.div_ceil(settings.accumulate) as u64;
        let steps = settings.epochs.checked_mul(per_epoch).ok_or_else(|| {
            TrainError::setting(
                "epochs",
                settings.epochs,
                format!("at most {}", u64::MAX / per_epoch),
            )
        })?;
        if !ranks.is_alone() {
            settings.check_for_several_ranks()?;
            ranks.agree_on_exchange()?;
            let (test, state) = (data.test.map(BatchStream::samples), &self.state);
            ranks.agree(&[
                ("the settings of the run", format!("{settings:?}")),
                ("the number of batches (leave out a last one with too few samples)", {
                    batches.to_string()
                }),
                ("the number of training and test samples", {
                    format!("{} and {test:?}", data.train.samples())
                }),
                ("the step to start from", state.step.to_string()),
            ])?;
            self.model = ranks.with_first_parameters(self.model)?;
        }
        // Created once: if it is missing later, the run was moved or removed.
        let folder = &settings.checkpoints.folder;
        fs::create_dir_all(folder).map_err(|cause| CheckpointError::Io {
            action: "create",
            path: folder.clone(),
            cause,
        })?;
        let reading = self.read_interval(settings, ranks, &mut *watch);
        self.state.applied = reading.decides.then(|| counted_updates(&self.optimizer.0));
        let started = Instant::now();
        let course = Course {
            task,
            settings,
            data,
            device,
            metrics,
            comparisons,
            started,
            reading,
            per_epoch,
            steps,
        };
        let (step, epoch, seed) = (self.state.step, self.state.epoch, settings.seed);
        let context = StepContext { mode: Mode::Training, epoch, step, seed };
        ranks.follow_batch_norms(task, &self.model, data.train, (device, policy), context)?;
        self.follow(&course, ranks, watch)
    }

    fn follow<T: Task<M>>(
        mut self,
        course: &Course<'_, T, T::Batch>,
        ranks: &mut Ranks,
        watch: Watch<'_, M>,
    ) -> Result<Finished<M>, TrainError> {
        let settings = course.settings;
        let mut ema = settings.ema.map(|config| match self.average.take() {
            Some(average) => {
                let updates = self.state.ema_updates.unwrap_or_default();
                Ema::resume(config, &self.model, average, updates)
            }
            None => Ema::new(config, &self.model),
        });
        self.keep_slow_weights(settings.lookahead.is_some());
        let mut last = None;
        while self.state.epoch < settings.epochs && !self.is_over(settings) {
            #[cfg(feature = "tracing")]
            let _span = tracing::info_span!("epoch", epoch = self.state.epoch).entered();
            let (mut run, pass) = self.pass(course, &mut ema, ranks, watch)?;
            let Some(pass) = pass else { return run.stop(course, ema.as_ref(), ranks, watch) };
            let Some((served, test)) = run.serve(course, ema.as_ref(), ranks, watch)? else {
                return run.stop(course, ema.as_ref(), ranks, watch);
            };
            let report = run.report(course, pass, test.clone(), ranks)?;
            // The report comes before the checkpoint: a run killed between the two repeats it.
            let control = ranks.decide(watch(&Event::Epoch(report.clone()), &run.model))?;
            run.close(course, &report);
            let checkpoint = run.save(settings, ema.as_ref(), served.as_ref(), ranks, watch)?;
            let served = run.served(ema.as_ref(), served);
            self = run;
            if control == Control::Stop && self.state.epoch < settings.epochs {
                return Ok(self.finish(served, test, Ending::Stopped, checkpoint));
            }
            last = Some((served, test, checkpoint));
        }
        if settings.early_stop.is_some() {
            let ending = if self.is_over(settings) { Ending::Early } else { Ending::Complete };
            // One rank decides: a shared folder may show files late to the others.
            let best = ranks.first_does(|| early_stop_checkpoint(settings))?;
            return match last {
                Some((served, test, newest)) if newest == best => {
                    Ok(self.finish(served, test, ending, newest))
                }
                _ => self.finish_with(best, ending),
            };
        }
        let (served, test, checkpoint) = match last {
            Some(last) => last,
            None => {
                let (served, checkpoint) = self.load_finished(settings)?;
                (served, self.state.test.clone(), checkpoint)
            }
        };
        Ok(self.finish(served, test, Ending::Complete, checkpoint))
    }

    /// Moves the state to the beginning of the next epoch.
    fn close<T: Task<M>>(&mut self, course: &Course<'_, T, T::Batch>, report: &EpochReport) {
        let (settings, comparisons) = (course.settings, &course.comparisons);
        let state = &mut self.state;
        state.epoch += 1;
        state.loader = None;
        state.sums = LossSums::default();
        state.epoch_score = serde_json::Value::Null;
        state.test = report.test.clone();
        state.scores = comparisons.scores(report);
        if let Some(value) = comparisons.early_stop.value(report) {
            let least = settings.early_stop.as_ref().map_or(0.0, |stop| stop.least_gain);
            state.best.take(&comparisons.early_stop, value, least);
        }
        if let Some(plateau) = &settings.plateau
            && let Some(value) = comparisons.plateau.value(report)
        {
            state.plateau.take(plateau, &comparisons.plateau, value);
        }
    }

    fn is_over(&self, settings: &RunSettings) -> bool {
        settings.early_stop.as_ref().is_some_and(|stop| self.state.best.waited >= stop.patience)
    }
}
