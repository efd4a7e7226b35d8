//! Why a study cannot begin, go on or be read.

use std::io;
use std::path::{Path, PathBuf};

/// Why a study cannot begin, go on or be read; the text names the cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// A setting that cannot be used.
    #[error("`{key}` is {value}; it must be {expected}")]
    Setting {
        /// The key, such as `tune.trials`.
        key: String,
        /// What was given.
        value: String,
        /// What it must be.
        expected: String,
    },
    /// The folder has a study of something else.
    #[error(
        "`{}` has a study with another {difference}; name another folder, or undo the change to go \
         on with that study", .folder.display()
    )]
    OtherStudy {
        /// The study's folder.
        folder: PathBuf,
        /// What differs, with both values.
        difference: String,
    },
    /// A line of the journal is not what a study writes.
    #[error(
        "line {line} of `{}` is damaged: {cause}; restore the file, or remove the line to go on \
         without it", .path.display()
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        cause: String,
    },
    /// The file system cannot keep two processes from writing at once.
    #[error(
        "the file system of `{}` has no locks, which a study needs; put the study elsewhere",
        .path.display()
    )]
    NoLocks {
        /// The file that was to be locked.
        path: PathBuf,
    },
    /// Results of another number than there are objectives.
    #[error("trial {trial} has {got} values; expected one for each of the {expected} objectives")]
    Values {
        /// The trial's number.
        trial: u64,
        /// The number of objectives.
        expected: usize,
        /// The number of values.
        got: usize,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} `{}`: {cause}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
}

impl TuneError {
    pub(crate) fn io(action: &'static str, path: &Path, cause: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), cause }
    }

    /// Whether the user can fix it with other settings or another folder; `false` for a file that
    /// cannot be written.
    #[must_use]
    pub fn is_input(&self) -> bool {
        !matches!(self, Self::Io { action, .. } if !matches!(*action, "read" | "open"))
    }

    pub(crate) fn setting(
        key: impl Into<String>,
        value: impl ToString,
        expected: impl Into<String>,
    ) -> Self {
        Self::Setting { key: key.into(), value: value.to_string(), expected: expected.into() }
    }
}
