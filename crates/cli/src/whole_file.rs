//! Writing a file that is complete or as it was.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;

use crate::command::cannot;

/// Writes a file under a temporary name and renames it, so that an error leaves what was there.
///
/// A link, a pipe or a device keeps its kind: it is written in place. A file keeps its permissions.
///
/// # Errors
/// If it cannot be written, as on a full disk.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<()> {
    write_through(partial(path), path, text)
}

/// As [`write_whole`], under this temporary name or in place.
fn write_through(partial: Option<PathBuf>, path: &Path, text: &str) -> Result<()> {
    let written = match partial {
        None => fs::write(path, text),
        Some(partial) => {
            write_and_rename(&partial, path, text).inspect_err(|_| {
                // A full disk would keep it.
                let _ = fs::remove_file(&partial);
            })
        }
    };
    written.map_err(|cause| cannot("write", path, cause))
}

/// Checks that a file can be created beside the output, before the work whose result it takes.
///
/// # Errors
/// If it cannot be created, as in a folder that was removed or is read-only, or if a folder has its
/// name.
pub(crate) fn check_writable(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(cannot("write", path, ErrorKind::IsADirectory.into()));
    }
    let Some(partial) = partial(path) else { return Ok(()) };
    let tried = File::create(&partial).and_then(|_| fs::remove_file(&partial));
    tried.map_err(|cause| cannot("write", path, cause))
}

/// The temporary name of an output, which no other call has; `None` for one that is written in place.
fn partial(path: &Path) -> Option<PathBuf> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let is_kept = path.symlink_metadata().is_ok_and(|found| !found.is_file());
    path.file_name().filter(|_| !is_kept)?;
    // Without the name of the output, which may be as long as the system allows.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Some(path.with_file_name(format!(".{}-{number}.partial", std::process::id())))
}

fn write_and_rename(partial: &Path, path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(partial)?;
    if let Ok(found) = fs::metadata(path) {
        let (own, wanted) = (file.metadata()?, found.permissions());
        if own.is_file() && own.permissions() != wanted {
            file.set_permissions(wanted)?;
        }
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(partial, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_leaves_what_was_there_and_no_partial_file() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("page.html");
        write_whole(&path, "old").expect("written");
        write_whole(&path, "new").expect("replaced");
        assert_eq!(fs::read_to_string(&path).expect("a file"), "new");
        #[cfg(target_os = "linux")]
        {
            let partial = dir.path().join(".a.partial");
            // A device that is always full.
            std::os::unix::fs::symlink("/dev/full", &partial).expect("a link");
            let error = write_through(Some(partial.clone()), &path, "newer");
            let error = error.expect_err("full").to_string();
            assert!(error.contains("page.html`: "), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("a file"), "new");
            assert!(partial.symlink_metadata().is_err());
            write_whole(Path::new("/dev/null"), "x").expect("a device is written in place");
        }
        assert!(write_whole(dir.path(), "x").is_err());
    }

    #[test]
    fn a_name_as_long_as_the_system_allows_is_written() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("a".repeat(250) + ".html");
        check_writable(&path).expect("writable");
        write_whole(&path, "text").expect("written");
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 1);
    }

    #[test]
    #[cfg(unix)]
    fn a_file_that_is_replaced_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("page.html");
        for mode in [0o600, 0o664] {
            fs::write(&path, "old").expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
            write_whole(&path, "new").expect("replaced");
            let found = fs::metadata(&path).expect("a file").permissions().mode();
            assert_eq!(found & 0o777, mode);
        }
    }

    #[test]
    fn a_folder_that_is_gone_is_found_before_the_work() {
        let dir = tempfile::tempdir().expect("temporary folder");
        check_writable(&dir.path().join("page.html")).expect("writable");
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 0);
        let error = check_writable(dir.path()).expect_err("a folder").to_string();
        assert!(error.starts_with("cannot write `"), "{error}");
        let error = check_writable(&dir.path().join("gone/page.html")).expect_err("gone");
        assert!(error.to_string().contains("gone/page.html`: "), "{error}");
    }
}
