//! A run: epochs of steps with evaluation, checkpoints and a clean stop.

use std::path::{Path, PathBuf};
use std::time::Instant;

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, Tensor};
use updraft_data::{Collate, ImageCollate, Loader};

use crate::checkpoint::{self, CheckpointError, EpochSums, RunState, Snapshot};
use crate::ema::Ema;
use crate::epoch::{Course, Watch};
use crate::error::TrainError;
use crate::events::{Control, EpochReport, Evaluation, Event};
use crate::passes::Passes;
use crate::settings::RunSettings;
use crate::target::TrainBatch;

/// A model on its way through a run.
#[derive(Debug)]
pub struct Run<M> {
    pub(crate) model: M,
    pub(crate) optimizer: OptimizerBox,
    pub(crate) state: RunState,
    average: Option<M>,
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
    /// The model as the last update left it.
    pub model: M,
    /// The model to use, on the plain device: after early stopping that of the best epoch, else
    /// the average of the parameters if one is kept, with recomputed batch norms if they are.
    pub served: M,
    /// Updates made.
    pub steps: u64,
    /// The test data's verdict on the served model, if it was scored.
    pub test: Option<Evaluation>,
    /// Why the run is over.
    pub ending: Ending,
    /// The checkpoint that holds the served model.
    pub checkpoint: PathBuf,
}

/// Why a run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All epochs were run.
    Complete,
    /// Epochs stopped getting better; the best one's model is served.
    Early,
    /// The watcher answered [`Control::Stop`]; the newest checkpoint resumes exactly there.
    Stopped,
}

/// The data of a run; without a parameter, images.
#[derive(Debug)]
pub struct RunData<'a, C: Collate = ImageCollate> {
    /// What is learned from.
    pub train: &'a Loader<C>,
    /// What every epoch is scored on, if anything.
    pub test: Option<&'a Loader<C>>,
}

// Not derived: that would ask the samples to be copied too.
impl<C: Collate> Clone for RunData<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Collate> Copy for RunData<'_, C> {}

impl<M: Module> Run<M> {
    /// A run that starts at its first step.
    #[must_use]
    pub fn new(model: M, optimizer: ModuleOptimizer) -> Self {
        let optimizer = OptimizerBox(optimizer);
        Self { model, optimizer, state: RunState::default(), average: None }
    }

    /// A run that goes on where a checkpoint was written.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`]; the checkpoint is left as it is.
    pub fn resume(path: &Path, model: M, optimizer: ModuleOptimizer) -> Result<Self, TrainError> {
        let loaded = checkpoint::load(path, model, optimizer)
            .map_err(|source| TrainError::Checkpoint { path: path.to_owned(), source })?;
        Ok(Self {
            model: loaded.model,
            optimizer: OptimizerBox(loaded.optimizer),
            state: loaded.state,
            average: loaded.average,
        })
    }

