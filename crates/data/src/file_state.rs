//! What differs after a file was written or replaced, without reading it.

use std::fmt;
use std::fs::Metadata;
use std::time::UNIX_EPOCH;

/// Times and number of a file: another state after it was written, or replaced by another file, also
/// one of the same length and time of modification.
///
/// On other systems than Unix it has the time of modification only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FileState {
    /// Nanoseconds since 1970 of the last modification; 0 where the file system does not know.
    modified_ns: i128,
    /// The same of the last change of the file or of its properties, which no program can set.
    changed_ns: i128,
    /// The number of the file in its file system.
    inode: u64,
}

impl FileState {
    pub(crate) fn of(found: &Metadata) -> Self {
        let (changed_ns, inode) = changed(found);
        Self { modified_ns: modified_ns(found), changed_ns, inode }
    }
}

/// The text is hashed: equal states have equal texts.
impl fmt::Display for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.modified_ns, self.changed_ns, self.inode)
    }
}

fn modified_ns(found: &Metadata) -> i128 {
    let Ok(time) = found.modified() else { return 0 };
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    }
}

#[cfg(unix)]
fn changed(found: &Metadata) -> (i128, u64) {
    use std::os::unix::fs::MetadataExt;

    let changed_ns = i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec());
    (changed_ns, found.ino())
}

#[cfg(not(unix))]
fn changed(_: &Metadata) -> (i128, u64) {
    (0, 0)
}
