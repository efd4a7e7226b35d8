//! Temporary files that a target writes and reads; `cargo xtask fuzz` removes them.

use std::fs;
use std::path::{Path, PathBuf};

/// An empty folder of this process.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("updraft-fuzz-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

/// Writes a file with these bytes, always at the same path.
pub(crate) fn file(bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("updraft-fuzz-{}", std::process::id()));
    fs::write(&path, bytes).expect("a temporary file");
    path
}

/// The content of a file.
pub(crate) fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
