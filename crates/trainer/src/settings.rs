//! The settings of a run and their checks.

use std::path::PathBuf;

use updraft_precision::LossScale;

use crate::checkpoint::Keep;
use crate::comparison::Comparisons;
use crate::criterion::Criterion;
use crate::early_stop::EarlyStop;
use crate::ema::EmaConfig;
use crate::error::TrainError;
use crate::guard::NonFinite;
use crate::lookahead::Lookahead;
use crate::metric::MetricSpec;
use crate::plateau::Plateau;
use crate::schedule::Schedule;
use crate::step::StepSettings;
use crate::transfer::Transfer;

/// The settings of a run.
///
/// [`RunSettings::new`] sets defaults; change the fields that differ:
///
/// ```
/// use updraft_trainer::{RunSettings, Schedule};
///
/// let mut settings = RunSettings::new(10, "checkpoints");
/// settings.learning_rate = 0.01;
/// settings.schedule = Schedule::WarmupCosine { warmup: 0.1, floor: 0.0 };
/// settings.criterion = "test-accuracy".parse()?;
/// settings.validate()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RunSettings {
    /// Passes over the training data.
    pub epochs: u64,
    /// The seed of all random numbers on the device; streams of batches have their own seeds.
    pub seed: u64,
    /// The learning rate's peak.
    pub learning_rate: f64,
    /// How the learning rate changes.
    pub schedule: Schedule,
    /// Reduces the learning rate further when epochs no longer improve.
    pub plateau: Option<Plateau>,
    /// Precision, clipping and checks of each update.
    pub step: StepSettings,
    /// Whether and how the loss is scaled up for the backward pass.
    pub loss_scale: LossScale,
    /// Batches whose mean gradient makes an update; the last update of an epoch may have fewer.
    pub accumulate: usize,
    /// A moving average of the parameters, which is evaluated and served.
    pub ema: Option<EmaConfig>,
    /// Slow weights, to which the model returns at intervals.
    pub lookahead: Option<Lookahead>,
    /// The source of the batch-norm statistics of the served model.
    pub batch_norm: BatchNormStatistics,
    /// The metric by which one epoch is better than another.
    pub criterion: Criterion,
    /// Ends the run when epochs no longer improve.
    pub early_stop: Option<EarlyStop>,
    /// When a training batch is moved to the device; it changes no result.
    pub transfer: Transfer,
    /// The number of updates whose loss, score and gradient norm are read from the device together,
    /// by one read. [`Event::Step`](crate::Event::Step) is reported for all of them after the read,
    /// and a stop takes effect then; the end of an epoch and a checkpoint end a group, too.
    ///
    /// With `step.clip_norm`, `loss_scale` or skipped updates, the device decides about each update:
    /// a skipped one changes nothing, to the bit. It computes the norm and the factor of the
    /// gradients in f32, the host in f64, so that clipping, and loss scales that are no power of two,
    /// differ by rounding; everything else has the same bits as with 1. It needs an optimizer that
    /// follows the device, and a single rank: otherwise each update is read, and
    /// [`Event::ReadEach`](crate::Event::ReadEach) has the reason.
    ///
    /// More than 1 keeps an asynchronous device busy; one that computes on the calling thread, such
    /// as flex, gains nothing.
    pub read_every: u64,
    /// The location and the schedule of checkpoints.
    pub checkpoints: CheckpointSettings,
}

/// The source of batch-norm statistics for evaluation and for the served model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BatchNormStatistics {
    /// The running averages of training.
    #[default]
    Running,
    /// Recomputed over a number of training batches at each epoch's end; `usize::MAX` means all.
    Recomputed {
        /// The number of batches, at least 1.
        batches: usize,
    },
}

/// The location and the schedule of checkpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointSettings {
    /// Their folder.
    pub folder: PathBuf,
    /// Steps between checkpoints within an epoch; each epoch ends with one in any case.
    pub every_steps: Option<u64>,
    /// How many of the newest are kept, at least one.
    pub keep_last: usize,
    /// How many of the best are kept in addition; early stopping keeps the one that it serves, too.
    pub keep_best: usize,
    /// The metric by which they are the best; `None` is [`RunSettings::criterion`].
    pub best_metric: Option<Criterion>,
}

impl CheckpointSettings {
    /// One checkpoint at each epoch's end, of which the last two are kept.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            every_steps: None,
            keep_last: 2,
            keep_best: 0,
            best_metric: None,
        }
    }
}

