//! The plan of a run: every value, including defaults.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use burn::tensor::Device;
use toml::{Table, Value};
use updraft_device::{Backend, DeviceSpec};
use updraft_precision::Policy;
use updraft_trainer::{RunSettings, Timing, Transfer};

use super::distributed;
use super::edits::{Edited, edits};
use super::error::ConfigError;
use super::key::{Edit, Key, Keys};
use super::key_path::put;
use super::log::{self, LogPlan};
use super::precision;
use super::profile::UnusedKey;
use super::quantize::{self, QuantizePlan};
use super::settings::Settings;
use super::train::{self, TrainPlan};
use super::tune;
use crate::error::RunError;
use crate::task::{Ability, Opening, Predictor, Quantizer, Registry, TaskKind, TaskPlan};

const TASK: Key<String> =
    Key::new("task", "what the model is trained to do; the command `tasks` lists them")
        .depends("the first that `tasks` lists");
const NAME: Key<String> = Key::new("name", "part of the run folder's name")
    .default(r#""run""#)
    .edit(Edit::Free)
    .check("1 to 200 ASCII letters, digits, `-` and `_`: it names a folder", |name| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=200).contains(&name.len()) && name.chars().all(is_plain)
    });
const SEED: Key<u64> =
    Key::new("seed", "seeds weights, shuffling, augmentation and dropout").default("1");
const DEVICE: Key<String> =
    Key::new("device", "`auto`, `flex`, `cuda:0`, …; the command `probe` lists them")
        .default(r#""auto""#)
        .edit(Edit::Reported);

const A_DEVICE: &str = "`auto`, `cpu`, or one of `flex`, `cuda`, `rocm`, `metal`, `vulkan`, `webgpu`, \
                        `wgpu` and `cubecl-cpu`, with an index such as `cuda:1` where there are several";

const ONE_DEVICE: &str = "one device, such as `cuda`: a process trains on one, and `updraft launch -n N \
                          -- train CONFIG` starts a process for each of N devices";

/// The keys of every run that belong to no section.
const KEYS: Keys = &[&TASK, &NAME, &SEED, &DEVICE, &precision::PRECISION];

/// The keys that every task has, in the order of the page.
pub(crate) const COMMON: [Keys; 5] =
    [KEYS, train::KEYS, distributed::KEYS, log::KEYS, quantize::KEYS];

/// Everything a run was configured to do; printed at its start and stored in its folder.
pub struct Plan {
    /// Part of the run folder's name.
    pub name: String,
    /// Seeds weights, shuffling, augmentation and dropout.
    pub seed: u64,
    /// The requested device.
    pub device: DeviceSpec,
    /// The three dtypes of the computation, and what products multiply.
    pub precision: Policy,
    /// How the model learns.
    pub train: TrainPlan,
    /// The records in addition to the metrics.
    pub log: LogPlan,
    /// How the trained network is quantized.
    pub quantize: QuantizePlan,
    /// The task's part: data, model, augmentation and losses.
    pub task: Box<dyn TaskPlan>,
    kind: &'static dyn TaskKind,
    precision_note: Option<String>,
    resolved: Table,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plan").field(&self.resolved).finish()
    }
}

/// A plan with the settings that it was read from.
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// The files and the command line.
    pub settings: Settings,
}

impl Plan {
    /// Reads a configuration: a text, the files it inherits from, and overrides as `key=value`.
    ///
    /// `place` is the path of the text, which need not exist: errors name it, and paths in
    /// `inherit` are relative to its folder.
    ///
    /// # Errors
    /// [`ConfigError`], whose text names the key, where it was given, and the expected value.
    ///
    /// # Panics
    /// If the registry has no task.
    ///
    /// # Example
    /// ```
    /// use std::path::Path;
    /// use updraft_run::{Plan, TASKS};
    ///
    /// let text = "train.epochs = 0\n";
    /// let error = Plan::read(TASKS, text, Path::new("c.toml"), &[]).err().expect("refused");
    /// assert_eq!(error.to_string(), "c.toml:1: `train.epochs` is 0; it must be at least 1");
    ///
    /// let sets = ["train.epochs=3".to_owned()];
    /// let plan = Plan::read(TASKS, text, Path::new("c.toml"), &sets)?.plan;
    /// assert_eq!((plan.train.epochs, plan.train.batch), (3, 64));
    /// # Ok::<(), updraft_run::ConfigError>(())
    /// ```
    pub fn read(
        registry: Registry,
        text: &str,
        place: &Path,
        sets: &[String],
    ) -> Result<Planned, ConfigError> {
        Self::of(registry, Settings::load(text, place, sets)?)
    }

