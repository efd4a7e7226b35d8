//! The keys of `train`, for all tasks.

use std::path::Path;

use burn::tensor::FloatDType;
use updraft_precision::{DynamicScale, LossScale, Policy, PrecisionError};
use updraft_trainer::{
    BatchNormStatistics, CheckpointSettings, Criterion, EarlyStop, EmaConfig, Freeze, Lookahead,
    NonFinite, OptimizerConfig, Plateau, RunSettings, Schedule, StepSettings, Timing, TrainError,
    Transfer,
};

use super::choice::{
    AutoBatchPlan, BatchPlan, BatchesPlan, ReadEveryPlan, RecomputePlan, ResidentPlan, WorkersPlan,
};
use super::distributed::DistributedPlan;
use super::error::ConfigError;
use super::in_f32::{ABOVE_0_IN_F32, is_above_0_in_f32};
use super::key::{Edit, Key, Keys};
use super::learning_rate::{OPTIMIZER, PLATEAU, SCHEDULE};
use super::settings::Settings;
use crate::task::TaskKind;

const EPOCHS: Key<u64> = Key::new("train.epochs", "passes over the training data")
    .default("10")
    .edit(Edit::Reported)
    .check("at least 1", |epochs| *epochs >= 1);
/// No run has more epochs, with which the number of steps could overflow.
const MOST_EPOCHS: u64 = 1_000_000_000;
// How small it may be is the task's to say.
const BATCH: Key<BatchPlan> =
    Key::new("train.batch", "samples a step, or `auto`: `train.auto_batch` with its defaults")
        .default("64")
        .edit(Edit::Reported);
const LEARNING_RATE: Key<f64> = Key::new("train.learning_rate", "the schedule's peak")
    .default("0.002")
    .edit(Edit::Reported)
    .check("a number above 0 in the range of f32, 1.2e-38 to 3.4e38", is_above_0_in_f32);
const FREEZE: Key<Vec<Freeze>> = Key::new(
    "train.freeze",
    "parameters that keep their values after some epochs: a list of tables with `parameters`, the path of a parameter or of a part of the model, and `after_epochs`, the epochs in which they are trained",
)
.default("[]")
.edit(Edit::Reported);
const CLIP_NORM: Key<f64> = Key::new("train.clip_norm", "largest global norm of the gradients")
    .edit(Edit::Reported)
    .check(ABOVE_0_IN_F32, is_above_0_in_f32);
