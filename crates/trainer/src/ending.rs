//! Checkpoints of a run, and the model that it serves at its end.

use std::path::PathBuf;

use burn::module::Module;

use crate::checkpoint::{self, CheckpointError, Snapshot};
use crate::ema::Ema;
use crate::epoch::{Course, Watch};
use crate::error::TrainError;
use crate::events::{Control, Event};
use crate::metric::Evaluation;
use crate::ranks::Ranks;
use crate::run::{Ending, Finished, Run};
use crate::settings::RunSettings;
use crate::task::Task;

impl<M: Module> Run<M> {
    pub(crate) fn save(
        &mut self,
        settings: &RunSettings,
        ema: Option<&Ema<M>>,
        served: Option<&M>,
        ranks: &mut Ranks,
        watch: Watch<'_, M>,
    ) -> Result<PathBuf, TrainError> {
        let folder = &settings.checkpoints.folder;
        ranks.first_does(|| match folder.is_dir() {
            true => Ok(()),
            false => Err(CheckpointError::Gone { path: folder.clone() }.into()),
        })?;
        let step = self.state.step;
        let control = watch(&Event::Saving { step }, &self.model);
        self.state.ema_updates = ema.map(Ema::updates);
        let snapshot = Snapshot {
            model: &self.model,
            optimizer: &self.optimizer.0,
            state: &self.state,
            average: ema.map(Ema::average),
            slow: self.slow.as_deref(),
            served,
        };
        let path = ranks.first_does(|| {
            if control == Control::Abort {
                return Err(TrainError::Aborted { step });
            }
            let path = checkpoint::save(folder, &snapshot)?;
            checkpoint::prune(folder, &settings.keep())?;
            Ok(path)
        })?;
        watch(&Event::Saved { path: path.clone(), step }, &self.model);
        // The values at an epoch's end belong only to that checkpoint.
        self.state.scores.clear();
        Ok(path)
    }

    pub(crate) fn stop<T: Task<M>>(
        mut self,
        course: &Course<'_, T, T::Batch>,
        ema: Option<&Ema<M>>,
        ranks: &mut Ranks,
        watch: Watch<'_, M>,
    ) -> Result<Finished<M>, TrainError> {
        let checkpoint = self.save(course.settings, ema, None, ranks, watch)?;
        let test = self.state.test.clone();
        let served = self.served(ema, None);
        Ok(self.finish(served, test, Ending::Stopped, checkpoint))
    }

    pub(crate) fn served(&self, ema: Option<&Ema<M>>, recomputed: Option<M>) -> M {
        let average = || ema.map(|ema| ema.average().clone());
        recomputed.or_else(average).unwrap_or_else(|| self.model.valid())
    }

    /// The model of a run that is resumed after its last epoch.
    pub(crate) fn load_finished(&self, settings: &RunSettings) -> Result<(M, PathBuf), TrainError> {
        let folder = &settings.checkpoints.folder;
        let newest = checkpoint::list(folder)?.pop();
        let path = newest.unwrap_or_else(|| folder.clone());
        let served = checkpoint::load_model(&path, self.model.valid())?;
        Ok((served, path))
    }

    /// Ends the run with the model of a checkpoint.
    pub(crate) fn finish_with(
        self,
        path: PathBuf,
        ending: Ending,
    ) -> Result<Finished<M>, TrainError> {
        let loaded = checkpoint::load_model(&path, self.model.valid())?;
        let test = checkpoint::state(&path)?.test;
        Ok(self.finish(loaded, test, ending, path))
    }

    pub(crate) fn finish(
        self,
        served: M,
        test: Option<Evaluation>,
        ending: Ending,
        checkpoint: PathBuf,
    ) -> Finished<M> {
        Finished { model: self.model, served, steps: self.state.step, test, ending, checkpoint }
    }
}

/// The best checkpoint by the metric of early stopping.
pub(crate) fn early_stop_checkpoint(settings: &RunSettings) -> Result<PathBuf, TrainError> {
    let folder = &settings.checkpoints.folder;
    let stop = settings.early_stop.as_ref();
    let metric = stop.map_or(&settings.criterion, |stop| stop.metric_or(&settings.criterion));
    Ok(match checkpoint::best(folder, metric)? {
        Some(best) => best,
        // The metric was NaN in every epoch: no epoch is better than the last.
        None => checkpoint::list(folder)?.pop().unwrap_or_else(|| folder.clone()),
    })
}
