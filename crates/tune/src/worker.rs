//! The processes of a study: each holds the lock of its own file until it ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::TuneError;

/// The folder of these files in the study's folder.
pub(crate) const WORKERS: &str = "workers";

/// The registration of this process, which other processes of the study can check.
///
/// The system releases the lock when the process ends for any reason, also if the process is on
/// another host with the same folder. A process id alone is not enough, because systems reuse ids.
#[derive(Debug)]
pub(crate) struct Worker {
    id: String,
    folder: PathBuf,
    /// Held until the process ends or the study is closed.
    file: Option<File>,
}

impl Worker {
    /// Registers this process, and removes the files of processes that have ended. The lock of the
    /// journal must be held.
    pub(crate) fn register(study: &Path) -> Result<Self, TuneError> {
        let folder = study.join(WORKERS);
        fs::create_dir_all(&folder).map_err(|cause| TuneError::io("create", &folder, cause))?;
        let entries =
            fs::read_dir(&folder).map_err(|cause| TuneError::io("read", &folder, cause))?;
        for entry in entries.flatten() {
            is_running(&entry.path());
        }
        let host = sysinfo::System::host_name().unwrap_or_else(|_| "unknown".to_owned());
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let host: String = host.chars().map(plain).collect();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_nanos());
        let id = format!("{host}-{}-{since:x}", std::process::id());
        let path = folder.join(&id);
        let file =
            File::create_new(&path).map_err(|cause| TuneError::io("create", &path, cause))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { id, folder, file: Some(file) }),
            Err(TryLockError::Error(cause)) if cause.kind() == ErrorKind::Unsupported => {
                Err(TuneError::NoLocks { path })
            }
            Err(error) => Err(TuneError::io("lock", &path, error.into())),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether a process is still running; removes the file of a process that has ended.
    pub(crate) fn is_alive(&self, id: &str) -> bool {
        if id == self.id {
            return true;
        }
        is_running(&self.folder.join(id))
    }
}

/// Whether the process of a file is still running; removes the file if it is not.
fn is_running(path: &Path) -> bool {
    let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else {
        return path.exists();
    };
    match file.try_lock() {
        Ok(()) => {
            let _ = fs::remove_file(path);
            false
        }
        Err(_) => true,
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Remove the file before the lock is released, so that no other process checks the lock.
        let _ = fs::remove_file(self.folder.join(&self.id));
        self.file = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_alive_until_it_is_dropped() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let (one, other) = (
            Worker::register(dir.path()).expect("one"),
            Worker::register(dir.path()).expect("two"),
        );
        assert!(one.is_alive(other.id()) && one.is_alive(one.id()));
        let id = other.id().to_owned();
        drop(other);
        assert!(!one.is_alive(&id) && !one.is_alive("host-1-0"));
    }

    #[test]
    fn the_file_of_a_killed_process_does_not_count_as_a_worker() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let one = Worker::register(dir.path()).expect("one");
        let left = dir.path().join(WORKERS).join("host-7-1");
        fs::write(&left, "").expect("written");
        assert!(!one.is_alive("host-7-1") && !left.exists());
        fs::write(&left, "").expect("written");
        let other = Worker::register(dir.path()).expect("two");
        assert!(!left.exists() && other.is_alive(one.id()));
    }
}