    /// Updates made so far.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.state.step
    }

    /// Trains to the end of the last epoch, or until `watch` answers [`Control::Stop`].
    ///
    /// `device` carries autodiff and holds the model; with burn's strategy of recomputing
    /// element-wise operations (`Device::gradient_checkpointing`) if the model was made so. The
    /// device's random state is seeded from (seed, step) before every step, so a resumed run draws
    /// what the unbroken one drew.
    /// `watch` sees every event with the model as it then is; its answer counts after every event
    /// but [`Event::Saving`] and [`Event::Saved`].
    ///
    /// # Errors
    /// [`TrainError`]; checkpoints already on disk stay.
    ///
    /// # Panics
    /// As [`TrainBatch::into_tensors`], and if targets are values and the outputs have not their
    /// shape.
    pub fn train<C: Collate, const D: usize>(
        self,
        settings: &RunSettings,
        data: RunData<'_, C>,
        device: &Device,
        forward: &dyn Fn(&M, Tensor<D>) -> Tensor<2>,
        watch: &mut dyn FnMut(&Event, &M) -> Control,
    ) -> Result<Finished<M>, TrainError>
    where
        C::Batch: TrainBatch<D>,
    {
        self.train_passes(settings, data, device, Passes::whole(forward), watch)
    }

    /// [`train`](Self::train), with activations recomputed where `passes` has segments.
    ///
    /// # Errors
    /// As [`train`](Self::train).
    ///
    /// # Panics
    /// As [`train`](Self::train).
    pub fn train_passes<C: Collate, const D: usize>(
        self,
        settings: &RunSettings,
        data: RunData<'_, C>,
        device: &Device,
        passes: Passes<'_, M, D>,
        watch: &mut dyn FnMut(&Event, &M) -> Control,
    ) -> Result<Finished<M>, TrainError>
    where
        C::Batch: TrainBatch<D>,
    {
        settings.validate()?;
        let policy = settings.step.policy;
        let precision = |source| TrainError::Precision { source };
        policy.check_device(device).map_err(precision)?;
        policy.check_norms(&self.model, passes.is_cast).map_err(precision)?;
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
        if settings.compares_epochs() && settings.criterion.needs_test_data() && data.test.is_none()
        {
            return Err(TrainError::Setting {
                name: "criterion",
                value: "about test data, and there is none".to_owned(),
                expected: "`TrainLoss`, or test data",
            });
        }
        let per_epoch = batches.div_ceil(settings.accumulate) as u64;
        let steps = settings.epochs * per_epoch;
        let started = Instant::now();
        let course = Course { settings, data, device, passes, started, per_epoch, steps };
        self.follow(&course, watch)
    }

    fn follow<C: Collate, const D: usize>(
        mut self,
        course: &Course<'_, M, C, D>,
        watch: Watch<'_, M>,
    ) -> Result<Finished<M>, TrainError>
    where
        C::Batch: TrainBatch<D>,
    {
        let settings = course.settings;
        let mut ema = settings.ema.map(|config| match self.average.take() {
            Some(average) => {
                let updates = self.state.ema_updates.unwrap_or_default();
                Ema::resume(config, &self.model, average, updates)
            }
            None => Ema::new(config, &self.model),
        });
        let mut last = None;
        while self.state.epoch < settings.epochs && !self.is_over(settings) {
            #[cfg(feature = "tracing")]
            let _span = tracing::info_span!("epoch", epoch = self.state.epoch).entered();
            let (mut run, pass) = self.pass(course, &mut ema, watch)?;
            let Some(pass) = pass else { return run.stop(course, ema.as_ref(), watch) };
            let Some((served, test)) = run.judge(course, ema.as_ref(), watch)? else {
                return run.stop(course, ema.as_ref(), watch);
            };
            let report = run.report(pass, test);
            // The report comes before the checkpoint: a run killed between the two repeats it.
            let control = watch(&Event::Epoch(report.clone()), &run.model);
            run.close(settings, &report);
            let checkpoint = run.save(settings, ema.as_ref(), served.as_ref(), watch)?;
            let served = run.served(ema.as_ref(), served);
            self = run;
            if control == Control::Stop && self.state.epoch < settings.epochs {
                return Ok(self.finish(served, test, Ending::Stopped, checkpoint));
            }
            last = Some((served, checkpoint));
        }
        if self.is_over(settings) {
            return self.back_to_the_best(settings);
        }
        let test = self.state.test;
        let (served, checkpoint) = match last {
            Some(last) => last,
            None => self.already_there(settings)?,
        };
        Ok(self.finish(served, test, Ending::Complete, checkpoint))
    }

    /// Brings the state to the beginning of the next epoch.
    fn close(&mut self, settings: &RunSettings, report: &EpochReport) {
        let state = &mut self.state;
        state.epoch += 1;
        state.loader = None;
        state.sums = EpochSums::default();
        state.test = report.test;
        let score = settings.criterion.value(report);
        state.score_bits = score.map(f64::to_bits);
        let Some(score) = score else { return };
        let least = settings.early_stop.map_or(0.0, |stop| stop.least_gain);
        state.best.take(settings.criterion, score, least);
        if let Some(plateau) = &settings.plateau {
            state.plateau.take(plateau, settings.criterion, score);
        }
    }

    fn is_over(&self, settings: &RunSettings) -> bool {
        settings.early_stop.is_some_and(|stop| self.state.best.waited >= stop.patience)
    }

    pub(crate) fn save(
        &mut self,
        settings: &RunSettings,
        ema: Option<&Ema<M>>,
        served: Option<&M>,
        watch: Watch<'_, M>,
    ) -> Result<PathBuf, TrainError> {
        let folder = &settings.checkpoints.folder;
        let failed =
            |source: CheckpointError| TrainError::Checkpoint { path: folder.clone(), source };
        watch(&Event::Saving { step: self.state.step }, &self.model);
        self.state.ema_updates = ema.map(Ema::updates);
        let snapshot = Snapshot {
            model: &self.model,
            optimizer: &self.optimizer.0,
            state: &self.state,
            average: ema.map(Ema::average),
            served,
        };
        let path = checkpoint::save(folder, &snapshot).map_err(failed)?;
        checkpoint::prune(folder, &settings.keep()).map_err(failed)?;
        watch(&Event::Saved { path: path.clone(), step: self.state.step }, &self.model);
        // What an epoch's end left belongs to that checkpoint alone.
        self.state.score_bits = None;
        Ok(path)
    }

    fn stop<C: Collate, const D: usize>(
        mut self,
        course: &Course<'_, M, C, D>,
        ema: Option<&Ema<M>>,
        watch: Watch<'_, M>,
    ) -> Result<Finished<M>, TrainError> {
        let checkpoint = self.save(course.settings, ema, None, watch)?;
        let test = self.state.test;
        let served = self.served(ema, None);
        Ok(self.finish(served, test, Ending::Stopped, checkpoint))
    }

    fn served(&self, ema: Option<&Ema<M>>, recomputed: Option<M>) -> M {
        let average = || ema.map(|ema| ema.average().clone());
        recomputed.or_else(average).unwrap_or_else(|| self.model.valid())
    }

    /// What a run that is resumed at its end left: nothing is to be done.
    fn already_there(&self, settings: &RunSettings) -> Result<(M, PathBuf), TrainError> {
        let folder = &settings.checkpoints.folder;
        let failed =
            |source: CheckpointError| TrainError::Checkpoint { path: folder.clone(), source };
        let newest = checkpoint::list(folder).map_err(failed)?.pop();
        let path = newest.unwrap_or_else(|| folder.clone());
        let served = checkpoint::load_model(&path, self.model.valid()).map_err(failed)?;
        Ok((served, path))
    }

    fn back_to_the_best(self, settings: &RunSettings) -> Result<Finished<M>, TrainError> {
        let folder = &settings.checkpoints.folder;
        let failed =
            |source: CheckpointError| TrainError::Checkpoint { path: folder.clone(), source };
        let best = checkpoint::best(folder, settings.criterion).map_err(failed)?;
        let newest = || checkpoint::list(folder).map(|mut found| found.pop());
        let path = match best {
            Some(best) => best,
            // Every epoch's number was NaN: no epoch is better than the last.
            None => newest().map_err(failed)?.unwrap_or_else(|| folder.clone()),
        };
        let loaded = checkpoint::load_model(&path, self.model.valid()).map_err(failed)?;
        let test = checkpoint::state(&path).map_err(failed)?.test;
        Ok(self.finish(loaded, test, Ending::Early, path))
    }

    fn finish(
        self,
        served: M,
        test: Option<Evaluation>,
        ending: Ending,
        checkpoint: PathBuf,
    ) -> Finished<M> {
        Finished { model: self.model, served, steps: self.state.step, test, ending, checkpoint }
    }
}