    /// Reads settings, which may have a profile.
    ///
    /// # Errors
    /// As [`read`](Self::read), [`ConfigError::NotForProfile`] and [`ConfigError::UnknownKey`] for
    /// keys of a profile.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    pub fn of(registry: Registry, settings: Settings) -> Result<Planned, ConfigError> {
        let own = registry.iter().flat_map(|kind| kind.keys()).copied();
        settings.check_profile(&COMMON.into_iter().chain(own).collect::<Vec<_>>())?;
        let kind = match settings.peek("task") {
            None => registry[0],
            Some(name) => *registry.iter().find(|kind| kind.name() == name).ok_or_else(|| {
                let names: Vec<String> =
                    registry.iter().map(|kind| format!("`{}`", kind.name())).collect();
                settings.refuse_given("task", &format!("one of {}", names.join(", ")))
            })?,
        };
        let settings = Self::with_keys_of(kind, settings)?;
        let plan = Self::decide(kind, &settings)?;
        Ok(Planned { plan, settings })
    }

    /// Reads the configuration file at a path.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`ConfigError::Read`] if the file does not exist.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    pub fn open(registry: Registry, path: &Path, sets: &[String]) -> Result<Planned, ConfigError> {
        Self::of(registry, Settings::open(path, sets)?)
    }

    /// The plan of a task's trial.
    pub(crate) fn trial(kind: &'static dyn TaskKind) -> Result<Self, ConfigError> {
        let place = Path::new("the task's trial");
        let settings = Settings::load(kind.trial(), place, &[])?;
        Self::decide(kind, &Self::with_keys_of(kind, settings)?)
    }

    fn with_keys_of(
        kind: &'static dyn TaskKind,
        settings: Settings,
    ) -> Result<Settings, ConfigError> {
        let mut keys = COMMON.to_vec();
        keys.extend(kind.keys());
        keys.push(tune::KEYS);
        settings.with_keys(keys, kind.defaults())
    }

    fn decide(kind: &'static dyn TaskKind, settings: &Settings) -> Result<Self, ConfigError> {
        settings.value_or(&TASK, || kind.name().to_owned())?;
        let device = settings.value(&DEVICE)?;
        let device = device.parse().map_err(|_| {
            let expected = if device.contains(',') { ONE_DEVICE } else { A_DEVICE };
            settings.refuse_given("device", expected)
        })?;
        let (precision, precision_note) = precision::read(settings, &device)?;
        let (name, seed) = (settings.value(&NAME)?, settings.value(&SEED)?);
        let train = TrainPlan::read(kind, settings, precision)?;
        let log = LogPlan::read(settings)?;
        let task = kind.plan(settings, &train)?;
        if let Some((ability, reason)) = kind.refused_setting(&*task, &train, &log) {
            let with = match task.decides(ability).and_then(|key| settings.shown(key)) {
                Some(decided) => decided,
                None => format!("task `{}`", kind.name()),
            };
            let expected = format!("left out with {with}: {reason}");
            let text = ability.to_string();
            let key = text.split(' ').next().unwrap_or_default();
            return Err(settings.refuse_given(key, &expected));
        }
        let quantize = QuantizePlan::read(settings, task.quantizer().err())?;
        let mut resolved = settings.finish()?;
        if precision_note.is_some() {
            put(&mut resolved, "precision", Value::String(precision.to_string()));
        }
        let plan = Self {
            name,
            seed,
            device,
            precision,
            train,
            log,
            quantize,
            task,
            kind,
            precision_note,
            resolved,
        };
        plan.run_settings(Path::new(""))
            .check_criterion(&plan.task.metrics(), true)
            .map_err(|error| settings.refuse_training(&error))?;
        Ok(plan)
    }

    /// What `precision = "auto"` decided, with the reason; `None` if a policy was named.
    #[must_use]
    pub fn precision_note(&self) -> Option<&str> {
        self.precision_note.as_deref()
    }

    /// What the model is trained to do.
    #[must_use]
    pub fn kind(&self) -> &'static dyn TaskKind {
        self.kind
    }

    /// Trains two steps of `batch` samples on examples and returns how long each took; `signature`
    /// is that of the data, from [`AnyWorkload::signature`](crate::AnyWorkload::signature).
    ///
    /// # Errors
    /// [`RunError::Train`]; for a task without [`TaskPlan::on_examples`] as [`TaskPlan::open`].
    pub fn rehearse(
        &self,
        signature: &serde_json::Value,
        device: &Device,
        batch: usize,
    ) -> Result<[Duration; 2], RunError> {
        if let Some(model) = self.task.on_examples(signature) {
            return model.rehearse(self, device, batch);
        }
        let opening = Opening { dir: None, run: None, progress: &mut |_, _| {} };
        self.task.open(self, opening)?.rehearse(self, device, batch)
    }

    /// Checks that the data of a new run and the runs that its keys name exist, without reading
    /// them; `dir` is the folder of the data, instead of the one in the plan.
    ///
    /// # Errors
    /// As [`TaskPlan::find_data`] and [`TaskPlan::find_runs`].
    pub fn find_inputs(&self, dir: Option<&Path>) -> Result<(), RunError> {
        self.task.find_data(dir)?;
        self.task.find_runs()
    }

    /// The loader of the task's trained models for prediction.
    ///
    /// # Errors
    /// [`RunError::NotForTask`] with the reason why there is none.
    pub fn predictor(&self) -> Result<&dyn Predictor, RunError> {
        self.task.predictor().map_err(|reason| self.kind.refused(Ability::Predict, reason))
    }

    /// The loader of the task's trained models for quantization.
    ///
    /// # Errors
    /// [`RunError::NotForTask`] with the reason why there is none.
    pub fn quantizer(&self) -> Result<&dyn Quantizer, RunError> {
        self.task.quantizer().map_err(|reason| self.kind.refused(Ability::Quantize, reason))
    }

    /// Checks that the task has an ability, determined with its trial.
    ///
    /// # Errors
    /// [`RunError::NotForTask`] with the reason why it has not.
    pub fn check_ability(&self, ability: Ability) -> Result<(), RunError> {
        let refusals = self.kind.refusals()?.into_iter();
        match refusals.filter(|(refused, _)| *refused == ability).map(|(_, reason)| reason).next() {
            None => Ok(()),
            Some(reason) => Err(self.kind.refused(ability, reason)),
        }
    }

    /// The settings of the trainer; checkpoints go under `run`.
    #[must_use]
    pub fn run_settings(&self, run: &Path) -> RunSettings {
        self.train.run_settings(self.seed, self.precision, run)
    }

    /// The number of updates that a run on a device of a backend reads together.
    #[must_use]
    pub fn read_every(&self, backend: Backend) -> u64 {
        // A read that waits for each update measures it.
        let measures_steps = self.train.timing == Timing::Done || self.log.utilization;
        let is_cpu = matches!(backend, Backend::Flex | Backend::CubeclCpu);
        self.train.read_every.updates_or(if is_cpu || measures_steps { 1 } else { 20 })
    }

    /// The keys in which a plan differs from the one that its run started with, in the order of the
    /// keys; keys that do not change results are omitted.
    #[must_use]
    pub fn edited_since(&self, begun: &Table) -> Vec<Edited> {
        self.differences(begun, &self.resolved)
    }

    /// The keys in which a table of this plan's task differs from another.
    pub(crate) fn differences(&self, begun: &Table, now: &Table) -> Vec<Edited> {
        let keys = COMMON.iter().chain(self.kind.keys()).copied().flatten();
        edits(keys.copied(), begun, now)
    }

    /// The keys of the plan that change nothing on devices of a backend, with the reason.
    #[must_use]
    pub fn unused_on(&self, backend: Backend) -> Vec<UnusedKey> {
        let none = |key: &str, reason: &str| UnusedKey { key: key.into(), reason: reason.into() };
        let mut unused = Vec::new();
        if backend == Backend::Flex && self.train.transfer == Transfer::Ahead {
            let reason = "batches are in the memory of flex already, so nothing is transferred";
            unused.push(none("train.transfer", reason));
        }
        if backend == Backend::Flex && self.train.timing == Timing::Done {
            let reason = "operations of flex are done when they return, so there is no wait";
            unused.push(none("train.timing", reason));
        }
        if backend == Backend::Flex && self.train.read_every.updates_or(1) > 1 {
            let reason = "operations of flex are done when they return, so a read does not wait";
            unused.push(none("train.read_every", reason));
        }
        unused
    }

    /// Replaces the batch size, in samples, for example by one that was found to fit into memory.
    pub fn set_batch(&mut self, batch: usize) {
        self.train.batch = batch;
        put(&mut self.resolved, "train.batch", Value::Integer(batch as i64));
    }

    /// Every value of the plan, defaults included, as a configuration would give it.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.resolved
    }

    /// The plan as TOML: a configuration that reads as this plan.
    ///
    ///
    /// # Panics
    /// Never: a plan has only strings, numbers, lists and tables.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.resolved).expect("a plan holds only strings, numbers and tables")
    }
}
