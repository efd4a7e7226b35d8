//! What the configuration file says, and nothing more.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Table;
use updraft_data::{ColorJitter, MixUp, RandomResizedCrop, Zoom};
use updraft_integration::{Depth, IntegrationPoint, LumaStandard};
use updraft_precision::LossScale;
use updraft_trainer::{
    ClassLoss, Criterion, EarlyStop, NonFinite, OptimizerConfig, Plateau, Schedule, Timing,
    Transfer,
};

use super::choice::{AutoBatchPlan, RecomputePlan};
use super::data::Cifar100Labels;
use super::error::ConfigError;
use super::supply::{CachePlan, FaultsPlan};

/// A configuration file as written: every key is optional, every unknown key is an error.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawConfig {
    /// Read by `layers`; here so that it is a known key.
    pub(crate) inherit: Option<RawInherit>,
    /// Read by `task_of`; here so that it is a known key.
    pub(crate) task: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) seed: Option<u64>,
    pub(crate) device: Option<String>,
    pub(crate) precision: Option<String>,
    #[serde(default)]
    pub(crate) data: RawData,
    #[serde(default)]
    pub(crate) model: RawModel,
    #[serde(default)]
    pub(crate) augment: RawAugment,
    #[serde(default)]
    pub(crate) train: RawTrain,
    #[serde(default)]
    pub(crate) log: RawLog,
}

/// What a run writes down beside its metrics.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLog {
    pub(crate) csv: Option<bool>,
    pub(crate) tensorboard: Option<bool>,
    pub(crate) utilization: Option<bool>,
    pub(crate) trace: Option<[u64; 2]>,
}

/// Where the images come from.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawData {
    pub(crate) source: Option<String>,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) how_to_get: Option<String>,
    pub(crate) train: Option<PathBuf>,
    pub(crate) test: Option<PathBuf>,
    pub(crate) test_fraction: Option<f64>,
    pub(crate) height: Option<usize>,
    pub(crate) width: Option<usize>,
    pub(crate) mean: Option<[f64; 3]>,
    pub(crate) std: Option<[f64; 3]>,
    pub(crate) cue: Option<String>,
    pub(crate) train_images: Option<usize>,
    pub(crate) test_images: Option<usize>,
    pub(crate) inflate_to: Option<PathBuf>,
    pub(crate) path_column: Option<String>,
    pub(crate) class_column: Option<String>,
    pub(crate) files: Option<PathBuf>,
    pub(crate) labels: Option<Cifar100Labels>,
    pub(crate) cache: Option<CachePlan>,
    pub(crate) faults: Option<FaultsPlan>,
}

/// The network; which keys are read depends on its kind.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawModel {
    pub(crate) kind: Option<String>,
    pub(crate) depth: Option<Depth>,
    pub(crate) channels: Option<usize>,
    pub(crate) stem_stride: Option<usize>,
    pub(crate) dropout: Option<f64>,
    pub(crate) luma: Option<LumaStandard>,
    pub(crate) integration_points: Option<Vec<IntegrationPoint>>,
}

/// What happens to training images at random.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawAugment {
    pub(crate) flip: Option<bool>,
    pub(crate) translate: Option<usize>,
    pub(crate) rotate: Option<f32>,
    pub(crate) random_resized_crop: Option<RandomResizedCrop>,
    pub(crate) zoom: Option<Zoom>,
    pub(crate) color_jitter: Option<ColorJitter>,
    pub(crate) mix_up: Option<MixUp>,
}

/// How the model learns.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTrain {
    pub(crate) epochs: Option<u64>,
    pub(crate) batch: Option<usize>,
    pub(crate) learning_rate: Option<f64>,
    pub(crate) label_smoothing: Option<f32>,
    pub(crate) clip_norm: Option<f64>,
    pub(crate) optimizer: Option<OptimizerConfig>,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) workers: Option<RawWorkers>,
    pub(crate) checkpoint_every_steps: Option<u64>,
    pub(crate) keep_checkpoints: Option<usize>,
    pub(crate) keep_best: Option<usize>,
    pub(crate) loss_scale: Option<LossScale>,
    pub(crate) recompute: Option<RecomputePlan>,
    pub(crate) auto_batch: Option<AutoBatchPlan>,
    pub(crate) accumulate: Option<usize>,
    pub(crate) non_finite: Option<NonFinite>,
    pub(crate) loss: Option<ClassLoss>,
    pub(crate) ema_decay: Option<f64>,
    pub(crate) recompute_batch_norms: Option<RawBatches>,
    pub(crate) criterion: Option<Criterion>,
    pub(crate) plateau: Option<Plateau>,
    pub(crate) early_stop: Option<EarlyStop>,
    pub(crate) timing: Option<Timing>,
    pub(crate) transfer: Option<Transfer>,
}

/// `"auto"` or a number of threads.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum RawWorkers {
    Count(usize),
    Named(String),
}

/// One file or several, of which the first comes first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum RawInherit {
    One(PathBuf),
    Several(Vec<PathBuf>),
}

impl RawInherit {
    pub(crate) fn paths(&self) -> &[PathBuf] {
        match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::Several(paths) => paths,
        }
    }
}

/// `"all"` or a number of batches.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum RawBatches {
    Count(usize),
    Named(String),
}

impl RawFile for RawConfig {
    fn inherit(&self) -> Option<&RawInherit> {
        self.inherit.as_ref()
    }
}

