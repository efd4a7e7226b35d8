//! The folders that shared libraries are in, on Linux and macOS.

use std::path::PathBuf;

/// Folders of the system, with those of architectures and of compilers.
pub(crate) fn folders() -> Vec<PathBuf> {
    let roots = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];
    let mut folders: Vec<PathBuf> = roots.iter().map(PathBuf::from).collect();
    for entry in std::fs::read_dir("/usr/lib").into_iter().flatten().flatten() {
        folders.extend([entry.path(), entry.path().join("lib")]);
    }
    folders
}
