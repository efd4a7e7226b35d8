//! A run of the same classes and images that a configuration names.

use std::path::{Path, PathBuf};

use toml::Value;
use updraft_trainer::{check_served_model, export_hash};

use super::data_plan::DataPlan;
use super::{ImageClassification, data};
use crate::config::{AnyKey as _, Key, Plan};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::TaskKind as _;
use crate::task::pretrained::{named_run, refuse_run};

/// An opened run, and the key that names it.
pub(super) struct OtherRun {
    key: &'static str,
    path: PathBuf,
    pub(super) folder: RunFolder,
    pub(super) plan: Plan,
}

impl OtherRun {
    pub(super) fn open(key: &Key<PathBuf>, path: &Path) -> Result<Self, RunError> {
        let (folder, plan) = named_run(key.name(), path)?;
        Ok(Self { key: key.name(), path: path.to_owned(), folder, plan })
    }

    /// Checks, without data, that the run is of this task, has an intact trained network and sees
    /// images as here; returns it.
    pub(super) fn find(key: &Key<PathBuf>, path: &Path, own: &DataPlan) -> Result<Self, RunError> {
        let other = Self::open(key, path)?;
        other.check_task()?;
        let refuse = |error| refuse_run(key.name(), path, error);
        let served = other.folder.served_checkpoint(&other.plan).map_err(refuse)?;
        other.check_images(own)?;
        let checked = check_served_model(&served);
        checked.map_err(|error| refuse(other.folder.advised(error)))?;
        Ok(other)
    }

    /// The error of a run that is something else than the key needs.
    pub(super) fn refuse(&self, what: &str, expected: &str) -> RunError {
        let (key, path) = (self.key, self.path.display());
        RunError::Unusable { reason: format!("`{key}` is `{path}`, {what}; it must be {expected}") }
    }

    /// The hash of the weights of its served network.
    pub(super) fn fingerprint(&self) -> Result<String, RunError> {
        let path = self.folder.served_checkpoint(&self.plan);
        let hash = path.and_then(|path| Ok(export_hash(&path)?));
        hash.map_err(|error| refuse_run(self.key, &self.path, error))
    }

    /// A value of the run's plan.
    pub(super) fn value(&self, section: &str, key: &str) -> Option<&Value> {
        self.plan.table().get(section).and_then(|section| section.get(key))
    }

    fn check_task(&self) -> Result<(), RunError> {
        let task = self.plan.kind().name();
        if task == ImageClassification.name() {
            return Ok(());
        }
        let expected = format!("one of `{}`", ImageClassification.name());
        Err(self.refuse(&format!("a run of `{task}`"), &expected))
    }

    /// Checks that the run's network knows these classes, and sees images as here.
    pub(super) fn check(&self, own: &DataPlan, classes: &[String]) -> Result<(), RunError> {
        self.check_task()?;
        let theirs = data::classes_of(&self.folder)?;
        if theirs != classes {
            let what = match theirs.iter().zip(classes).find(|(theirs, own)| theirs != own) {
                Some((theirs_name, own)) if theirs.len() == classes.len() => {
                    format!("a run whose class `{theirs_name}` is `{own}` here")
                }
                _ => format!("a run of {} classes", theirs.len()),
            };
            return Err(self.refuse(&what, &format!("one of the same {} classes", classes.len())));
        }
        self.check_images(own)
    }

    /// Checks that the run's network sees images as here.
    fn check_images(&self, own: &DataPlan) -> Result<(), RunError> {
        let (height, width) = own.size();
        let seen = [
            ("height", Value::from(height as i64)),
            ("width", Value::from(width as i64)),
            ("resize", Value::try_from(own.resize).expect("a table of a word and a number")),
            ("mean", Value::from(own.mean.to_vec())),
            ("std", Value::from(own.std.to_vec())),
        ];
        for (key, own) in seen {
            let theirs = self.value("data", key);
            if theirs != Some(&own) {
                let theirs = theirs.map_or_else(|| "not given".to_owned(), Value::to_string);
                let what = format!("a run whose `data.{key}` is {theirs}");
                return Err(
                    self.refuse(&what, &format!("one whose `data.{key}` is {own}, as here"))
                );
            }
        }
        Ok(())
    }
}
