//! The folder of a run: its plan, metrics, checkpoints and summary.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;
use updraft_trainer::{best_checkpoint, list_checkpoints};

use crate::config::Plan;
use crate::error::RunError;
use crate::task::{PICTURES, Picture, Registry};

const PLAN: &str = "plan.toml";

/// A run's folder: `plan.toml`, `run.json`, `metrics.jsonl`, `environment.json`, `checkpoints/`, what
/// the task writes beside them, and at the end `summary.json`.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes `runs/<time>-<name>/`, with a number behind it where there is one already, and writes
    /// the plan into it.
    ///
    /// # Errors
    /// [`RunError::Io`] where a folder cannot be made or written.
    pub fn create(runs: &Path, plan: &Plan) -> Result<Self, RunError> {
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let stamp = now.trim_end_matches('Z').replace(':', "").replace('T', "-");
        fs::create_dir_all(runs).map_err(|cause| RunError::io("create", runs, cause))?;
        let mut copy = 1_u64;
        loop {
            let path = match copy {
                1 => runs.join(format!("{stamp}-{}", plan.name)),
                copy => runs.join(format!("{stamp}-{}-{copy}", plan.name)),
            };
            match fs::create_dir(&path) {
                Ok(()) => {
                    let folder = Self { path };
                    folder.write(PLAN, plan.to_toml().as_bytes())?;
                    return Ok(folder);
                }
                // Another run began within the same second.
                Err(cause) if cause.kind() == ErrorKind::AlreadyExists => copy += 1,
                Err(cause) => return Err(RunError::io("create", &path, cause)),
            }
        }
    }

    /// The folder of an existing run.
    ///
    /// # Errors
    /// [`RunError::NoRun`] for a folder without a plan, or none.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        if !path.join(PLAN).is_file() {
            return Err(RunError::NoRun { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the run's plan, whose task is one of the registry's.
    ///
    /// # Errors
    /// [`RunError::Plan`] for a plan that this build does not understand, [`RunError::Io`] for one
    /// that cannot be read.
    ///
    /// # Panics
    /// If the registry has no task.
    pub fn plan(&self, registry: Registry) -> Result<Plan, RunError> {
        let path = self.path.join(PLAN);
        let text = fs::read_to_string(&path).map_err(|cause| RunError::io("read", &path, cause))?;
        let planned = Plan::read(registry, &text, &path, &[]);
        planned
            .map(|planned| planned.plan)
            .map_err(|cause| RunError::Plan { path, cause: Box::new(cause) })
    }

    /// The newest whole checkpoint.
    ///
    /// # Errors
    /// [`RunError::NoCheckpoint`], or [`RunError::Checkpoint`] where the folder cannot be listed.
    pub fn newest_checkpoint(&self) -> Result<PathBuf, RunError> {
        list_checkpoints(&self.path.join("checkpoints"))?
            .pop()
            .ok_or_else(|| RunError::NoCheckpoint { path: self.path.clone() })
    }

    /// The checkpoint whose model is used: the best where early stopping looks for it, else the
    /// newest.
    ///
    /// # Errors
    /// As [`newest_checkpoint`](Self::newest_checkpoint).
    pub fn served_checkpoint(&self, plan: &Plan) -> Result<PathBuf, RunError> {
        if plan.train.early_stop.is_some()
            && let Some(best) = best_checkpoint(&self.path.join("checkpoints"))?
        {
            return Ok(best);
        }
        self.newest_checkpoint()
    }

    /// What to look at after training; nothing for a run that is not over.
    ///
    /// # Errors
    /// [`RunError::Io`] or [`RunError::Json`] for a file that cannot be read.
    pub fn pictures(&self) -> Result<Vec<Picture>, RunError> {
        if self.has(PICTURES) { self.read_json(PICTURES) } else { Ok(Vec::new()) }
    }

    /// Whether the folder has a file of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    /// Writes a value as indented JSON; the file is whole or as it was before.
    ///
    /// # Errors
    /// [`RunError::Io`], or [`RunError::Json`] for a value that JSON does not have.
    pub fn write_json<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<(), RunError> {
        let mut text = serde_json::to_vec_pretty(value).map_err(|cause| self.json(name, cause))?;
        text.push(b'\n');
        self.write(name, &text)
    }

    /// Reads a file of the folder.
    ///
    /// # Errors
    /// [`RunError::Io`].
    pub fn read(&self, name: &str) -> Result<Vec<u8>, RunError> {
        let path = self.path.join(name);
        fs::read(&path).map_err(|cause| RunError::io("read", &path, cause))
    }

    /// Reads a value that [`write_json`](Self::write_json) wrote.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::Json`].
    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, RunError> {
        serde_json::from_slice(&self.read(name)?).map_err(|cause| self.json(name, cause))
    }

    /// Writes a file of the folder, which is whole or as it was before.
    ///
    /// # Errors
    /// [`RunError::Io`].
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        let (part, whole) = (self.path.join(format!("{name}.part")), self.path.join(name));
        let failed = |cause| RunError::io("write", &whole, cause);
        fs::write(&part, bytes).map_err(failed)?;
        fs::rename(&part, &whole).map_err(failed)
    }

    /// Opens `log.jsonl` to append to it.
    ///
    /// # Errors
    /// [`RunError::Io`].
    pub fn log_file(&self) -> Result<File, RunError> {
        let path = self.path.join("log.jsonl");
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.map_err(|cause| RunError::io("write", &path, cause))
    }

    fn json(&self, name: &str, cause: serde_json::Error) -> RunError {
        RunError::Json { path: self.path.join(name), cause }
    }
}
