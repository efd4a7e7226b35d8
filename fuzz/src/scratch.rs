//! The folder in which a target writes the files that it reads; it is removed by who started us.

use std::fs;
use std::path::{Path, PathBuf};

/// An empty folder of this process.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("updraft-fuzz-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

/// A file with these bytes, at the same place each time.
pub(crate) fn file(bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("updraft-fuzz-{}", std::process::id()));
    fs::write(&path, bytes).expect("a temporary file");
    path
}

/// What a file holds.
pub(crate) fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
