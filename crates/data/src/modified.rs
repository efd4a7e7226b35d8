//! The time of a file's last modification.

use std::fs::Metadata;
use std::time::UNIX_EPOCH;

/// Nanoseconds since 1970; 0 where the file system does not know.
pub(crate) fn modified_ns(found: &Metadata) -> i128 {
    let Ok(time) = found.modified() else { return 0 };
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    }
}
