//! A run from a configuration in one expression.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use toml::Value;
use updraft_device::{open, select};
use updraft_distributed::{Alone, Shared};
use updraft_trainer::{Control, Event};

use crate::config::{ConfigError, Plan, Profile, Settings};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::operation::{Beginning, Observer, Trained, Training};
use crate::task::{Opening, Registry, TASKS};

/// A run from a configuration with changed keys.
///
/// # Example
/// ```
/// use updraft_run::{Experiment, TrainedModel};
///
/// # let dir = tempfile::tempdir()?;
/// # let config = dir.path().join("sines.toml");
/// # let text = r#"
/// # task = "tables"
/// # data = { source = "formula", formula = "exp-sin-square", train_rows = 200, test_rows = 50 }
/// # train = { epochs = 9, batch = 50 }
/// # "#;
/// # std::fs::write(&config, text)?;
/// let trained = Experiment::from_config(&config)
///     .set("train.epochs", 3)
///     .set("train.learning_rate", 0.01)
///     .runs(dir.path())
///     .train()?;
/// assert_eq!(trained.folder.plan(updraft_run::TASKS)?.train.epochs, 3);
///
/// let test = trained.test.expect("the run is complete");
/// println!("loss {}", test.loss());
/// let model = TrainedModel::load(trained.folder.path(), "auto")?;
/// # let _ = model;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Experiment {
    registry: Registry,
    config: PathBuf,
    sets: Vec<String>,
    profile: Option<String>,
    runs: PathBuf,
}

impl fmt::Debug for Experiment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, sets, profile, runs, .. } = self;
        let mut all = formatter.debug_struct("Experiment");
        all.field("config", config).field("sets", sets).field("profile", profile);
        all.field("runs", runs).finish_non_exhaustive()
    }
}

impl Experiment {
    /// An experiment of the configuration file at a path, which is read by [`plan`](Self::plan) and
    /// [`train`](Self::train); its runs are made in the folder `runs`.
    #[must_use]
    pub fn from_config(path: impl Into<PathBuf>) -> Self {
        Self {
            registry: TASKS,
            config: path.into(),
            sets: Vec::new(),
            profile: None,
            runs: PathBuf::from("runs"),
        }
    }

    /// Changes the value of a key, such as `train.epochs`; the last change of a key counts.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.sets.push(format!("{key}={}", value.into()));
        self
    }

    /// Uses a [`Profile`]: `default`, `throughput`, `low-memory`, or the path of a `.toml` file.
    #[must_use]
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.profile = Some(name.into());
        self
    }

    /// Creates run folders in this folder.
    #[must_use]
    pub fn runs(mut self, folder: impl Into<PathBuf>) -> Self {
        self.runs = folder.into();
        self
    }

    /// Uses other tasks than those of this crate, the default first.
    #[must_use]
    pub fn tasks(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// The plan: every value, with defaults.
    ///
    /// # Errors
    /// [`ConfigError`], whose text names the key, where it was given, and the expected value.
    ///
    /// # Panics
    /// If the registry has no task.
    pub fn plan(&self) -> Result<Plan, ConfigError> {
        let settings = Settings::open(&self.config, &self.sets)?;
        let settings = match &self.profile {
            None => settings,
            Some(name) => settings.with_profile(Profile::open(name)?),
        };
        Ok(Plan::of(self.registry, settings)?.plan)
    }

    /// Trains a new run.
    ///
    /// # Errors
    /// [`RunError::Config`] for a configuration that cannot be read, [`RunError::Device`] without
    /// the device, [`RunError::Unusable`] for `train.auto_batch`, which only the command line has,
    /// and those of [`AnyWorkload::train`](crate::AnyWorkload::train).
    ///
    /// # Panics
    /// If the registry has no task.
    pub fn train(&self) -> Result<Trained, RunError> {
        self.train_with(&mut Quiet)
    }

    /// Trains a new run and reports its events, which may stop it.
    ///
    /// # Errors
    /// As [`train`](Self::train), and those of the observer.
    ///
    /// # Panics
    /// As [`train`](Self::train).
    pub fn train_with(&self, observer: &mut dyn Observer) -> Result<Trained, RunError> {
        let began = (Instant::now(), updraft_device::cpu_seconds());
        let plan = self.plan()?;
        if plan.train.auto_batch.is_some() {
            let reason = "`train.auto_batch`, or \"auto\" for `train.batch`, starts processes of \
                          the command line; set `train.batch` to a number instead";
            return Err(RunError::Unusable { reason: reason.to_owned() });
        }
        let selection = select(&plan.device, &updraft_device::probe())?;
        let device = open(&selection)?;
        plan.task.find_runs()?;
        RunFolder::try_place(&self.runs, &plan)?;
        let opening = Opening { dir: None, run: None, progress: &mut |_, _| {} };
        let workload = plan.task.open(&plan, opening)?;
        let training = Training {
            plan: &plan,
            device: &device,
            selection: &selection,
            runs: &self.runs,
            resumed: None,
            collective: Shared::new(Alone),
            trace_steps: None,
            began,
        };
        workload.train(training, observer)
    }

    /// The configuration file.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.config
    }
}

/// Prints nothing and never stops the run.
struct Quiet;

impl Observer for Quiet {
    fn begin(&mut self, _: &Beginning<'_>) -> Result<(), RunError> {
        Ok(())
    }

    fn event(&mut self, _: &Event) -> Control {
        Control::Continue
    }
}
