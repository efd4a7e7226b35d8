//! Errors of a study.

use std::io;
use std::path::{Path, PathBuf};

use crate::shortened::shortened;

/// Why a study cannot be created, continued or read; the text contains the cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// An invalid setting.
    #[error("`{}` is {}; it must be {expected}", shortened(.key), shortened(.value))]
    Setting {
        /// The key, such as `tune.trials`.
        key: String,
        /// The invalid value.
        value: String,
        /// Which values are valid.
        expected: String,
    },
    /// The folder contains another study.
    #[error(
        "`{}` has a study with another {difference}; use another folder, or undo the change to \
         continue that study", .folder.display()
    )]
    OtherStudy {
        /// The study's folder.
        folder: PathBuf,
        /// The difference, with both values.
        difference: String,
    },
    /// The folder contains something else than a study.
    #[error(
        "`{}` is not empty and has no study; use a new or an empty folder, or the one of a study to \
         continue it", .folder.display()
    )]
    NotAStudy {
        /// The folder.
        folder: PathBuf,
    },
    /// A line of the journal is invalid.
    #[error(
        "line {line} of `{}` is damaged: {cause}; restore the file, or {}",
        .path.display(), without(*line)
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The reason.
        cause: String,
    },
    /// The journal is empty or ends in its first line, and the folder has results of a study.
    #[error(
        "`{}` has no whole line, and its folder has `{other}`, which trials have written; restore \
         the journal, or use another folder", .path.display()
    )]
    Lost {
        /// The journal.
        path: PathBuf,
        /// Another file or folder beside it.
        other: String,
    },
    /// The file system does not support locks.
    #[error(
        "the file system of `{}` does not support locks, which a study needs; put the study on \
         another file system",
        .path.display()
    )]
    NoLocks {
        /// The file that could not be locked.
        path: PathBuf,
    },
    /// The number of values is not the number of objectives.
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
        /// The operation that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
}

/// How to continue without a line; the first one describes the study.
const fn without(line: u64) -> &'static str {
    match line {
        1 => "use another folder",
        _ => "remove the line to continue without it",
    }
}

/// The cause of a line that is not JSON, with its column.
pub(crate) fn of_json(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let place = format!(" at line {line} column {column}");
    match text.strip_suffix(&place) {
        Some(cause) if column == 0 => cause.to_owned(),
        Some(cause) => format!("{cause} at column {column}"),
        None => text,
    }
}

impl TuneError {
    pub(crate) fn io(action: &'static str, path: &Path, cause: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), cause }
    }

    /// Whether the cause is the user's input, such as settings or a folder; `false` for a file that
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
