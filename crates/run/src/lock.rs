//! The lock of a run folder: one process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::bounded::check_no_pipe;
use crate::error::RunError;
use crate::in_place::check_in_place;

/// Its name in the run's folder.
const FILE: &str = ".lock";

/// The largest number of bytes of the lock file that are read.
const HOLDER_BYTES: u64 = 4096;

/// The lock of a run folder, or of a folder of runs, until it is dropped.
///
/// The lock is advisory: the system releases it when the process ends. The file `.lock` names the
/// process and its host.
#[derive(Debug)]
pub struct RunLock {
    /// `None` if the file system has no locks.
    file: Option<File>,
    path: PathBuf,
}

impl RunLock {
    /// Locks a folder against other processes until the result is dropped: that of a run, or one in
    /// which a program creates several.
    ///
    /// # Errors
    /// [`RunError::InUse`] with the process that holds the lock, [`RunError::Io`] if the folder
    /// cannot be written.
    pub fn take(folder: &Path) -> Result<Self, RunError> {
        let path = folder.join(FILE);
        check_no_pipe(&path)?;
        let failed = |cause| RunError::io("write", &path, cause);
        let mut options = OpenOptions::new();
        let mut file = options
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = Vec::new();
                // If it cannot be read, only the path is reported.
                let _ = Read::by_ref(&mut file).take(HOLDER_BYTES).read_to_end(&mut holder);
                let holder = String::from_utf8_lossy(&holder).trim().to_owned();
                return Err(RunError::InUse { run: folder.to_owned(), holder });
            }
            Err(TryLockError::Error(cause)) if cause.kind() == ErrorKind::Unsupported => {
                return Ok(Self { file: None, path });
            }
            Err(TryLockError::Error(cause)) => return Err(failed(cause)),
        }
        let host = sysinfo::System::host_name().unwrap_or_else(|_| "an unknown host".to_owned());
        let holder = format!("process {} on {host}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(holder.as_bytes()))
            .map_err(failed)?;
        Ok(Self { file: Some(file), path })
    }

    /// Checks that the file at the path is still the locked one: another process can lock one that
    /// replaced it.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        self.file.as_ref().map_or(Ok(()), |file| check_in_place(file, &self.path))
    }

    /// Whether a process holds the lock of a folder.
    pub(crate) fn is_held(folder: &Path) -> bool {
        let path = folder.join(FILE);
        // Without the file, no process has it; opening a pipe would wait for a writer.
        let file = path.is_file().then(|| OpenOptions::new().read(true).open(path));
        file.and_then(Result::ok)
            .is_some_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Remove the name of the finished process; closing the file releases the lock.
            let _ = file.set_len(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_held_names_its_holder_and_is_free_afterwards() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let held = RunLock::take(dir.path()).expect("free");
        let error = RunLock::take(dir.path()).expect_err("held");
        let message = error.to_string();
        let own = format!("process {} on ", std::process::id());
        assert!(message.contains(&own), "{message}");
        assert!(message.contains(&dir.path().display().to_string()), "{message}");
        assert!(RunLock::is_held(dir.path()));
        drop(held);
        assert!(!RunLock::is_held(dir.path()) && !RunLock::is_held(&dir.path().join("none")));
        let again = RunLock::take(dir.path()).expect("free again");
        again.check().expect("in its place");
        std::fs::remove_file(dir.path().join(FILE)).expect("removed");
        assert!(matches!(again.check(), Err(RunError::Replaced { .. })));
    }
}