const LOSS_SCALE: Key<LossScale> = Key::new(
    "train.loss_scale",
    "or `static` with `scale`; `dynamic` takes `initial`, `growth`, `backoff`, `interval`, `floor`, `ceiling` and `longest_skips`",
)
.depends("`dynamic` if f16 computes, else `none`").edit(Edit::Reported);
const RECOMPUTE: Key<RecomputePlan> = Key::new(
    "train.recompute",
    "saves memory, takes time: `element-wise` is burn's own strategy, `segments` keeps only the inputs of the network's segments",
)
.default(r#""none""#)
.edit(Edit::Reported)
.performance();
const AUTO_BATCH: Key<AutoBatchPlan> = Key::new(
    "train.auto_batch",
    "before the run, finds the largest batch whose step fits into memory, and trains with it",
)
.with(&[
    ("least", "2", "the smallest batch to try, at least 1"),
    ("most", "4096", "the largest to try; never more than the training samples"),
    ("head_room", "0.1", "fraction of the largest that is left free, at least 0 and below 1"),
    (
        "budget_mib",
        "what is available",
        "memory limit in MiB, of the process or of the GPU, at least 1; needed on a GPU whose driver does not report free memory",
    ),
])
.edit(Edit::Free)
.check("a table, `{}` for its defaults, with a `budget_mib` of at least 1", |auto| {
    auto.budget_mib.is_none_or(|mib| mib >= 1)
});
const ACCUMULATE: Key<usize> =
    Key::new("train.accumulate", "number of batches per update, whose gradients are averaged")
        .default("1")
        .edit(Edit::Reported)
        .check("at least 1", |batches| *batches >= 1);
const NON_FINITE: Key<NonFinite> = Key::new(
    "train.non_finite",
    "the policy for a non-finite loss or gradient: `stop`, `skip` with `at_most` in a row, or `ignore`",
)
.default(r#"{ kind = "stop" }"#).edit(Edit::Reported);
const EMA_DECAY: Key<f64> = Key::new(
    "train.ema_decay",
    "keeps, scores and serves a moving average of the parameters; 0.99 to 0.9999",
)
.edit(Edit::Reported)
.check("at least 0 and below 1", |decay| (0.0..1.0).contains(decay));
const LOOKAHEAD: Key<Lookahead> = Key::new(
    "train.lookahead",
    "an average of the weights (slow weights), to which the model is set at intervals and after the last update",
)
.with(&[
    ("every", "5", "updates between two synchronizations of model and slow weights, at least 1"),
    ("decay", "0.5", "the weight of the slow weights in a synchronization after the last update, at least 0 and below 1"),
    (
        "power",
        "0",
        "the weight is `decay · t^power`, where t is the fraction of updates made; 0: constant",
    ),
])
.edit(Edit::Reported);
const BATCH_NORMS: Key<BatchesPlan> = Key::new(
    "train.recompute_batch_norms",
    "training batches, or `all`, from which the served model's batch norms are computed at each epoch's end",
)
    .edit(Edit::Reported).check("`all` or a whole number of at least 1", |batches| *batches != BatchesPlan::Count(0));
const CRITERION: Key<Criterion> = Key::new(
    "train.criterion",
    "the metric by which one epoch is better than another: `test-` or `train-` and a metric of the task",
)
.default(r#""test-loss""#).edit(Edit::Reported);
const EARLY_STOP: Key<EarlyStop> = Key::new(
    "train.early_stop",
    "ends the run after epochs without an improvement of a metric, and serves the best model",
)
.with(&[
    ("metric", "`train.criterion`", "the metric: `test-` or `train-` and a metric of the task"),
    ("patience", "–", "epochs without an improvement after which the run ends, at least 1"),
    ("least_gain", "0", "the smallest improvement that counts, in the metric's unit"),
])
.edit(Edit::Reported);
const TIMING: Key<Timing> =
    Key::new("train.timing", "or `done`, which waits for the device after each phase of a step")
        .default(r#""submitted""#)
        .edit(Edit::Free)
        .performance();
const TRANSFER: Key<Transfer> = Key::new(
    "train.transfer",
    "or `ahead`, which moves the next step's first batch to the device while the device computes the backward pass, or `when-used`; `auto` is `when-used` on flex, where nothing overlaps, and `ahead` elsewhere",
)
.default(r#""auto""#)
.edit(Edit::Free)
.performance();
const RESIDENT: Key<ResidentPlan> = Key::new(
    "train.resident",
    "moves training and test data to the device before the first step, where batches are selected: only indices are transferred then. Without augmentation, which is computed on the host",
)
.with(&[("budget_mib", "1024", "the most that the data may take on the device in MiB, at least 1")])
.edit(Edit::Free)
.performance()
.check("a `budget_mib` of at least 1", |resident| resident.budget_mib >= 1);
const READ_EVERY: Key<ReadEveryPlan> = Key::new(
    "train.read_every",
    "updates whose loss, metrics and gradient norm are read from the device together, and then recorded; more than 1 keeps a GPU busy and gains nothing on flex. `auto` is 20, and 1 on a CPU or where the time of each step is measured, by `train.timing` or `log.utilization`; several ranks, and `adam` with clipping, a loss scale or skipped updates, read each update",
)
.default(r#""auto""#)
.edit(Edit::Free)
.performance()
.check("`auto` or a whole number of at least 1", |updates| *updates != ReadEveryPlan::Count(0));
const WORKERS: Key<WorkersPlan> =
    Key::new("train.workers", "threads that load data; 0 loads on the training thread")
        .default(r#""auto""#)
        .edit(Edit::Free)
        .performance()
        .check("`auto` or a whole number from 0 to 256", |workers| {
            !matches!(workers, WorkersPlan::Count(257..))
        });
const CHECKPOINT_EVERY_STEPS: Key<u64> = Key::new(
    "train.checkpoint_every_steps",
    "updates between checkpoints, in addition to that at each epoch's end",
)
.edit(Edit::Free)
.check("at least 1", |steps| *steps >= 1);
const KEEP_CHECKPOINTS: Key<usize> =
    Key::new("train.keep_checkpoints", "how many of the newest checkpoints are kept")
        .default("2")
        .edit(Edit::Free)
        .check("at least 1", |count| *count >= 1);
const KEEP_BEST: Key<usize> =
    Key::new("train.keep_best", "how many of the best checkpoints are kept in addition")
        .default("0")
        .edit(Edit::Free);
const KEEP_BEST_METRIC: Key<Criterion> = Key::new(
    "train.keep_best_metric",
    "the metric by which the checkpoints of `train.keep_best` are the best",
)
.depends("`train.criterion`")
.edit(Edit::Reported);

/// The keys of `train` that every task has.
pub(super) const KEYS: Keys = &[
    &EPOCHS,
    &BATCH,
    &LEARNING_RATE,
    &SCHEDULE,
    &PLATEAU,
    &OPTIMIZER,
    &FREEZE,
    &CLIP_NORM,
    &LOSS_SCALE,
    &RECOMPUTE,
    &AUTO_BATCH,
    &ACCUMULATE,
    &NON_FINITE,
    &EMA_DECAY,
    &LOOKAHEAD,
    &BATCH_NORMS,
    &CRITERION,
    &EARLY_STOP,
    &TIMING,
    &TRANSFER,
    &RESIDENT,
    &READ_EVERY,
    &WORKERS,
    &CHECKPOINT_EVERY_STEPS,
    &KEEP_CHECKPOINTS,
    &KEEP_BEST,
    &KEEP_BEST_METRIC,
];

/// The settings of training, for all tasks; each field is the key of the same name.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each field is documented by the key of its name")]
pub struct TrainPlan {
    pub epochs: u64,
    pub batch: usize,
    pub learning_rate: f64,
    pub schedule: Schedule,
    pub plateau: Option<Plateau>,
    pub optimizer: OptimizerConfig,
    pub freeze: Vec<Freeze>,
    pub clip_norm: Option<f64>,
    pub loss_scale: LossScale,
    pub recompute: RecomputePlan,
    pub auto_batch: Option<AutoBatchPlan>,
    pub accumulate: usize,
    pub non_finite: NonFinite,
    pub ema_decay: Option<f64>,
    pub lookahead: Option<Lookahead>,
    pub recompute_batch_norms: Option<BatchesPlan>,
    pub criterion: Criterion,
    pub early_stop: Option<EarlyStop>,
    pub timing: Timing,
    pub transfer: Transfer,
    pub resident: Option<ResidentPlan>,
    pub read_every: ReadEveryPlan,
    pub workers: WorkersPlan,
    pub checkpoint_every_steps: Option<u64>,
    pub keep_checkpoints: usize,
    pub keep_best: usize,
    pub keep_best_metric: Option<Criterion>,
    pub distributed: DistributedPlan,
}

impl TrainPlan {
    /// Reads and checks every key of `train` that every task has.
    pub(super) fn read(
        kind: &dyn TaskKind,
        settings: &Settings,
        precision: Policy,
    ) -> Result<Self, ConfigError> {
        let (least, why) = kind.least_batch();
        let of_batch = |mut error| {
            if let ConfigError::Value { expected, .. } = &mut error {
                *expected = format!("`auto` or a whole number, at least {least}{why}");
            }
            error
        };
        let auto_batch: Option<AutoBatchPlan> = settings.option(&AUTO_BATCH)?;
        let (batch, auto_batch) = match settings.value(&BATCH).map_err(of_batch)? {
            BatchPlan::Count(batch) => (batch, auto_batch),
            // A search replaces the default.
            BatchPlan::Auto => {
                let standard = settings.default(&BATCH).count().expect("the default is a number");
                (standard, Some(auto_batch.unwrap_or_default()))
            }
        };
        let epochs = settings.value(&EPOCHS)?;
        if epochs > MOST_EPOCHS {
            let expected = format!("at most {MOST_EPOCHS}");
            return Err(settings.refuse("train.epochs", epochs, expected));
        }
        let plan = Self {
            epochs,
            batch,
            learning_rate: settings.value(&LEARNING_RATE)?,
            schedule: settings.value(&SCHEDULE)?,
            plateau: settings.option(&PLATEAU)?,
            optimizer: settings.value(&OPTIMIZER)?,
            freeze: settings.value(&FREEZE)?,
            clip_norm: settings.option(&CLIP_NORM)?,
            loss_scale: settings.value_or(&LOSS_SCALE, || default_scale(precision))?,
            recompute: settings.value(&RECOMPUTE)?,
            auto_batch,
            accumulate: settings.value(&ACCUMULATE)?,
            non_finite: settings.value(&NON_FINITE)?,
            ema_decay: settings.option(&EMA_DECAY)?,
            lookahead: settings.option(&LOOKAHEAD)?,
            recompute_batch_norms: settings.option(&BATCH_NORMS)?,
            criterion: settings.value(&CRITERION)?,
            early_stop: settings.option(&EARLY_STOP)?,
            timing: settings.value(&TIMING)?,
            transfer: settings.value(&TRANSFER)?,
            resident: settings.option(&RESIDENT)?,
            read_every: settings.value(&READ_EVERY)?,
            workers: settings.value(&WORKERS)?,
            checkpoint_every_steps: settings.option(&CHECKPOINT_EVERY_STEPS)?,
            keep_checkpoints: settings.value(&KEEP_CHECKPOINTS)?,
            keep_best: settings.value(&KEEP_BEST)?,
            keep_best_metric: settings.option(&KEEP_BEST_METRIC)?,
            distributed: DistributedPlan::read(settings)?,
        };
        plan.check_batch(settings, (least, why))?;
        let search = plan.auto_batch.map_or(Ok(()), |auto| auto.search().validate());
        search.map_err(|error| refuse_search(settings, &error))?;
        plan.loss_scale.validate().map_err(|error| match error {
            PrecisionError::LossScaleSetting { name, value, expected } => {
                settings.refuse(&format!("train.loss_scale.{name}"), value, expected)
            }
            other => settings.refuse_given("train.loss_scale", &format!("usable: {other}")),
        })?;
        let refuse = |error| settings.refuse_training(&error);
        plan.optimizer.validate().map_err(refuse)?;
        plan.run_settings(1, precision, Path::new("")).validate().map_err(refuse)?;
        Ok(plan)
    }

    /// The settings of the trainer, which reads each update by default; checkpoints go under `run`.
    #[must_use]
    pub fn run_settings(&self, seed: u64, policy: Policy, run: &Path) -> RunSettings {
        RunSettings {
            epochs: self.epochs,
            seed,
            learning_rate: self.learning_rate,
            schedule: self.schedule,
            plateau: self.plateau.clone(),
            step: StepSettings {
                policy,
                clip_norm: self.clip_norm,
                non_finite: self.non_finite,
                timing: self.timing,
                in_segments: self.recompute == RecomputePlan::Segments,
                freeze: self.freeze.clone(),
            },
            loss_scale: self.loss_scale,
            accumulate: self.accumulate,
            ema: self.ema_decay.map(|decay| EmaConfig { decay }),
            lookahead: self.lookahead,
            batch_norm: match self.recompute_batch_norms {
                None => BatchNormStatistics::Running,
                Some(BatchesPlan::All) => BatchNormStatistics::Recomputed { batches: usize::MAX },
                Some(BatchesPlan::Count(batches)) => BatchNormStatistics::Recomputed { batches },
            },
            criterion: self.criterion.clone(),
            early_stop: self.early_stop.clone(),
            transfer: self.transfer,
            read_every: self.read_every.updates_or(1),
            checkpoints: CheckpointSettings {
                folder: run.join("checkpoints"),
                every_steps: self.checkpoint_every_steps,
                keep_last: self.keep_checkpoints,
                keep_best: self.keep_best,
                best_metric: self.keep_best_metric.clone(),
            },
        }
    }
}

/// The key of a setting of the trainer, by its path in [`RunSettings`] or the type of its own.
pub(super) fn key_of_setting(name: &str) -> String {
    let key = match name {
        "step.clip_norm" => "clip_norm",
        "step.in_segments" => "recompute",
        "step.freeze.parameters" => "freeze.parameters",
        "step.non_finite.at_most" => "non_finite.at_most",
        "ema.decay" => "ema_decay",
        "batch_norm.batches" => "recompute_batch_norms",
        "checkpoints.best_metric" => "keep_best_metric",
        "checkpoints.keep_last" => "keep_checkpoints",
        "checkpoints.every_steps" => "checkpoint_every_steps",
        same => same,
    };
    format!("train.{key}")
}

/// An error about a number of the search for a batch size.
fn refuse_search(settings: &Settings, error: &TrainError) -> ConfigError {
    match error {
        TrainError::Setting { name, value, expected } => {
            // The largest batch is compared with the smallest one.
            let expected = expected.replace("`least`", "`train.auto_batch.least`");
            settings.refuse(&format!("train.auto_batch.{name}"), value, expected)
        }
        other => settings.refuse_training(other),
    }
}

/// Gradients in f16 underflow without a scale; all other dtypes have the range of f32.
fn default_scale(precision: Policy) -> LossScale {
    match precision.compute {
        FloatDType::F16 => LossScale::Dynamic(DynamicScale::default()),
        _ => LossScale::None,
    }
}