impl RunSettings {
    /// A number of epochs with checkpoints in a folder: seed 1, a constant learning rate of 0.001,
    /// f32, one batch an update, a read after each update, no average, no early stopping, `test-loss` as criterion.
    #[must_use]
    pub fn new(epochs: u64, checkpoints: impl Into<PathBuf>) -> Self {
        Self {
            epochs,
            seed: 1,
            learning_rate: 1e-3,
            schedule: Schedule::Constant,
            plateau: None,
            step: StepSettings::default(),
            loss_scale: LossScale::None,
            accumulate: 1,
            ema: None,
            lookahead: None,
            batch_norm: BatchNormStatistics::default(),
            criterion: Criterion::default(),
            early_stop: None,
            transfer: Transfer::default(),
            read_every: 1,
            checkpoints: CheckpointSettings::new(checkpoints),
        }
    }

    /// Checks every number that has a range.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the field that is out of range, or [`TrainError::Precision`]
    /// if the policy cannot train with this loss scale.
    pub fn validate(&self) -> Result<(), TrainError> {
        const ABOVE: &str = "a finite number above 0 in the range of f32, 1.2e-38 to 3.4e38";
        const RATE: &str = "a number above 0 in the range of f32, 1.2e-38 to 3.4e38";
        let rate = self.learning_rate;
        // Optimizers compute in f32, where a smaller one is 0 and a larger one is infinite.
        let is_rate = rate > 0.0 && (rate as f32).is_normal();
        let norm = self.step.clip_norm.unwrap_or(1.0);
        // Gradients are clipped in f32, too.
        let is_norm = norm > 0.0 && (norm as f32).is_normal();
        let can_skip = self.step.non_finite != NonFinite::Skip { at_most: 0 };
        let has_batches = self.batch_norm != BatchNormStatistics::Recomputed { batches: 0 };
        let CheckpointSettings { every_steps, keep_last, .. } = &self.checkpoints;
        self.step.policy.check_training_scaled(&self.loss_scale)?;
        TrainError::check(&[
            ("epochs", &self.epochs, self.epochs > 0, "at least 1"),
            ("learning_rate", &rate, is_rate, RATE),
            ("step.clip_norm", &norm, is_norm, ABOVE),
            ("step.non_finite.at_most", &0, can_skip, "at least 1"),
            ("read_every", &self.read_every, self.read_every > 0, "at least 1"),
            ("accumulate", &self.accumulate, self.accumulate > 0, "at least 1 batch"),
            ("batch_norm.batches", &0, has_batches, "at least 1 batch"),
            ("checkpoints.keep_last", keep_last, *keep_last > 0, "at least 1"),
            ("checkpoints.every_steps", &0, *every_steps != Some(0), "at least 1"),
        ])?;
        self.schedule.validate()?;
        self.plateau.as_ref().map_or(Ok(()), Plateau::validate)?;
        self.ema.map_or(Ok(()), |ema| ema.validate())?;
        self.lookahead.map_or(Ok(()), |lookahead| lookahead.validate())?;
        self.early_stop.as_ref().map_or(Ok(()), EarlyStop::validate)
    }

    /// Checks what only a rank alone can do.
    pub(crate) fn check_for_several_ranks(&self) -> Result<(), TrainError> {
        if self.batch_norm != BatchNormStatistics::Running {
            let expected = "`running` for several ranks";
            return Err(TrainError::setting("batch_norm", "recomputed", expected));
        }
        Ok(())
    }

    /// Checks the criterion, and the metrics of early stopping, of reductions of the learning rate
    /// and of the best checkpoints, against the metrics of a task, with or without test data.
    ///
    /// # Errors
    /// [`TrainError::Setting`] for a metric that the task does not have, or that needs test data if
    /// there is none and epochs are compared by it.
    pub fn check_criterion(
        &self,
        metrics: &[MetricSpec],
        has_test_data: bool,
    ) -> Result<(), TrainError> {
        Comparisons::new(self, metrics, has_test_data).map(drop)
    }

    /// Which checkpoints stay.
    pub(crate) fn keep(&self) -> Keep {
        let CheckpointSettings { keep_last, keep_best, best_metric, .. } = &self.checkpoints;
        let served = self.early_stop.as_ref().map(|stop| (stop.metric_or(&self.criterion), 1));
        let metric = best_metric.as_ref().unwrap_or(&self.criterion);
        let kept = (*keep_best > 0).then_some((metric, *keep_best));
        let of = |(metric, count): (&Criterion, usize)| (metric.clone(), count);
        Keep { last: *keep_last, best: served.into_iter().chain(kept).map(of).collect() }
    }
}
