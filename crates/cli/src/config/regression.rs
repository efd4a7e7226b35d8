//! The plan of a run that learns a number from the other numbers of a row.

use std::path::Path;

use serde::{Deserialize, Serialize};
use updraft_device::DeviceSpec;
use updraft_precision::{LossScale, Policy};
use updraft_trainer::{
    BatchNormStatistics, CheckpointSettings, Criterion, EarlyStop, EmaConfig, NonFinite,
    OptimizerConfig, Plateau, RunSettings, Schedule, StepSettings, Timing, Transfer,
};

use super::error::ConfigError;
use super::plan::{
    LogPlan, decide_device, decide_log, decide_name, decide_precision, default_scale,
    trainer_fault, value,
};
use super::raw::{RawFile, RawInherit, RawLog, RawTrain};
use super::regressor::{RawRegressor, RegressorPlan, decide_regressor};
use super::table_data::{RawTableData, TableDataPlan, decide_table_data};
use super::task::Task;

/// A configuration file as written: every key is optional, every unknown key is an error.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRegression {
    /// Read by `layers`; here so that it is a known key.
    pub(crate) inherit: Option<RawInherit>,
    /// Read by `task_of`; here so that it is a known key.
    pub(crate) task: Option<Task>,
    pub(crate) name: Option<String>,
    pub(crate) seed: Option<u64>,
    pub(crate) device: Option<String>,
    pub(crate) precision: Option<String>,
    #[serde(default)]
    pub(crate) data: RawTableData,
    #[serde(default)]
    pub(crate) model: RawRegressor,
    #[serde(default)]
    pub(crate) train: RawTrain,
    #[serde(default)]
    pub(crate) log: RawLog,
}

impl RawFile for RawRegression {
    fn inherit(&self) -> Option<&RawInherit> {
        self.inherit.as_ref()
    }
}

/// Everything a run was told or decided; printed at its start and stored in its folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegressionPlan {
    pub(crate) task: Task,
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) device: DeviceSpec,
    pub(crate) precision: Policy,
    pub(crate) data: TableDataPlan,
    pub(crate) model: RegressorPlan,
    pub(crate) train: RegressionTrainPlan,
    pub(crate) log: LogPlan,
}

/// How the model learns; the loss is the mean squared error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegressionTrainPlan {
    pub(crate) epochs: u64,
    pub(crate) batch: usize,
    pub(crate) learning_rate: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clip_norm: Option<f64>,
    pub(crate) loss_scale: LossScale,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) checkpoint_every_steps: Option<u64>,
    pub(crate) keep_checkpoints: usize,
    pub(crate) keep_best: usize,
    pub(crate) accumulate: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ema_decay: Option<f64>,
    pub(crate) criterion: Criterion,
    pub(crate) timing: Timing,
    pub(crate) transfer: Transfer,
    pub(crate) optimizer: OptimizerConfig,
    pub(crate) schedule: Schedule,
    pub(crate) non_finite: NonFinite,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plateau: Option<Plateau>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) early_stop: Option<EarlyStop>,
}

impl RegressionPlan {
    /// Decides every choice that the configuration left open, and checks all of them.
    pub(crate) fn decide(raw: RawRegression) -> Result<Self, ConfigError> {
        refuse_unread(&raw.train, &raw.log)?;
        let precision = decide_precision(raw.precision)?;
        let plan = Self {
            task: Task::TabularRegression,
            name: decide_name(raw.name)?,
            seed: raw.seed.unwrap_or(1),
            device: decide_device(raw.device)?,
            precision,
            data: decide_table_data(raw.data)?,
            model: decide_regressor(raw.model)?,
            train: decide_train(raw.train, precision),
            log: decide_log(raw.log),
        };
        plan.validate()?;
        Ok(plan)
    }

