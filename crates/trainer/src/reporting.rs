//! Reports of updates, whose numbers are added to those of the epoch.

use std::time::Instant;

use burn::module::Module;
use updraft_precision::LossScaler;

use crate::ema::Ema;
use crate::epoch::{Course, Pass, Watch, micros};
use crate::error::TrainError;
use crate::events::{Control, Event, StepReport};
use crate::guard::{NonFinite, Skipped};
use crate::metric::{LossSums, Score};
use crate::monitor::StepTimes;
use crate::ranks::Ranks;
use crate::run::Run;
use crate::settings::RunSettings;
use crate::step::StepOutcome;
use crate::task::Task;
use crate::transfer::Upload;
use crate::unread::{ReadUpdate, Reading, UnreadUpdate};

/// An update that was made, without the numbers that come from the device.
pub(crate) struct Made {
    pub(crate) step: u64,
    pub(crate) learning_rate: f64,
    pub(crate) loss_scale: Option<f64>,
    pub(crate) at_us: u64,
    pub(crate) step_us: u64,
    pub(crate) data_wait_us: u64,
    pub(crate) copy_us: u64,
    pub(crate) upload: Option<Upload>,
}

impl<M: Module> Run<M> {
    /// Reads the numbers of updates and reports each; the time of the read belongs to the last. The
    /// loss scale and the average of the parameters follow what the device decided.
    pub(crate) fn report_unread<T: Task<M>>(
        &mut self,
        course: &Course<'_, T, T::Batch>,
        unread: Vec<(Made, UnreadUpdate)>,
        (scaler, ema): (&mut LossScaler, Option<&mut Ema<M>>),
        pass: &mut Pass<T::Score>,
        ranks: &mut Ranks,
        watch: Watch<'_, M>,
    ) -> Result<Control, TrainError> {
        if unread.is_empty() {
            return Ok(Control::Continue);
        }
        let (mut made, updates): (Vec<_>, Vec<_>) = unread.into_iter().unzip();
        let reading = Instant::now();
        let non_finite = course.settings.step.non_finite;
        let compared = Reading { non_finite, scaler: &mut *scaler, model: &self.model };
        let mut outcomes = UnreadUpdate::read_all(updates, compared);
        let read_us = micros(reading);
        if let (Some(made), Some(Ok(read))) = (made.last_mut(), outcomes.last_mut()) {
            made.step_us += read_us;
            read.outcome.times.backward_us += read_us;
        }
        self.state.loss_scale = (!scaler.is_none()).then(|| scaler.state());
        if let Some(applied) = &mut self.state.applied {
            let is_applied = |read: &&ReadUpdate<_>| read.outcome.skipped.is_none();
            let count = outcomes.iter().flatten().filter(is_applied).count() as u64;
            *applied += count;
            ema.into_iter().for_each(|ema| ema.count(count));
        }
        let mut control = Control::Continue;
        for (mut made, read) in made.into_iter().zip(outcomes) {
            let ReadUpdate { outcome, loss_scale } = read?;
            made.loss_scale = loss_scale;
            control = self.report_update(course, made, outcome, pass, ranks, watch)?;
        }
        Ok(control)
    }

    /// Adds the numbers of an update to those of the epoch and reports it.
    pub(crate) fn report_update<T: Task<M>>(
        &mut self,
        course: &Course<'_, T, T::Batch>,
        made: Made,
        outcome: StepOutcome<T::Score>,
        pass: &mut Pass<T::Score>,
        ranks: &mut Ranks,
        watch: Watch<'_, M>,
    ) -> Result<Control, TrainError> {
        let (task, settings, step) = (course.task, course.settings, made.step);
        match &outcome.skipped {
            Some(Skipped::NotFinite { tensor }) => self.count_skip(settings, step, tensor)?,
            // The loss scale has its own limit.
            Some(Skipped::Overflow { .. }) => {}
            None => {
                self.state.skipped_in_a_row = 0;
                self.state.sums.add(outcome.loss, &outcome.parts, outcome.samples);
                pass.score.merge(&outcome.score);
            }
        }
        let Made { data_wait_us, copy_us, .. } = made;
        let times = StepTimes { data_wait_us, copy_us, ..outcome.times };
        pass.times.add(&times);
        pass.samples += outcome.samples;
        let mut sums = LossSums::default();
        sums.add(outcome.loss, &outcome.parts, outcome.samples);
        let values = task.values(&outcome.score);
        let report = StepReport {
            epoch: self.state.epoch,
            step,
            steps: course.steps,
            samples: outcome.samples,
            loss: outcome.loss,
            metrics: sums.evaluation(&course.metrics, &values).metrics.split_off(1),
            learning_rate: made.learning_rate,
            gradient_norm: outcome.gradient_norm,
            loss_scale: made.loss_scale,
            skipped: outcome.skipped.map(|why| why.to_string()),
            at_us: made.at_us,
            step_us: made.step_us,
            times,
            upload: made.upload,
        };
        Ok(ranks.after_update(watch(&Event::Step(report), &self.model)))
    }

    fn count_skip(
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
}
