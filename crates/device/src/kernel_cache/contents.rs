//! The number of kernels in the cache, and its size.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::database;
use crate::error::DeviceError;

/// The name under which CubeCL keeps choices by measurement.
pub(super) const TUNED: &str = "autotune";

/// What CubeCL keeps that is no kernel: measured rates, and records of how the cache was made.
const NO_KERNELS: [&str; 2] = ["throughput", "records"];

/// The kernels in a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct CacheContents {
    /// Choices of a kernel by measurement, one for each operation and shape.
    pub tuned: u64,
    /// Compiled kernels. CubeCL 0.11.3 keeps those of CUDA and `ROCm`, if `cache` is true in the
    /// section `compilation` of `cubecl.toml`; it is not by default.
    pub compiled: u64,
    /// The size of both, in bytes.
    pub kernel_bytes: u64,
    /// The size of the files, in bytes.
    pub file_bytes: u64,
}

impl CacheContents {
    /// Counts entries by the names that CubeCL gives them.
    pub(super) fn of(entries: &[Entries], file_bytes: u64) -> Self {
        let mut contents = Self { file_bytes, ..Self::default() };
        for Entries { namespace, entries, bytes } in entries {
            match namespace.split('/').next() {
                Some(first) if NO_KERNELS.contains(&first) => continue,
                Some(TUNED) => contents.tuned += entries,
                _ => contents.compiled += entries,
            }
            contents.kernel_bytes += bytes;
        }
        contents
    }

    /// Whether `later` has no kernel more.
    #[must_use]
    pub const fn is_unchanged(&self, later: &Self) -> bool {
        self.tuned == later.tuned && self.compiled == later.compiled
    }
}

/// What is in a part of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entries {
    pub(super) namespace: String,
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

/// The kernels in the cache that this process uses; `None` for a build without the features
/// `autotune` and `persistence`.
///
/// To be called after a GPU device was opened, which chooses the file.
///
/// # Errors
/// [`DeviceError::KernelCache`] if the file cannot be read.
pub fn kernel_cache_contents() -> Result<Option<CacheContents>, DeviceError> {
    if !cfg!(all(feature = "autotune", feature = "persistence")) {
        return Ok(None);
    }
    contents_of(&database::active()).map(Some)
}

/// The kernels in a file; none if there is no file.
pub(super) fn contents_of(file: &Path) -> Result<CacheContents, DeviceError> {
    if !file.is_file() {
        return Ok(CacheContents::default());
    }
    let entries = database::entries(file);
    let entries = entries.map_err(|cause| DeviceError::kernel_cache("read", file, cause))?;
    Ok(CacheContents::of(&entries, file_bytes(file)))
}

/// The size of a database with the files that belong to it.
fn file_bytes(file: &Path) -> u64 {
    let with = |suffix: &str| {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        fs::metadata(name).map_or(0, |found| found.len())
    };
    ["", "-wal", "-shm"].into_iter().map(with).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_and_compiled_kernels_are_counted_and_nothing_else() {
        let entries = |namespace: &str, entries, bytes| Entries {
            namespace: namespace.to_owned(),
            entries,
            bytes,
        };
        let found = [
            entries("autotune/0.11.3/device/burn-matmul", 3, 300),
            entries("autotune/0.11.3/device/burn-conv", 2, 40),
            entries("cuda/0.11.3/ptx_sm90", 7, 9000),
            entries("throughput/0.11.3/device", 1, 10),
            entries("records/v1/tune", 5, 500),
        ];
        let contents = CacheContents::of(&found, 20_000);
        assert_eq!((contents.tuned, contents.compiled), (5, 7));
        assert_eq!((contents.kernel_bytes, contents.file_bytes), (9340, 20_000));
        let larger = CacheContents { file_bytes: 30_000, ..contents };
        assert!(contents.is_unchanged(&larger), "the size of the file is no kernel");
        assert!(!contents.is_unchanged(&CacheContents { tuned: 6, ..contents }));
        assert!(!contents.is_unchanged(&CacheContents { compiled: 8, ..contents }));
    }

    #[test]
    fn a_missing_file_has_no_kernels() {
        let missing = std::env::temp_dir().join("updraft-no-such-cache.db");
        assert_eq!(contents_of(&missing), Ok(CacheContents::default()));
    }

    #[test]
    fn the_size_of_a_cache_includes_the_files_beside_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("default.db");
        for (suffix, length) in [("", 10), ("-wal", 200), ("-shm", 3000), ("-other", 5)] {
            let name = format!("{}{suffix}", file.display());
            fs::write(name, vec![0; length]).expect("written");
        }
        assert_eq!(file_bytes(&file), 3210);
    }
}