    fn validate(&self) -> Result<(), ConfigError> {
        self.model.validate()?;
        if self.train.batch == 0 {
            return value("train.batch", "0".to_owned(), "at least 1 row");
        }
        if self.train.criterion == Criterion::TestAccuracy {
            let given = "`test-accuracy`".to_owned();
            return value(
                "train.criterion",
                given,
                "`test-loss` or `train-loss`: numbers have none",
            );
        }
        self.log.validate()?;
        self.train.optimizer.validate().or_else(trainer_fault)?;
        let scale = &self.train.loss_scale;
        scale.validate().or_else(|error| {
            value("train.loss_scale", "not usable".to_owned(), &error.to_string())
        })?;
        self.precision.check_training_scaled(scale).or_else(|error| {
            value("precision", format!("`{}`", self.precision), &error.to_string())
        })?;
        self.settings(Path::new("")).validate().or_else(trainer_fault)
    }

    /// What the trainer is told; checkpoints go under `run`.
    pub(crate) fn settings(&self, run: &Path) -> RunSettings {
        let train = &self.train;
        RunSettings {
            epochs: train.epochs,
            seed: self.seed,
            learning_rate: train.learning_rate,
            schedule: train.schedule,
            plateau: train.plateau,
            step: StepSettings {
                policy: self.precision,
                clip_norm: train.clip_norm,
                non_finite: train.non_finite,
                timing: train.timing,
                ..StepSettings::default()
            },
            loss_scale: train.loss_scale,
            accumulate: train.accumulate,
            transfer: train.transfer,
            ema: train.ema_decay.map(|decay| EmaConfig { decay }),
            batch_norm: BatchNormStatistics::Running,
            criterion: train.criterion,
            early_stop: train.early_stop,
            checkpoints: CheckpointSettings {
                folder: run.join("checkpoints"),
                every_steps: train.checkpoint_every_steps,
                keep_last: train.keep_checkpoints,
                keep_best: train.keep_best,
            },
        }
    }

    /// The plan as TOML, for the screen and the run folder.
    pub(crate) fn to_toml(&self) -> String {
        toml::to_string(self).expect("a plan holds only strings, numbers, lists and tables")
    }
}

fn decide_train(raw: RawTrain, precision: Policy) -> RegressionTrainPlan {
    RegressionTrainPlan {
        epochs: raw.epochs.unwrap_or(60),
        batch: raw.batch.unwrap_or(64),
        learning_rate: raw.learning_rate.unwrap_or(1e-2),
        clip_norm: raw.clip_norm,
        loss_scale: raw.loss_scale.unwrap_or_else(|| default_scale(precision)),
        checkpoint_every_steps: raw.checkpoint_every_steps,
        keep_checkpoints: raw.keep_checkpoints.unwrap_or(2),
        keep_best: raw.keep_best.unwrap_or(0),
        accumulate: raw.accumulate.unwrap_or(1),
        ema_decay: raw.ema_decay,
        criterion: raw.criterion.unwrap_or(Criterion::TestLoss),
        timing: raw.timing.unwrap_or_default(),
        transfer: raw.transfer.unwrap_or_default(),
        optimizer: raw.optimizer.unwrap_or(OptimizerConfig::Adamw { weight_decay: 0.0 }),
        schedule: raw.schedule.unwrap_or(Schedule::WarmupCosine { warmup: 0.05, floor: 0.0 }),
        non_finite: raw.non_finite.unwrap_or_default(),
        plateau: raw.plateau,
        early_stop: raw.early_stop,
    }
}

