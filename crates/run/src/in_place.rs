//! Checks that an open file is still the one at its path.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::error::RunError;

/// Returns an error if a file was moved, removed or replaced since it was opened.
pub(crate) fn check_in_place(file: &File, path: &Path) -> Result<(), RunError> {
    match is_in_place(file, path) {
        Ok(true) => Ok(()),
        Err(cause) if !is_absent(&cause) => Err(RunError::io("read", path, cause)),
        Ok(false) | Err(_) => Err(RunError::Replaced { path: path.to_owned() }),
    }
}

#[cfg(unix)]
fn is_in_place(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    Ok(identity(file.metadata()?) == identity(fs::metadata(path)?))
}

/// Other systems have no stable identity of a file; there, another file at the path is not noticed.
#[cfg(not(unix))]
fn is_in_place(_: &File, path: &Path) -> io::Result<bool> {
    fs::metadata(path).map(|_| true)
}

fn is_absent(cause: &io::Error) -> bool {
    matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_removed_is_not_in_place() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("a");
        let file = File::create(&path).expect("created");
        check_in_place(&file, &path).expect("it is there");
        fs::remove_file(&path).expect("removed");
        let error = check_in_place(&file, &path).expect_err("it is gone");
        assert!(matches!(error, RunError::Replaced { .. }) && !error.is_input(), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_was_replaced_is_not_in_place() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let (path, other) = (dir.path().join("a"), dir.path().join("b"));
        let file = File::create(&path).expect("created");
        fs::write(&other, "").expect("written");
        fs::rename(&other, &path).expect("renamed");
        let error = check_in_place(&file, &path).expect_err("it is another one");
        assert!(error.to_string().contains("was moved, removed or replaced"), "{error}");
    }
}
