//! What `launch` does with `train` before ranks are started, and before they are started again.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;

use super::train::TrainCommand;
use crate::terminal::say;

impl TrainCommand {
    /// The words of the command that continues its run from the newest checkpoint.
    pub(crate) fn resuming(&self, run: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["train".into(), "--resume".into(), run.into()];
        if let Some(steps) = self.train.trace_steps {
            words.extend(["--trace-steps".into(), steps.to_string().into()]);
        }
        // A new run has the folder of its data in its plan.
        if let Some(data) = self.train.config.data.as_ref().filter(|_| self.train.resume.is_some())
        {
            words.extend(["--data".into(), data.into()]);
        }
        words.extend(self.json.is_given().then(|| "--json".into()));
        words
    }

    /// Renames the checkpoints after the one that `--checkpoint` names; false if it names none.
    pub(crate) fn set_aside(&self) -> Result<bool> {
        let Some(folder) = self.train.resumed()?.filter(|_| self.train.checkpoint.is_some()) else {
            return Ok(false);
        };
        folder.newest_checkpoint()?;
        let _held = folder.lock()?;
        let aside = folder.set_aside()?;
        if aside > 0 {
            say(&format!("note     later checkpoints renamed to `set-aside-step-…`: {aside}"));
        }
        Ok(true)
    }
}
