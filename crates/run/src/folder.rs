//! The folder of a run: its plan, metrics, checkpoints and summary.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Table;
use updraft_data::{Digest, is_link_loop};
use updraft_trainer::{
    CheckpointError, best_checkpoint, check_checkpoint, checkpoint_contents, checkpoint_step,
    list_checkpoints, remove_remains, set_aside_checkpoints,
};

use crate::bounded::{self, CONFIG_BYTES, RECORD_BYTES};
use crate::config::{Edit, Edited, Plan};
use crate::error::RunError;
use crate::lock::RunLock;
use crate::lost_checkpoint::{Needed, refuse_lost, remove_later_summary};
use crate::place::{stamp, without_dots};
use crate::replaced_files::{self, replace_files};
use crate::task::{PICTURES, Picture, Registry};

const PLAN: &str = "plan.toml";

/// How often the lock is looked at while it is waited for.
const POLL: Duration = Duration::from_millis(10);

/// The plan at the start of the run, to detect edits.
const BEGUN: &str = ".plan.toml";

/// A run's folder: `plan.toml`, `run.json`, `metrics.jsonl`, `environment.json`, `checkpoints/`,
/// files of the task, of images `file-contents.json`, on GPUs `kernel-choices/`, and at the end
/// `summary.json`.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
    /// The step of the checkpoint to use, instead of the served one.
    checkpoint: Option<u64>,
}

impl RunFolder {
    /// Creates `runs/<time>-<name>/`, with a number appended if it exists, and writes the plan into
    /// it.
    ///
    /// # Errors
    /// [`RunError::Io`] if a folder cannot be created or written.
    pub fn create(runs: &Path, plan: &Plan) -> Result<Self, RunError> {
        let stamp = stamp();
        let runs: &Path = &without_dots(runs);
        fs::create_dir_all(runs).map_err(|cause| RunError::io("create", runs, cause))?;
        let mut copy = 1_u64;
        loop {
            let path = match copy {
                1 => runs.join(format!("{stamp}-{}", plan.name)),
                copy => runs.join(format!("{stamp}-{}-{copy}", plan.name)),
            };
            match fs::create_dir(&path) {
                Ok(()) => {
                    let folder = Self { path, checkpoint: None };
                    let text = plan.to_toml();
                    folder.write(BEGUN, text.as_bytes())?;
                    folder.write(PLAN, text.as_bytes())?;
                    return Ok(folder);
                }
                // Another run started within the same second.
                Err(cause) if cause.kind() == ErrorKind::AlreadyExists => copy += 1,
                Err(cause) => return Err(RunError::io("create", &path, cause)),
            }
        }
    }