/// What a configuration file of one task says.
pub(crate) trait RawFile: DeserializeOwned {
    /// The files whose values stand in for those that are left out.
    fn inherit(&self) -> Option<&RawInherit>;

    /// Reads a configuration text and lays `--set key=value` over it.
    ///
    /// Returns what was read with the merged table, which says for every key whether it was given.
    fn read(text: &str, place: &Path, sets: &[String]) -> Result<(Self, Table), ConfigError> {
        let located = |error: &toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            format!("{}:{line}", place.display())
        };
        // The text alone first, so that its faults carry a line.
        let raw: Self = toml::from_str(text).map_err(|error| fault(located(&error), &error))?;
        let table: Table = toml::from_str(text).map_err(|error| fault(located(&error), &error))?;
        match sets.is_empty() {
            true => Ok((raw, table)),
            false => Self::lay_sets(table, sets),
        }
    }

    /// Lays `--set key=value` over a table that was read before.
    fn lay_sets(mut table: Table, sets: &[String]) -> Result<(Self, Table), ConfigError> {
        for set in sets {
            lay_over(&mut table, set)?;
        }
        // A file's own is taken off before anything is laid over it.
        if let Some(value) = table.get("inherit") {
            return Err(ConfigError::Value {
                key: "inherit",
                value: value.to_string(),
                expected: "to be read in a file, not with --set: name both files in a config, \
                           `inherit = [\"profiles/fast.toml\", \"cifar10.toml\"]`"
                    .to_owned(),
            });
        }
        let raw = table.clone().try_into().map_err(|error: toml::de::Error| {
            fault(format!("--set {}", sets.join(" --set ")), &error)
        })?;
        Ok((raw, table))
    }
}

/// Lays one `a.b.c=value` over the table; the value is TOML, or text where it does not parse.
fn lay_over(table: &mut Table, set: &str) -> Result<(), ConfigError> {
    let malformed = || ConfigError::Set { given: set.to_owned() };
    let (key, value) = set.split_once('=').ok_or_else(malformed)?;
    let (key, value) = (key.trim(), value.trim());
    let mut path: Vec<&str> = key.split('.').collect();
    let last = path.pop().filter(|name| !name.is_empty()).ok_or_else(malformed)?;
    let mut inner = table;
    for name in path {
        inner = inner
            .entry(name.to_owned())
            .or_insert_with(|| toml::Value::Table(Table::new()))
            .as_table_mut()
            .ok_or_else(malformed)?;
    }
    let value = toml::from_str::<Table>(&format!("v = {value}"))
        .ok()
        .and_then(|mut parsed| parsed.remove("v"))
        .unwrap_or_else(|| toml::Value::String(value.to_owned()));
    inner.insert(last.to_owned(), value);
    Ok(())
}

/// Turns toml's message into ours, with the nearest known key where one was unknown.
fn fault(place: String, error: &toml::de::Error) -> ConfigError {
    let message = error.message();
    let Some(list) = message.strip_prefix("unknown field `") else {
        let message = message.trim().to_owned();
        return ConfigError::Malformed { place, message };
    };
    let mut names = list.split('`');
    let key = names.next().unwrap_or_default().to_owned();
    // What is left alternates between separators and known names.
    let known: Vec<&str> = names.skip(1).step_by(2).collect();
    let nearest = known
        .iter()
        .max_by(|a, b| strsim::jaro_winkler(&key, a).total_cmp(&strsim::jaro_winkler(&key, b)))
        .map_or_else(|| "none".to_owned(), |name| (*name).to_owned());
    ConfigError::UnknownKey { place, key, nearest, known: known.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, sets: &[&str]) -> Result<RawConfig, ConfigError> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        RawConfig::read(text, Path::new("c.toml"), &sets).map(|(raw, _)| raw)
    }

    #[test]
    fn an_unknown_key_names_its_line_with_the_nearest_known_key() {
        let message = read("seed = 1\n[train]\nepoch = 3\n", &[]).expect_err("unknown").to_string();
        assert!(message.starts_with("c.toml:3: unknown key `epoch`"), "{message}");
        assert!(message.contains("did you mean `epochs`?"), "{message}");
    }

    #[test]
    fn an_override_reaches_into_tables_with_toml_values_or_text() {
        let raw = read(
            "[train]\nepochs = 3\n",
            &["train.epochs=5", "device=flex", "train.schedule.kind=constant"],
        )
        .expect("valid");
        assert_eq!(raw.train.epochs, Some(5));
        assert_eq!(raw.device.as_deref(), Some("flex"));
        assert_eq!(raw.train.schedule, Some(Schedule::Constant));
    }

    #[test]
    fn an_unknown_override_is_refused_by_name() {
        let message = read("", &["train.epoch=3"]).expect_err("unknown").to_string();
        assert!(
            message.contains("--set train.epoch=3") && message.contains("`epochs`"),
            "{message}"
        );
    }

    #[test]
    fn an_override_without_a_value_is_refused() {
        assert!(matches!(read("", &["epochs"]), Err(ConfigError::Set { .. })));
    }

    #[test]
    fn a_wrong_type_names_its_line() {
        let message = read("\n\nseed = \"one\"\n", &[]).expect_err("wrong type").to_string();
        assert!(message.starts_with("c.toml:3: "), "{message}");
    }
}
