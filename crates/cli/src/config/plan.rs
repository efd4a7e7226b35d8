//! The plan of a run: every choice made, defaults included.

use std::path::Path;

use burn::tensor::FloatDType;
use serde::{Deserialize, Serialize};
use updraft_device::DeviceSpec;
use updraft_precision::{DynamicScale, LossScale, Policy};
use updraft_trainer::{
    BatchNormStatistics, CheckpointSettings, ClassLoss, Criterion, EarlyStop, EmaConfig, NonFinite,
    OptimizerConfig, Plateau, RunSettings, Schedule, StepSettings, Timing, Transfer,
};

use super::augment::{AugmentPlan, decide_augment};
use super::choice::{AutoBatchPlan, BatchesPlan, RecomputePlan, WorkersPlan};
use super::data::{DataPlan, decide_data};
use super::error::ConfigError;
use super::model::{ModelPlan, decide_model, model_of_any_age};
use super::raw::{RawConfig, RawLog, RawTrain, RawWorkers};
use crate::classifier::ClassifierConfig;

/// Everything a run was told or decided; printed at its start and stored in its folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) device: DeviceSpec,
    pub(crate) precision: Policy,
    pub(crate) data: DataPlan,
    #[serde(deserialize_with = "model_of_any_age")]
    pub(crate) model: ModelPlan,
    pub(crate) augment: AugmentPlan,
    pub(crate) train: TrainPlan,
    #[serde(default)]
    pub(crate) log: LogPlan,
}

/// What a run writes down beside `metrics.jsonl`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogPlan {
    pub(crate) csv: bool,
    pub(crate) tensorboard: bool,
    #[serde(default)]
    pub(crate) utilization: bool,
    /// The first and the last step of the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<[u64; 2]>,
}

/// How the model learns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrainPlan {
    pub(crate) epochs: u64,
    pub(crate) batch: usize,
    pub(crate) learning_rate: f64,
    pub(crate) label_smoothing: f32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clip_norm: Option<f64>,
    #[serde(default)]
    pub(crate) loss_scale: LossScale,
    #[serde(default)]
    pub(crate) recompute: RecomputePlan,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) auto_batch: Option<AutoBatchPlan>,
    pub(crate) workers: WorkersPlan,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) checkpoint_every_steps: Option<u64>,
    pub(crate) keep_checkpoints: usize,
    #[serde(default)]
    pub(crate) keep_best: usize,
    #[serde(default = "one")]
    pub(crate) accumulate: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ema_decay: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) recompute_batch_norms: Option<BatchesPlan>,
    #[serde(default)]
    pub(crate) criterion: Criterion,
    #[serde(default)]
    pub(crate) timing: Timing,
    #[serde(default)]
    pub(crate) transfer: Transfer,
    pub(crate) optimizer: OptimizerConfig,
    pub(crate) schedule: Schedule,
    #[serde(default)]
    pub(crate) loss: ClassLoss,
    #[serde(default)]
    pub(crate) non_finite: NonFinite,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plateau: Option<Plateau>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) early_stop: Option<EarlyStop>,
}

fn one() -> usize {
    1
}

impl Plan {
    /// Decides every choice that the configuration left open, and checks all of them.
    pub(crate) fn decide(raw: RawConfig) -> Result<Self, ConfigError> {
        let precision = decide_precision(raw.precision)?;
        let plan = Self {
            name: decide_name(raw.name)?,
            seed: raw.seed.unwrap_or(1),
            device: decide_device(raw.device)?,
            precision,
            data: decide_data(raw.data)?,
            model: decide_model(raw.model)?,
            augment: decide_augment(raw.augment),
            train: decide_train(raw.train, precision)?,
            log: decide_log(raw.log),
        };
        plan.validate()?;
        Ok(plan)
    }

