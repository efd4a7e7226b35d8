//! The digest of the data of a plan, with the contents of its files.

use std::path::{Path, PathBuf};

use anyhow::Result;
use updraft_data::{Digest, contents_digest};
use updraft_run::{AnyWorkload, Plan, RunError};

use crate::progress::Display;

/// Computes digests of data: files that plans have in common one after the other are read once.
#[derive(Debug, Default)]
pub(super) struct DataDigests {
    /// The last files, and the digest of their contents.
    last: Option<(Vec<PathBuf>, String)>,
}

impl DataDigests {
    /// The digest of the samples of a plan, whose data is open, and of the contents of their files;
    /// the same at any batch size, and wherever the files are.
    pub(super) fn of(
        &mut self,
        (plan, dir): (&Plan, Option<&Path>),
        workload: &dyn AnyWorkload,
        display: &mut Display,
    ) -> Result<String> {
        let samples = workload.data_digest(plan)?;
        let contents = self.contents(plan.task.data_files(dir)?, display)?;
        Ok(Digest::new("updraft data of a plan").text(&samples).text(&contents).hex())
    }

    fn contents(&mut self, files: Vec<PathBuf>, display: &mut Display) -> Result<String, RunError> {
        if let Some((_, contents)) = self.last.as_ref().filter(|(last, _)| *last == files) {
            return Ok(contents.clone());
        }
        let contents =
            contents_digest(&files, &mut |progress| display.preparing("hashing files", progress))?;
        display.clear();
        self.last = Some((files, contents.clone()));
        Ok(contents)
    }
}