    /// Opens the folder of an existing run.
    ///
    /// # Errors
    /// [`RunError::NoRun`] if it does not exist or has no plan, [`RunError::Io`] for symbolic links
    /// that form a loop.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let path: &Path = &without_dots(path);
        let plan = path.join(PLAN);
        if plan.is_file() {
            return Ok(Self { path: path.to_owned(), checkpoint: None });
        }
        for of in [path, &plan] {
            if let Some(cause) = fs::metadata(of).err().filter(|_| is_link_loop(of)) {
                return Err(RunError::io("open", of, cause));
            }
        }
        Err(RunError::NoRun { path: path.to_owned() })
    }

    /// The same folder with the checkpoint of a step instead of the served or newest one; unchanged
    /// for `None`.
    ///
    /// # Errors
    /// [`RunError::NoStep`] if there is no complete checkpoint of that step, with the existing
    /// steps.
    pub fn with_checkpoint(mut self, step: Option<u64>) -> Result<Self, RunError> {
        let Some(step) = step else { return Ok(self) };
        let found = list_checkpoints(&self.checkpoints())?;
        let known: Vec<u64> = found.iter().filter_map(|path| checkpoint_step(path)).collect();
        if !known.contains(&step) {
            return Err(RunError::NoStep { path: self.path, step, known });
        }
        self.checkpoint = Some(step);
        Ok(self)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the folder against other processes until the result is dropped.
    ///
    /// # Errors
    /// [`RunError::InUse`] with the process that holds the lock, [`RunError::Io`] if the folder
    /// cannot be written.
    pub fn lock(&self) -> Result<RunLock, RunError> {
        RunLock::take(&self.path)
    }

    /// Waits until no process holds the lock, such as a rank that its launcher has just ended; false
    /// if one still does after `patience`.
    #[must_use]
    pub fn wait_until_free(&self, patience: Duration) -> bool {
        let started = Instant::now();
        while RunLock::is_held(&self.path) {
            if started.elapsed() >= patience {
                return false;
            }
            std::thread::sleep(POLL);
        }
        true
    }

    /// Reads the run's plan, whose task is in the registry; every value is checked like one of a
    /// configuration.
    ///
    /// # Errors
    /// [`RunError::Plan`] for a plan that this build cannot read, [`RunError::Io`] for one that
    /// cannot be read.
    ///
    /// # Panics
    /// If the registry has no task.
    pub fn plan(&self, registry: Registry) -> Result<Plan, RunError> {
        let path = self.path.join(PLAN);
        let text = bounded::read_own_text(&path, CONFIG_BYTES)?;
        let planned = Plan::read(registry, &text, &path, &[]);
        let refuse = |cause| RunError::Plan { path, cause: Box::new(cause) };
        Ok(planned.map_err(refuse)?.plan)
    }

    /// The keys in which a plan differs from the one that the run started with; see
    /// [`Plan::edited_since`].
    ///
    /// # Errors
    /// [`RunError::Io`] or [`RunError::Unusable`] for a copy that cannot be read; a folder without
    /// one has no edits.
    pub fn edits(&self, plan: &Plan) -> Result<Vec<Edited>, RunError> {
        let path = self.path.join(BEGUN);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let begun = bounded::read_own_text(&path, CONFIG_BYTES)?;
        let begun: Table = toml::from_str(&begun).map_err(|_| RunError::Unusable {
            reason: format!(
                "`{}`, the plan with which the run began, is damaged; if plan.toml was not edited \
                 since then, copy it there",
                path.display()
            ),
        })?;
        Ok(plan.edited_since(&begun))
    }

    /// Returns an error for a plan that was edited in a key that decides what the model computes.
    ///
    /// # Errors
    /// [`RunError::Edited`] with the first such key, and as [`edits`](Self::edits).
    pub fn refuse_other_model(&self, plan: &Plan) -> Result<(), RunError> {
        let mut edits = self.edits(plan)?.into_iter();
        match edits.find(|edited| edited.edit == Edit::Refused) {
            None => Ok(()),
            Some(edited) => Err(RunError::Edited { path: self.path.join(PLAN), edited }),
        }
    }

    /// The newest complete checkpoint, or the chosen one.
    ///
    /// # Errors
    /// [`RunError::NoCheckpoint`]. If the newest one was removed or has no manifest,
    /// [`RunError::Damaged`] with the newest intact one, [`RunError::Checkpoint`] if the others are
    /// damaged, or [`RunError::LostCheckpoints`] without others. [`RunError::Checkpoint`] also if
    /// the folder cannot be listed. Damage of one with a manifest is an error only when it is read.
    pub fn newest_checkpoint(&self) -> Result<PathBuf, RunError> {
        let mut found = list_checkpoints(&self.checkpoints())?;
        match self.checkpoint {
            Some(_) => found.retain(|path| checkpoint_step(path) == self.checkpoint),
            None => refuse_lost(self, &found, Needed::Newest)?,
        }
        found.pop().ok_or_else(|| RunError::NoCheckpoint { path: self.path.clone() })
    }

    /// The checkpoint of the served model: the chosen one, or the best with early stopping, or the
    /// newest.
    ///
    /// # Errors
    /// As [`newest_checkpoint`](Self::newest_checkpoint).
    pub fn served_checkpoint(&self, plan: &Plan) -> Result<PathBuf, RunError> {
        if let Some(stop) = &plan.train.early_stop
            && self.checkpoint.is_none()
        {
            let (folder, metric) = (self.checkpoints(), stop.metric_or(&plan.train.criterion));
            refuse_lost(self, &list_checkpoints(&folder)?, Needed::Served)?;
            let best = best_checkpoint(&folder, metric).map_err(|error| self.advised(error))?;
            if let Some(best) = best {
                return Ok(best);
            }
        }
        self.newest_checkpoint()
    }

    /// SHA-256 of the checkpoint that is served: the same for the same model.
    ///
    /// # Errors
    /// As [`served_checkpoint`](Self::served_checkpoint), and [`RunError::Checkpoint`] or
    /// [`RunError::Damaged`] for one that is damaged.
    pub fn served_digest(&self, plan: &Plan) -> Result<String, RunError> {
        let path = self.served_checkpoint(plan)?;
        let contents = checkpoint_contents(&path).map_err(|error| self.advised(error))?;
        Ok(Digest::new("served checkpoint").bytes(format!("{contents:?}").as_bytes()).hex())
    }

    /// The error of a checkpoint that cannot be used, with the newest usable one if files of
    /// another are damaged.
    pub(crate) fn advised(&self, error: CheckpointError) -> RunError {
        let found = list_checkpoints(&self.checkpoints()).unwrap_or_default();
        let (whole, damaged): (Vec<_>, Vec<_>) =
            found.iter().partition(|path| check_checkpoint(path).is_ok());
        match whole.last().and_then(|path| checkpoint_step(path)) {
            Some(step) if !damaged.is_empty() && self.checkpoint != Some(step) => {
                RunError::Damaged { cause: error, step }
            }
            _ => RunError::Checkpoint(error),
        }
    }

    /// Renames the checkpoints after the one of [`with_checkpoint`](Self::with_checkpoint), so that
    /// a run continues from there, and removes the summary if it is of a later step; returns how
    /// many checkpoints were renamed.
    ///
    /// # Errors
    /// [`RunError::Checkpoint`] if one cannot be renamed, [`RunError::Io`].
    pub fn set_aside(&self) -> Result<usize, RunError> {
        match self.checkpoint {
            None => Ok(0),
            Some(step) => {
                remove_later_summary(self, step)?;
                Ok(set_aside_checkpoints(&self.checkpoints(), step)?)
            }
        }
    }

    /// Deletes what a save that was killed left: on a full disk its space may be all there is.
    pub(crate) fn remove_remains(&self) -> Result<(), RunError> {
        Ok(remove_remains(&self.checkpoints())?)
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// The pictures of a run; empty for a run that is not finished.
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

    /// Writes a value as indented JSON; the file is replaced atomically.
    ///
    /// # Errors
    /// [`RunError::Io`], or [`RunError::Json`] for a value that JSON cannot represent.
    pub fn write_json<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<(), RunError> {
        let mut text = serde_json::to_vec_pretty(value).map_err(|cause| self.json(name, cause))?;
        text.push(b'\n');
        self.write(name, &text)
    }

    /// Reads a file of the folder, of at most 256 MiB.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::TooLarge`].
    pub fn read(&self, name: &str) -> Result<Vec<u8>, RunError> {
        bounded::read_own(&self.path.join(name), RECORD_BYTES)
    }

    /// Reads a value that [`write_json`](Self::write_json) wrote.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::TooLarge`], [`RunError::Json`].
    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, RunError> {
        serde_json::from_slice(&self.read(name)?).map_err(|cause| self.json(name, cause))
    }

    /// Writes a file of the folder, replacing it atomically.
    ///
    /// # Errors
    /// [`RunError::Io`].
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        replace_files(&self.path, &[(name, Some(bytes))])
    }

    /// Writes several files of the folder and removes those without a content, all or none: if one
    /// cannot be written, all files are as they were.
    ///
    /// # Errors
    /// [`RunError::Io`].
    pub fn replace(&self, files: &[(&str, Option<&[u8]>)]) -> Result<(), RunError> {
        replace_files(&self.path, files)
    }

    /// Deletes a file of the folder, if it is there.
    ///
    /// # Errors
    /// [`RunError::Io`].
    pub fn remove(&self, name: &str) -> Result<(), RunError> {
        replaced_files::remove(&self.path.join(name))
    }

    /// Opens `log.jsonl` to append to it.
    ///
    /// # Errors
    /// [`RunError::Io`], also for a pipe or a device in its place.
    pub fn log_file(&self) -> Result<File, RunError> {
        let path = self.path.join("log.jsonl");
        bounded::check_no_pipe(&path)?;
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.map_err(|cause| RunError::io("write", &path, cause))
    }

    fn json(&self, name: &str, cause: serde_json::Error) -> RunError {
        RunError::Json { path: self.path.join(name), cause }
    }
}