/// A key that only image classification reads is a mistake here.
fn refuse_unread(train: &RawTrain, log: &RawLog) -> Result<(), ConfigError> {
    for (key, is_given) in [
        ("train.label_smoothing", train.label_smoothing.is_some()),
        ("train.loss", train.loss.is_some()),
        ("train.workers", train.workers.is_some()),
        ("train.recompute", train.recompute.is_some()),
        ("train.auto_batch", train.auto_batch.is_some()),
        ("train.recompute_batch_norms", train.recompute_batch_norms.is_some()),
        ("log.utilization", log.utilization == Some(true)),
    ] {
        if is_given {
            let given = "given with task `tabular-regression`".to_owned();
            return value(key, given, "only with `task` image-classification");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &str = "[data]\nsource = \"files\"\nfiles = [\"a.csv\"]\ntarget = \"y\"\n";

    fn decide(text: &str) -> Result<RegressionPlan, ConfigError> {
        let (raw, _) = RawRegression::read(text, Path::new("c.toml"), &[])?;
        RegressionPlan::decide(raw)
    }

    #[test]
    fn a_plan_survives_being_written_then_read() {
        for text in [
            "",
            "precision = \"bf16-mixed\"\n[model]\nkind = \"mlp\"\nhidden = [4]",
            "[data]\nformula = \"friedman1\"\nnoise = 1.0\n[train]\nema_decay = 0.99",
            &format!("{FILES}features = [\"x\"]\ndelimiter = \"semicolon\"\ndir = \"here\""),
            &format!("{FILES}columns = [\"x\", \"y\"]\nfile_features = true\nhow_to_get = \"ask\""),
            "[model]\nhidden = []\noutside = \"extend\"\n[train]\nearly_stop = { patience = 2 }\n\
             plateau = { patience = 3 }\nclip_norm = 1.0\n[log]\ncsv = true\ntrace = [1, 2]",
        ] {
            let plan = decide(text).expect("valid");
            let read = toml::from_str(&plan.to_toml()).expect("a plan reads its own text");
            assert_eq!(plan, read);
        }
    }

    #[test]
    fn features_are_the_named_columns_without_the_target() {
        let plan = decide(&format!("{FILES}columns = [\"x\", \"y\", \"z\"]")).expect("valid");
        let TableDataPlan::Files { features, .. } = plan.data else { panic!("files") };
        assert_eq!(features, ["x", "z"]);
    }

    #[test]
    fn every_value_out_of_range_is_named() {
        for (text, key) in [
            ("name = \"a/b\"", "name"),
            ("device = \"gpu\"", "device"),
            ("precision = \"f12\"", "precision"),
            ("[data]\nsource = \"web\"", "data.source"),
            ("[data]\nfiles = [\"a.csv\"]", "data.files"),
            ("[data]\ntrain_rows = 3", "data.train_rows"),
            ("[data]\nnoise = -1.0", "data.noise"),
            ("[data]\nsource = \"files\"\nnoise = 1.0", "data.noise"),
            ("[data]\nsource = \"files\"", "data.files"),
            (FILES, "data.features"),
            (&format!("{FILES}features = [\"y\"]"), "data.features"),
            (&format!("{FILES}features = []"), "data.features"),
            (&format!("{FILES}columns = [\"x\"]"), "data.columns"),
            (&format!("{FILES}features = [\"x\"]\ntest_fraction = 1.0"), "data.test_fraction"),
            ("[model]\nkind = \"tree\"", "model.kind"),
            ("[model]\nkind = \"mlp\"\nintervals = 3", "model.intervals"),
            ("[model]\nhidden = [0]", "model.hidden"),
            ("[model]\nintervals = 0", "model"),
            ("[model]\ndomain = -1.0", "model"),
            ("[train]\nbatch = 0", "train.batch"),
            ("[train]\nepochs = 0", "train"),
            ("[train]\ncriterion = \"test-accuracy\"", "train.criterion"),
            ("[train]\nloss = { kind = \"focal\" }", "train.loss"),
            ("[train]\nrecompute_batch_norms = 3", "train.recompute_batch_norms"),
            ("[log]\nutilization = true", "log.utilization"),
            ("[log]\ntrace = [5, 2]", "log.trace"),
        ] {
            let message = decide(text).expect_err(text).to_string();
            assert!(message.contains(&format!("`{key}`")), "{text}: {message}");
        }
        let message = decide("[augment]\nflip = true").expect_err("unknown").to_string();
        assert!(message.contains("unknown key `augment`"), "{message}");
    }
}
