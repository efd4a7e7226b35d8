//! The folder of a run: its plan, environment, metrics, checkpoints and summary.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use updraft_trainer::{best_checkpoint, list_checkpoints};

use crate::config::Plan;

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
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let stamp = now.trim_end_matches('Z').replace(':', "").replace('T', "-");
        fs::create_dir_all(runs)
            .with_context(|| format!("cannot create the folder `{}`", runs.display()))?;
        let path = (1..1000)
            .map(|copy| match copy {
                1 => runs.join(format!("{stamp}-{}", plan.name)),
                copy => runs.join(format!("{stamp}-{}-{copy}", plan.name)),
            })
            .find(|path| fs::create_dir(path).is_ok())
            .ok_or_else(|| anyhow!("cannot create a run folder in `{}`", runs.display()))?;
        let folder = Self { path };
        folder.write(PLAN, plan.to_toml().as_bytes())?;
        folder.write_json(CLASSES, classes)?;
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

    /// The plan of the run.
    pub(crate) fn plan(&self) -> Result<Plan> {
        let path = self.path.join(PLAN);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        toml::from_str(&text).with_context(|| format!("`{}` is not a plan", path.display()))
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
        if plan.train.early_stop.is_some()
            && let Some(best) =
                best_checkpoint(&self.path.join("checkpoints"), plan.train.criterion)?
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
