//! Where run folders are created, and what they are called.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;

impl RunFolder {
    /// Checks, without writing anything, that no file is where `runs` or a folder above it has to
    /// be, and that the system finds the folder above. Permissions are not checked:
    /// [`try_place`](Self::try_place) does that.
    ///
    /// # Errors
    /// [`RunError::Place`].
    pub fn check_place(runs: &Path) -> Result<(), RunError> {
        let failed = |cause| RunError::Place { path: runs.to_owned(), cause };
        for folder in runs.ancestors().filter(|path| !path.as_os_str().is_empty()) {
            match fs::metadata(folder) {
                Ok(found) if found.is_dir() => return Ok(()),
                Ok(_) => return Err(failed(ErrorKind::NotADirectory.into())),
                Err(cause) if cause.kind() == ErrorKind::NotFound => {}
                Err(cause) => return Err(failed(cause)),
            }
        }
        Ok(())
    }

    /// Checks that a run folder can be created, before any work: creates one and removes it.
    ///
    /// # Errors
    /// [`RunError::Place`].
    pub fn try_place(runs: &Path, plan: &Plan) -> Result<(), RunError> {
        let runs: &Path = &without_dots(runs);
        let missing: Vec<&Path> = runs
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
            .collect();
        let tried = fs::create_dir_all(runs).and_then(|()| {
            let path = runs.join(format!(".{}-{}-{}", stamp(), plan.name, std::process::id()));
            fs::create_dir(&path)?;
            fs::remove_dir(&path)
        });
        for path in missing {
            // Another process may have created a run there in the meantime; then it stays.
            let _ = fs::remove_dir(path);
        }
        tried.map_err(|cause| RunError::Place { path: runs.to_owned(), cause })
    }
}

/// The time as a part of a folder's name, such as `2026-01-02-150405`.
pub(super) fn stamp() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.trim_end_matches('Z').replace(':', "").replace('T', "-")
}

/// Without `.` inside or at the end, which would be in every message, and which the system refuses
/// below folders that are yet to be created.
pub(super) fn without_dots(path: &Path) -> PathBuf {
    path.components().collect()
}
