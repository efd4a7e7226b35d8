//! The absolute path of a file without links, by which two names of one file are compared.

use std::path::{Path, PathBuf};

/// The absolute path without links, also of a file that does not exist yet.
pub(in crate::task) fn resolved(path: &Path) -> PathBuf {
    let resolved = path.canonicalize().or_else(|_| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
        Ok::<_, std::io::Error>(folder.join(path.file_name().unwrap_or_default()))
    });
    resolved.or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}
