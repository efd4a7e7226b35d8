//! A prediction of the rows of a table into another table.

use std::path::{Path, PathBuf};

use serde::Serialize;
use updraft_data::{Delimiter, FileIdentity};

use crate::error::RunError;

/// The settings of predicting the rows of a table into another one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TablePrediction {
    /// The table with the rows.
    pub input: PathBuf,
    /// The table to write: a file that ends in `.csv` or `.tsv`.
    pub output: PathBuf,
}

/// A table of predictions that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WrittenTable {
    /// Rows, without the header.
    pub rows: u64,
    /// Columns: for each target its value, and the probability of each class or label.
    pub columns: usize,
}

impl TablePrediction {
    /// Predicts a file into another one.
    #[must_use]
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self { input: input.into(), output: output.into() }
    }

    /// Whether a file has the name of a table: it ends in `.csv` or `.tsv`.
    #[must_use]
    pub fn is_table(output: &Path) -> bool {
        let ending = output.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| ["csv", "tsv"].iter().any(|of| ending.eq_ignore_ascii_case(of)))
    }

    /// What divides the fields of the output.
    pub(in crate::task) fn delimiter(&self) -> Delimiter {
        Delimiter::of(&self.output)
    }

    /// Refuses an output that is no table, or that would replace the input.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        let output = self.output.display();
        let refuse = |reason: String| Err(RunError::Unusable { reason });
        if !Self::is_table(&self.output) {
            return refuse(format!(
                "`{output}` does not end in .csv or .tsv, and the run predicts the rows of tables; \
                 name such a file"
            ));
        }
        if self.output.is_dir() {
            return refuse(format!("`{output}` is a folder; name a file to write"));
        }
        if FileIdentity::of(&self.input) == FileIdentity::of(&self.output) {
            return refuse(format!(
                "the output and the input are one file, `{output}`, which would be overwritten; \
                 name another"
            ));
        }
        Ok(())
    }
}
