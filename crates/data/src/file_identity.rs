//! What identifies a file under any of its names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What identifies a file: equal for two paths that name one file, also through symbolic links, hard
/// links and `..`.
///
/// Hard links are recognized on Unix only. A file that does not exist is identified by the path that
/// it would have.
///
/// # Example
/// ```
/// use updraft_data::FileIdentity;
///
/// assert_eq!(FileIdentity::of("src/../a.csv"), FileIdentity::of("a.csv"));
/// assert_ne!(FileIdentity::of("a.csv"), FileIdentity::of("b.csv"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity(Identity);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Identity {
    /// The file system and the number of the file in it.
    #[cfg(unix)]
    Numbers { device: u64, inode: u64 },
    /// The path without links and `..`.
    Path(PathBuf),
}

impl FileIdentity {
    /// The identity of the file, or folder, at a path.
    #[must_use]
    pub fn of(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let found = fs::metadata(path).ok().and_then(|found| Self::found(&found));
        found.unwrap_or_else(|| Self(Identity::Path(without_links(path))))
    }

    /// The identity of a file whose metadata were read, without reading them again; `None` where
    /// only its path identifies it, for which there is [`of`](Self::of).
    pub(crate) fn found(metadata: &fs::Metadata) -> Option<Self> {
        numbers(metadata).map(Self)
    }
}

#[cfg(unix)]
fn numbers(found: &fs::Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;

    // File systems without numbers give all files the same.
    (found.ino() != 0).then(|| Identity::Numbers { device: found.dev(), inode: found.ino() })
}

#[cfg(not(unix))]
fn numbers(_: &fs::Metadata) -> Option<Identity> {
    None
}

/// The absolute path without links, also of a file that does not exist yet.
fn without_links(path: &Path) -> PathBuf {
    let resolved = path.canonicalize().or_else(|_| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
        Ok::<_, io::Error>(folder.join(path.file_name().unwrap_or_default()))
    });
    resolved.or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_under_all_of_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("a"), "1").unwrap();
        fs::write(path("b"), "1").unwrap();
        fs::create_dir(path("more")).unwrap();
        let of = |name: &str| FileIdentity::of(path(name));
        assert_eq!(of("a"), of("more/../a"));
        assert_ne!(of("a"), of("b"));
        assert_eq!(of("new"), of("more/../new"));
        assert_ne!(of("new"), of("other"));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(path("a"), path("link")).unwrap();
            fs::hard_link(path("a"), path("hard")).unwrap();
            assert_eq!(of("a"), of("link"));
            assert_eq!(of("a"), of("hard"));
        }
    }
}