    fn validate(&self) -> Result<(), ConfigError> {
        self.data.validate()?;
        self.augment.validate((self.data.height, self.data.width))?;
        if self.train.batch < 2 {
            let given = self.train.batch.to_string();
            return value("train.batch", given, "at least 2: batch norms need a variance");
        }
        if let Some(auto) = self.train.auto_batch {
            if auto.least < 2 {
                let given = auto.least.to_string();
                return value("train.auto_batch", given, "`least` of at least 2");
            }
            auto.search().validate().or_else(|error| {
                value("train.auto_batch", "not usable".to_owned(), &error.to_string())
            })?;
        }
        self.log.validate()?;
        // Two classes stand in for the number that only the data knows.
        self.network(2)
            .validate()
            .or_else(|error| value("model", "not buildable".to_owned(), &error.to_string()))?;
        self.train.optimizer.validate().or_else(trainer_fault)?;
        if self.augment.mix_up.is_some() {
            self.train.loss.check_shares().or_else(trainer_fault)?;
        }
        let scale = &self.train.loss_scale;
        scale.validate().or_else(|error| {
            value("train.loss_scale", "not usable".to_owned(), &error.to_string())
        })?;
        self.precision.check_training_scaled(scale).or_else(|error| {
            value("precision", format!("`{}`", self.precision), &error.to_string())
        })?;
        self.settings(Path::new("")).validate().or_else(trainer_fault)
    }

    /// The network for so many classes.
    pub(crate) fn network(&self, classes: usize) -> ClassifierConfig {
        self.model.network(classes, &self.data)
    }

    /// What the trainer is told; checkpoints go under `run`.
    pub(crate) fn settings(&self, run: &Path) -> RunSettings {
        RunSettings {
            epochs: self.train.epochs,
            seed: self.seed,
            learning_rate: self.train.learning_rate,
            schedule: self.train.schedule,
            plateau: self.train.plateau,
            step: StepSettings {
                policy: self.precision,
                loss: self.train.loss,
                label_smoothing: self.train.label_smoothing,
                clip_norm: self.train.clip_norm,
                non_finite: self.train.non_finite,
                timing: self.train.timing,
            },
            loss_scale: self.train.loss_scale,
            accumulate: self.train.accumulate,
            ema: self.train.ema_decay.map(|decay| EmaConfig { decay }),
            batch_norm: match self.train.recompute_batch_norms {
                None => BatchNormStatistics::Running,
                Some(BatchesPlan::All) => BatchNormStatistics::Recomputed { batches: usize::MAX },
                Some(BatchesPlan::Count(batches)) => BatchNormStatistics::Recomputed { batches },
            },
            criterion: self.train.criterion,
            early_stop: self.train.early_stop,
            transfer: self.train.transfer,
            checkpoints: CheckpointSettings {
                folder: run.join("checkpoints"),
                every_steps: self.train.checkpoint_every_steps,
                keep_last: self.train.keep_checkpoints,
                keep_best: self.train.keep_best,
            },
        }
    }

    /// The plan as TOML, for the screen and the run folder.
    pub(crate) fn to_toml(&self) -> String {
        toml::to_string(self).expect("a plan holds only strings, numbers, lists and tables")
    }
}

