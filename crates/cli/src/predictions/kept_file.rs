//! Files with a checksum beside them, by which damage is detected.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::Result;
use sha2::{Digest, Sha256};
use updraft_data::read_regular;

use crate::command::cannot;

/// More bytes than a line of `sha256sum` has.
const MOST_CHECKSUM: u64 = 1 << 16;

/// The ending of a file that is being written: `.NAME.PROCESS.partial`.
const PARTIAL: &str = ".partial";

/// Writes a file of a folder with its checksum, which is there first: a process that is killed
/// between the two leaves no file without one.
pub(super) fn keep(folder: &Path, name: &str, text: &str) -> Result<()> {
    write_whole(folder, &checksum_name(name), &checksum(name, text.as_bytes()))?;
    write_whole(folder, name, text)
}

/// Whether bytes are those that [`keep`] wrote under a name; not if there is no checksum.
///
/// # Errors
/// If the checksum exists and cannot be read.
pub(super) fn is_intact(folder: &Path, name: &str, bytes: &[u8]) -> Result<bool> {
    let path = folder.join(checksum_name(name));
    match read_regular(&path, MOST_CHECKSUM) {
        Ok(written) => Ok(written == checksum(name, bytes).as_bytes()),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(cannot("read", &path, cause)),
    }
}

/// Whether there is a checksum of a file.
pub(super) fn has_checksum(folder: &Path, name: &str) -> bool {
    folder.join(checksum_name(name)).exists()
}

/// Writes a file of a folder, which is complete or absent at any moment.
pub(super) fn write_whole(folder: &Path, name: &str, text: &str) -> Result<()> {
    let (whole, id) = (folder.join(name), std::process::id());
    let partial = folder.join(format!(".{name}.{id}{PARTIAL}"));
    let write = || {
        let mut file = File::create(&partial)?;
        // Held until the process has written it or has ended. Not every file system has locks.
        let _ = file.try_lock();
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, &whole)
    };
    let written = write().or_else(|cause| match cause.kind() {
        // Another process removed it before it was locked.
        ErrorKind::NotFound => write(),
        _ => Err(cause),
    });
    written.map_err(|cause| {
        // A full disk would keep it.
        let _ = fs::remove_file(&partial);
        cannot("write", &whole, cause)
    })
}

/// Whether a file is one that is being written, or was when its process ended.
pub(super) fn is_partial(name: &str) -> bool {
    let process = name.strip_prefix('.').and_then(|name| name.strip_suffix(PARTIAL));
    let process = process.and_then(|name| name.rsplit_once('.'));
    process.is_some_and(|(_, process)| process.parse::<u32>().is_ok())
}

/// Removes the partial files of processes that have ended, on this machine or another.
pub(super) fn remove_partial(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder).map_err(|cause| cannot("read", folder, cause))?;
    for entry in entries.flatten() {
        if !is_partial(&entry.file_name().to_string_lossy()) {
            continue;
        }
        let path = entry.path();
        if !path.is_file() {
            continue;
        }
        let Ok(file) = File::options().read(true).write(true).open(&path) else { continue };
        // The process that writes it has the lock.
        if file.try_lock().is_ok() {
            // A remaining file is ignored.
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

/// The file with the checksum of another one.
fn checksum_name(name: &str) -> String {
    format!(".{name}.sha256")
}

/// The line that `sha256sum` prints.
fn checksum(name: &str, bytes: &[u8]) -> String {
    let digits: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits}  {name}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_emptied_cut_off_changed_or_of_another_name_is_not_intact() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), "a", "text\n").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "text\n");
        let intact = |name: &str, bytes: &[u8]| is_intact(dir.path(), name, bytes).unwrap();
        assert!(intact("a", b"text\n"));
        for bytes in [&b""[..], b"tex", b"text", b"test\n"] {
            assert!(!intact("a", bytes), "{bytes:?}");
        }
        assert!(!intact("b", b"text\n"));
        assert!(has_checksum(dir.path(), "a") && !has_checksum(dir.path(), "b"));
        let line = fs::read_to_string(dir.path().join(".a.sha256")).unwrap();
        assert!(line.len() == 64 + 4 && line.ends_with("  a\n"), "{line}");
    }

    #[test]
    fn only_the_partial_files_of_processes_that_have_ended_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let names = [".a.7.partial", "..a.sha256.7.partial", ".b.8.partial", "c.partial", ".a"];
        names.iter().for_each(|name| fs::write(path(name), "half").unwrap());
        let being_written = File::create(path(".b.8.partial")).unwrap();
        being_written.try_lock().unwrap();
        remove_partial(dir.path()).unwrap();
        let left = names.iter().filter(|name| path(name).exists());
        assert_eq!(left.collect::<Vec<_>>(), [&".b.8.partial", &"c.partial", &".a"]);
    }
}
