//! A cache of kernels that one run alone writes, and its choices stored beside the run.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::contents::{CacheContents, TUNED, contents_of};
use super::database;
use super::origin::{KernelOrigin, OriginDifference};
use crate::error::DeviceError;

/// The folder beside the machine's cache with those of runs.
const FOLDER: &str = "updraft-own";

/// The name of a cache in its folder.
const FILE: &str = "kernels.db";

/// Whether this process has a cache of its own: CubeCL uses one at a time.
static IN_USE: AtomicBool = AtomicBool::new(false);

/// What became of the choices that a run stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredChoices {
    /// No file was given, or there is none.
    Missing,
    /// They decide which kernels run.
    Used {
        /// How many there are, one for each operation and shape.
        choices: u64,
    },
    /// They belong to another device, driver or version, and are not used.
    Other(OriginDifference),
    /// The file cannot be read, and is not used.
    Unreadable {
        /// Why.
        cause: String,
    },
}

/// A cache of kernels for one run, from [`begin`](Self::begin) until it is
/// [finished](Self::finish) or dropped.
///
/// It starts as a copy of the machine's cache, and no other process writes to it: what it has for an
/// operation and a shape is what this process runs. In the machine's cache, two processes that
/// measure the same kernel at once each run their own choice, and one of them is kept.
///
/// All devices of this process use it. The switch drops the choices and the compiled kernels in
/// memory, so it comes before the first kernel of a run.
#[derive(Debug)]
pub struct OwnKernelCache {
    folder: PathBuf,
    /// Locked as long as the cache is in use.
    lock: (PathBuf, File),
    file: PathBuf,
    shared: PathBuf,
    /// The origin as JSON.
    label: String,
    begun_with: CacheContents,
    /// The number of choices at the last [`store`](Self::store).
    stored: Option<u64>,
}

impl OwnKernelCache {
    /// Uses a cache of its own from now on: the choices in the file `stored`, where they belong to
    /// `origin`, then the kernels of the machine's cache.
    ///
    /// The device of `origin` is open by then, so that CubeCL's configuration has chosen the
    /// machine's cache. Removes what ended processes have left.
    ///
    /// # Errors
    /// [`DeviceError::KernelCacheInUse`] if this process has one, [`DeviceError::KernelCache`] if it
    /// cannot be created, or for a build without the feature `persistence`; the machine's cache is
    /// used then.
    pub fn begin(
        origin: &KernelOrigin,
        stored: Option<&Path>,
    ) -> Result<(Self, StoredChoices), DeviceError> {
        let shared = database::active();
        if !cfg!(feature = "persistence") {
            let cause = "the cargo feature `persistence` is off".to_owned();
            return Err(DeviceError::kernel_cache("copy", &shared, cause));
        }
        let claimed = IN_USE.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire);
        claimed.map_err(|_| DeviceError::KernelCacheInUse)?;
        let begun = Self::begin_claimed(origin, stored, shared);
        if begun.is_err() {
            IN_USE.store(false, Ordering::Release);
        }
        begun
    }

    fn begin_claimed(
        origin: &KernelOrigin,
        stored: Option<&Path>,
        shared: PathBuf,
    ) -> Result<(Self, StoredChoices), DeviceError> {
        let label = serde_json::to_string(origin).expect("texts are valid JSON");
        let found = stored_choices(origin, stored);
        let root = shared.parent().unwrap_or(Path::new("")).join(FOLDER);
        let created = new_folder(&root);
        let (folder, lock) = created
            .map_err(|cause| DeviceError::kernel_cache("create", &root, cause.to_string()))?;
        let file = folder.join(FILE);
        let mut from = Vec::new();
        if let (StoredChoices::Used { .. }, Some(stored)) = (&found, stored) {
            from.push(stored);
        }
        from.push(&shared);
        let copied = database::copy(&from, &file, &label, None);
        let begun_with = copied
            .map_err(|cause| DeviceError::kernel_cache("copy", &shared, cause))
            .and_then(|()| contents_of(&file));
        let begun_with = match begun_with {
            Ok(contents) => contents,
            Err(error) => {
                remove(&folder, &lock.0);
                return Err(error);
            }
        };
        database::use_file(&file);
        Ok((Self { folder, lock, file, shared, label, begun_with, stored: None }, found))
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Stores the choices so far in a file, for [`begin`](Self::begin); replaces the file when the
    /// new one is complete, and leaves it if there are no new ones. Returns how many there are.
    ///
    /// # Errors
    /// [`DeviceError::KernelCache`] if the file cannot be written, or if the program has chosen
    /// another cache meanwhile.
    pub fn store(&mut self, file: &Path) -> Result<u64, DeviceError> {
        self.check_active()?;
        let choices = contents_of(&self.file)?.tuned;
        if self.stored != Some(choices) || !file.is_file() {
            database::copy(&[&self.file], file, &self.label, Some(TUNED))
                .map_err(|cause| DeviceError::kernel_cache("store", file, cause))?;
            self.stored = Some(choices);
        }
        Ok(choices)
    }

    /// Uses the machine's cache again and adds the new kernels to it; what it has stays. Returns how
    /// many were added.
    ///
    /// # Errors
    /// [`DeviceError::KernelCache`] if they cannot be added; the machine's cache is used even then.
    pub fn finish(self) -> Result<u64, DeviceError> {
        self.check_active()?;
        database::use_file(&self.shared);
        if self.begun_with.is_unchanged(&contents_of(&self.file)?) {
            return Ok(0);
        }
        let added = database::add_to_active(&self.file);
        added.map_err(|cause| DeviceError::kernel_cache("write", &self.shared, cause))
    }

    fn check_active(&self) -> Result<(), DeviceError> {
        let active = database::active();
        if active == self.file {
            return Ok(());
        }
        let cause = format!("the program has chosen the cache `{}` meanwhile", active.display());
        Err(DeviceError::kernel_cache("use", &self.file, cause))
    }
}

