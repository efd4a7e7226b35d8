//! The folder of a run: its plan, environment, metrics, checkpoints and summary.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Table;
use updraft_trainer::{Criterion, best_checkpoint, list_checkpoints};

use crate::config::{Plan, RegressionPlan, Task};

const PLAN: &str = "plan.toml";
const CLASSES: &str = "classes.json";

/// A run's folder.
#[derive(Debug, Clone)]
pub(crate) struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes `runs/<time>-<name>/` with the plan and the classes in it.
    pub(crate) fn create(runs: &Path, plan: &Plan, classes: &[String]) -> Result<Self> {
        let folder = Self::create_for(runs, &plan.name, &plan.to_toml())?;
        folder.write_json(CLASSES, classes)?;
        Ok(folder)
    }

    /// Makes `runs/<time>-<name>/` with the text of a plan in it.
    pub(crate) fn create_for(runs: &Path, name: &str, plan: &str) -> Result<Self> {
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let stamp = now.trim_end_matches('Z').replace(':', "").replace('T', "-");
        fs::create_dir_all(runs)
            .with_context(|| format!("cannot create the folder `{}`", runs.display()))?;
        let path = (1..1000)
            .map(|copy| match copy {
                1 => runs.join(format!("{stamp}-{name}")),
                copy => runs.join(format!("{stamp}-{name}-{copy}")),
            })
            .find(|path| fs::create_dir(path).is_ok())
            .ok_or_else(|| anyhow!("cannot create a run folder in `{}`", runs.display()))?;
        let folder = Self { path };
        folder.write(PLAN, plan.as_bytes())?;
        Ok(folder)
    }

    /// An existing run's folder.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if !path.join(PLAN).is_file() {
            bail!("`{}` is no run folder: it has no {PLAN}", path.display());
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What the run learns.
    pub(crate) fn task(&self) -> Result<Task> {
        let (path, text) = self.plan_text()?;
        let table: Table =
            text.parse().with_context(|| format!("`{}` is not a plan", path.display()))?;
        Ok(Task::of(&table)?.unwrap_or_default())
    }

    /// The plan of a run that classifies images.
    pub(crate) fn plan(&self) -> Result<Plan> {
        self.plan_of(Task::ImageClassification)
    }

    /// The plan of a run that learns a number from a row.
    pub(crate) fn regression_plan(&self) -> Result<RegressionPlan> {
        self.plan_of(Task::TabularRegression)
    }

    fn plan_of<P: DeserializeOwned>(&self, task: Task) -> Result<P> {
        let found = self.task()?;
        if found != task {
            let path = self.path.display();
            bail!("`{path}` is a run of task `{found}`, and this is for task `{task}` alone");
        }
        let (path, text) = self.plan_text()?;
        toml::from_str(&text).with_context(|| format!("`{}` is not a plan", path.display()))
    }

    fn plan_text(&self) -> Result<(PathBuf, String)> {
        let path = self.path.join(PLAN);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        Ok((path, text))
    }

    /// The class names, in the order of the model's outputs.
    pub(crate) fn classes(&self) -> Result<Vec<String>> {
        self.read_json(CLASSES)
    }

    /// The newest whole checkpoint.
    pub(crate) fn newest_checkpoint(&self) -> Result<PathBuf> {
        list_checkpoints(&self.path.join("checkpoints"))?
            .pop()
            .ok_or_else(|| anyhow!("`{}` holds no whole checkpoint", self.path.display()))
    }

    /// The checkpoint whose model is used: the best where early stopping looks for it, else the
    /// newest.
    pub(crate) fn served_checkpoint(&self, plan: &Plan) -> Result<PathBuf> {
        self.served(plan.train.early_stop.is_some(), plan.train.criterion)
    }

    /// The same, for a run that early stopping ends or not.
    pub(crate) fn served(&self, stops_early: bool, criterion: Criterion) -> Result<PathBuf> {
        if stops_early
            && let Some(best) = best_checkpoint(&self.path.join("checkpoints"), criterion)?
        {
            return Ok(best);
        }
        self.newest_checkpoint()
    }

    /// Writes a value as readable JSON.
    pub(crate) fn write_json<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        self.write(name, &text)
    }

    /// Reads a file of the folder.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.path.join(name);
        fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))
    }

    /// Reads a value that [`write_json`](Self::write_json) wrote.
    pub(crate) fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        serde_json::from_slice(&self.read(name)?).with_context(|| {
            format!("`{}` is not what a run writes", self.path.join(name).display())
        })
    }

    /// Writes a file of the folder.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        fs::write(&path, bytes).with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Writes a file of the folder, which is whole or not there.
    pub(crate) fn write_whole(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let (part, whole) = (format!("{name}.part"), self.path.join(name));
        self.write(&part, bytes)?;
        fs::rename(self.path.join(part), &whole)
            .with_context(|| format!("cannot write `{}`", whole.display()))
    }

    /// The file that a log is appended to.
    pub(crate) fn log_file(&self) -> Result<File> {
        let path = self.path.join("log.jsonl");
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("cannot write `{}`", path.display()))
    }
}