impl LogPlan {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        match self.trace {
            Some([first, last]) if first > last => {
                let given = format!("[{first}, {last}]");
                value("log.trace", given, "the first step and a last one not before it")
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn decide_name(raw: Option<String>) -> Result<String, ConfigError> {
    let name = raw.unwrap_or_else(|| "run".to_owned());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(is_plain) {
        let expected = "letters, digits, `-` and `_`: it names a folder";
        return value("name", format!("`{name}`"), expected);
    }
    Ok(name)
}

pub(super) fn decide_device(raw: Option<String>) -> Result<DeviceSpec, ConfigError> {
    let device = raw.unwrap_or_else(|| "auto".to_owned());
    device
        .parse()
        .or_else(|error| value("device", format!("`{device}`"), &format!("a device; {error}")))
}

pub(super) fn decide_precision(raw: Option<String>) -> Result<Policy, ConfigError> {
    let precision = raw.unwrap_or_else(|| "f32".to_owned());
    precision.parse().or_else(|error| {
        value("precision", format!("`{precision}`"), &format!("a policy; {error}"))
    })
}

pub(super) fn decide_log(raw: RawLog) -> LogPlan {
    LogPlan {
        csv: raw.csv.unwrap_or(false),
        tensorboard: raw.tensorboard.unwrap_or(false),
        utilization: raw.utilization.unwrap_or(false),
        trace: raw.trace,
    }
}

fn decide_train(raw: RawTrain, precision: Policy) -> Result<TrainPlan, ConfigError> {
    Ok(TrainPlan {
        epochs: raw.epochs.unwrap_or(10),
        batch: raw.batch.unwrap_or(64),
        learning_rate: raw.learning_rate.unwrap_or(2e-3),
        label_smoothing: raw.label_smoothing.unwrap_or(0.0),
        clip_norm: raw.clip_norm,
        loss_scale: raw.loss_scale.unwrap_or_else(|| default_scale(precision)),
        recompute: raw.recompute.unwrap_or_default(),
        auto_batch: raw.auto_batch,
        workers: match raw.workers {
            None => WorkersPlan::Auto,
            Some(RawWorkers::Named(name)) if name == "auto" => WorkersPlan::Auto,
            Some(RawWorkers::Count(count)) if count <= 256 => WorkersPlan::Count(count),
            Some(RawWorkers::Count(count)) => {
                return value("train.workers", count.to_string(), "`auto` or 0 to 256");
            }
            Some(RawWorkers::Named(name)) => {
                return value("train.workers", format!("`{name}`"), "`auto` or 0 to 256");
            }
        },
        checkpoint_every_steps: raw.checkpoint_every_steps,
        keep_checkpoints: raw.keep_checkpoints.unwrap_or(2),
        keep_best: raw.keep_best.unwrap_or(0),
        accumulate: raw.accumulate.unwrap_or(1),
        ema_decay: raw.ema_decay,
        recompute_batch_norms: raw
            .recompute_batch_norms
            .map(BatchesPlan::try_from)
            .transpose()
            .or_else(|given| {
                value("train.recompute_batch_norms", format!("`{given}`"), "`all` or a number")
            })?,
        criterion: raw.criterion.unwrap_or_default(),
        timing: raw.timing.unwrap_or_default(),
        transfer: raw.transfer.unwrap_or_default(),
        loss: raw.loss.unwrap_or_default(),
        non_finite: raw.non_finite.unwrap_or_default(),
        plateau: raw.plateau,
        early_stop: raw.early_stop,
        optimizer: raw.optimizer.unwrap_or(OptimizerConfig::Adamw { weight_decay: 0.01 }),
        schedule: raw.schedule.unwrap_or(Schedule::WarmupCosine { warmup: 0.2, floor: 0.0 }),
    })
}

/// Gradients in f16 vanish without a scale; every other dtype has the range of f32.
pub(super) fn default_scale(precision: Policy) -> LossScale {
    match precision.compute {
        FloatDType::F16 => LossScale::Dynamic(DynamicScale::default()),
        _ => LossScale::None,
    }
}

pub(super) fn value<T>(key: &'static str, value: String, expected: &str) -> Result<T, ConfigError> {
    Err(ConfigError::Value { key, value, expected: expected.to_owned() })
}

pub(super) fn trainer_fault<T>(error: updraft_trainer::TrainError) -> Result<T, ConfigError> {
    value("train", "not usable".to_owned(), &error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CachePlan, RawFile};

    fn decide(text: &str) -> Result<Plan, ConfigError> {
        RawConfig::read(text, Path::new("c.toml"), &[]).and_then(|(raw, _)| Plan::decide(raw))
    }

    #[test]
    fn a_plan_survives_being_written_then_read() {
        for text in [
            "",
            "precision = \"bf16-mixed\"\n[data]\nsource = \"archives\"\ntrain = \"a\"\ntest = \"b\"",
            "[data]\nsource = \"folders\"\n[train]\nworkers = 3\nclip_norm = 1.0\n",
            "[data]\nsource = \"manifest\"\ntrain = \"a.csv\"\nclass_column = \"kind\"\n\
             cache = { kind = \"none\" }",
            "[data]\nsource = \"cifar-10\"\nfiles = \"a.tar.gz\"\n\
             cache = { kind = \"file\", folder = \"c\" }",
            "[data]\nsource = \"cifar-100\"\nlabels = \"coarse\"\n\
             faults = { kind = \"quarantine\", at_most = 3, file = \"bad.jsonl\" }",
            "[data]\nfaults = { kind = \"skip\", at_most = 3 }\n[augment]\nrotate = 0.1\n\
             zoom = { min_factor = 0.9, max_factor = 1.1 }\nrandom_resized_crop = {}\n\
             color_jitter = { hue = 0.1 }\nmix_up = { alpha = 0.2 }",
            "precision = \"f16-mixed\"",
            "[train]\nrecompute = \"segments\"\nauto_batch = { budget_mib = 100 }",
            "[train]\nloss_scale = { kind = \"static\", scale = 1024.0 }",
            "[log]\ncsv = true\ntensorboard = true\nutilization = true\ntrace = [1, 3]",
            "[train]\naccumulate = 2\nkeep_best = 1\nema_decay = 0.99\nrecompute_batch_norms = \"all\"\n\
             criterion = \"test-loss\"\ntiming = \"done\"\nloss = { kind = \"focal\" }\n\
             non_finite = { kind = \"skip\" }\nplateau = { patience = 3 }\n\
             early_stop = { patience = 2 }\nschedule = { kind = \"one-cycle\" }",
            "[train]\noptimizer = { kind = \"sgd\" }\nschedule = { kind = \"constant\" }",
            "[model]\nkind = \"separable\"\nchannels = 8\ndropout = 0.1",
        ] {
            let plan = decide(text).expect("valid");
            let read: Plan = toml::from_str(&plan.to_toml()).expect("a plan reads its own text");
            assert_eq!(plan, read);
        }
    }

    #[test]
    fn every_value_out_of_range_is_named() {
        for (text, key) in [
            ("name = \"a/b\"", "name"),
            ("device = \"gpu\"", "device"),
            ("precision = \"f12\"", "precision"),
            ("precision = \"f16-mixed\"\ntrain.loss_scale = { kind = \"none\" }", "precision"),
            ("[train]\nloss_scale = { kind = \"dynamic\", growth = 1.0 }", "train.loss_scale"),
            ("precision = \"bf16\"", "precision"),
            ("[data]\nsource = \"web\"", "data.source"),
            ("[data]\nsource = \"folders\"\ncue = \"color\"", "data.cue"),
            ("[data]\ndir = \"here\"", "data.dir"),
            ("[data]\nheight = 0", "data.height"),
            ("[data]\nwidth = 100000", "data.width"),
            ("[data]\ntrain_images = 0", "data.train_images"),
            ("[data]\nsource = \"folders\"\ntest_fraction = 1.0", "data.test_fraction"),
            ("[data]\nstd = [0.0, 1.0, 1.0]", "model"),
            ("[model]\nchannels = 0", "model"),
            ("[model]\nstem_stride = 3", "model"),
            ("[model]\nkind = \"separate\"", "model.kind"),
            ("[model]\nkind = \"separable\"\nluma = \"bt601\"", "model.luma"),
            ("[model]\nkind = \"separable\"\nchannels = 0", "model"),
            (
                "[data]\nsource = \"manifest\"\ntrain = \"a\"\ntest_fraction = 0.0",
                "data.test_fraction",
            ),
            ("[data]\nsource = \"cifar-10\"\nlabels = \"fine\"", "data.labels"),
            ("[data]\nsource = \"folders\"\nfiles = \"a\"", "data.files"),
            ("[data]\nsource = \"folders\"\ninflate_to = \"a\"", "data.inflate_to"),
            ("[data]\npath_column = \"a\"", "data.path_column"),
            ("[data]\nclass_column = \"a\"", "data.class_column"),
            ("[data]\ncache = { kind = \"memory\", budget_mib = 0 }", "data.cache"),
            ("[data]\nfaults = { kind = \"skip\", at_most = 0 }", "data.faults"),
            (
                "[data]\nfaults = { kind = \"skip\", at_most = 1 }\ncache = { kind = \"whole\" }",
                "data.faults",
            ),
            ("[augment]\ntranslate = 16", "augment.translate"),
            ("[augment]\nrotate = 181.0", "augment.rotate"),
            ("[augment]\nrotate = -1.0", "augment.rotate"),
            ("[augment]\nrotate = nan", "augment.rotate"),
            ("[augment]\nzoom = { min_factor = 1.1, max_factor = 1.0 }", "augment.zoom"),
            ("[augment]\nrandom_resized_crop = { min_area = 0.0 }", "augment.random_resized_crop"),
            ("[augment]\ncolor_jitter = { hue = 0.6 }", "augment.color_jitter"),
            ("[augment]\nmix_up = { alpha = 0.0 }", "augment.mix_up"),
            ("augment.mix_up = { alpha = 0.2 }\ntrain.loss = { kind = \"focal\" }", "loss"),
            ("[train]\nepochs = 0", "train"),
            ("[train]\nbatch = 1", "train.batch"),
            ("[train]\nlearning_rate = -1.0", "train"),
            ("[train]\nworkers = 999", "train.workers"),
            ("[train]\nclip_norm = 0.0", "train"),
            ("[log]\ntrace = [5, 2]", "log.trace"),
            ("[train]\nauto_batch = { least = 1 }", "train.auto_batch"),
            ("[train]\nauto_batch = { head_room = 1.0 }", "train.auto_batch"),
            ("[train]\nema_decay = 1.0", "ema.decay"),
            ("[train]\naccumulate = 0", "accumulate"),
            ("[train]\nrecompute_batch_norms = \"some\"", "train.recompute_batch_norms"),
            ("[train]\nearly_stop = { patience = 0 }", "early_stop.patience"),
            ("[train]\nloss = { kind = \"focal\" }\nlabel_smoothing = 0.1", "label_smoothing"),
        ] {
            let message = decide(text).expect_err(text).to_string();
            assert!(message.contains(&format!("`{key}`")), "{text}: {message}");
        }
    }

    #[test]
    fn a_key_beside_a_kind_that_does_not_read_it_is_refused() {
        for (text, key) in [
            ("[data]\nfaults = { kind = \"raise\", at_most = 3 }", "`at_most`"),
            ("[data]\nfaults = { kind = \"skip\", at_most = 3, file = \"a\" }", "`file`"),
            ("[data]\ncache = { kind = \"whole\", budget_mib = 3 }", "`budget_mib`"),
            ("[data]\ncache = { kind = \"none\", folder = \"a\" }", "`folder`"),
            ("[augment]\nzoom = { factor = 3.0 }", "`factor`"),
            ("[augment]\ncolor_jitter = { contrats = 0.1 }", "`contrats`"),
        ] {
            let message = decide(text).expect_err(text).to_string();
            assert!(message.contains(key), "{text}: {message}");
        }
    }

    #[test]
    fn a_set_with_faults_is_not_decoded_before_the_first_batch() {
        let of = |text: &str| decide(text).expect("valid").data.cache;
        assert_eq!(of(""), CachePlan::Whole {});
        assert_eq!(
            of("data.cache = { kind = \"memory\" }"),
            CachePlan::Memory { budget_mib: 1024 }
        );
        let skipping = of("[data]\nfaults = { kind = \"skip\", at_most = 1 }");
        assert!(matches!(skipping, CachePlan::Memory { .. }), "{skipping:?}");
    }

    #[test]
    fn archives_without_files_name_the_missing_key() {
        let message = decide("[data]\nsource = \"archives\"").expect_err("missing").to_string();
        assert!(message.contains("`data.train`"), "{message}");
    }
}