impl Drop for OwnKernelCache {
    fn drop(&mut self) {
        if database::active() == self.file {
            database::use_file(&self.shared);
        }
        remove(&self.folder, &self.lock.0);
        IN_USE.store(false, Ordering::Release);
    }
}

/// Whether stored choices may be used.
fn stored_choices(origin: &KernelOrigin, stored: Option<&Path>) -> StoredChoices {
    let Some(file) = stored.filter(|file| file.is_file()) else { return StoredChoices::Missing };
    let read = database::label(file).and_then(|label| {
        serde_json::from_str::<KernelOrigin>(&label).map_err(|error| error.to_string())
    });
    let read = read.and_then(|stored| match origin.difference(&stored) {
        Some(difference) => Ok(StoredChoices::Other(difference)),
        None => match contents_of(file) {
            Ok(contents) => Ok(StoredChoices::Used { choices: contents.tuned }),
            Err(error) => Err(error.to_string()),
        },
    });
    read.unwrap_or_else(|cause| StoredChoices::Unreadable { cause })
}

/// Creates a folder that this process alone uses, with the lock that says so.
fn new_folder(root: &Path) -> io::Result<(PathBuf, (PathBuf, File))> {
    fs::create_dir_all(root)?;
    remove_left_over(root);
    // A name that was used before could belong to a process that removes what is left over.
    let mut number = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    loop {
        let folder = root.join(format!("{}-{number}", std::process::id()));
        let lock = lock_of(&folder);
        // The lock comes before the folder: a folder whose lock nothing holds is left over.
        match OpenOptions::new().write(true).create_new(true).open(&lock) {
            Ok(file) => {
                // A file system may have no locks, or be full.
                if let Err(cause) = file.lock().and_then(|()| fs::create_dir(&folder)) {
                    let _ = fs::remove_file(&lock);
                    return Err(cause);
                }
                return Ok((folder, (lock, file)));
            }
            Err(cause) if cause.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(cause) => return Err(cause),
        }
    }
}

/// Removes the folders of processes that were killed.
fn remove_left_over(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for folder in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let lock = lock_of(&folder);
        let Ok(file) = OpenOptions::new().write(true).open(&lock) else { continue };
        // Held until both are removed.
        if file.try_lock().is_ok() {
            remove(&folder, &lock);
        }
    }
}

fn lock_of(folder: &Path) -> PathBuf {
    folder.with_extension("lock")
}

/// Removes what is no longer used; what cannot be removed is left to the next process.
fn remove(folder: &Path, lock: &Path) {
    if fs::remove_dir_all(folder).is_ok() {
        let _ = fs::remove_file(lock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_whose_lock_nothing_holds_are_removed() {
        let root = tempfile::tempdir().expect("a folder");
        let (used, lock) = new_folder(root.path()).expect("created");
        let left = root.path().join("1-0");
        fs::create_dir(&left).expect("created");
        fs::write(lock_of(&left), "").expect("written");
        fs::write(left.join(FILE), "a cache").expect("written");
        let foreign = root.path().join("no-lock");
        fs::create_dir(&foreign).expect("created");

        let (second, _held) = new_folder(root.path()).expect("created");
        assert!(used.is_dir() && second.is_dir() && used != second);
        assert!(!left.exists() && !lock_of(&left).exists());
        assert!(foreign.is_dir(), "a folder without a lock is not ours");

        // The lock of an ended process is free.
        drop(lock);
        remove_left_over(root.path());
        assert!(!used.exists() && second.is_dir());
    }

    #[cfg(not(feature = "persistence"))]
    #[test]
    fn a_build_without_a_cache_names_the_feature() {
        let origin = r#"{"backend":"cuda","device":null,"target":null,"driver":null,
            "cubecl":"0.11.3","system":"linux-x86_64"}"#;
        let origin: KernelOrigin = serde_json::from_str(origin).expect("an origin");
        let error = OwnKernelCache::begin(&origin, None).expect_err("no cache").to_string();
        assert!(error.contains("feature `persistence`"), "{error}");
    }
}
