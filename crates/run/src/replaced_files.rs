//! Replacing files of a folder, all of them or none.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::bounded::check_no_pipe;
use crate::error::RunError;

/// Gives files of a folder new contents; those without a content are removed.
///
/// All contents are written to the disk under temporary names first. If one cannot be written, or if
/// a folder has the name of a file, the temporary files are removed and the folder is as it was.
pub(crate) fn replace_files(
    folder: &Path,
    files: &[(&str, Option<&[u8]>)],
) -> Result<(), RunError> {
    let replaced = write_all(folder, files).and_then(|()| rename_all(folder, files));
    if replaced.is_err() {
        // Incomplete files would stay on a full disk. Those that were renamed are not there.
        for (name, _) in files {
            let _ = fs::remove_file(temporary(folder, name));
        }
    }
    replaced
}

fn temporary(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.part"))
}

/// Writes the temporary files, after which nothing but renaming is left.
fn write_all(folder: &Path, files: &[(&str, Option<&[u8]>)]) -> Result<(), RunError> {
    for (name, content) in files {
        let whole = folder.join(name);
        if whole.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            let cause = io::Error::new(ErrorKind::IsADirectory, "it is a folder; move it away");
            return Err(RunError::io("write", &whole, cause));
        }
        let Some(content) = content else { continue };
        let part = temporary(folder, name);
        check_no_pipe(&part)?;
        write_to_disk(&part, content).map_err(|cause| RunError::io("write", &whole, cause))?;
    }
    Ok(())
}

fn write_to_disk(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn rename_all(folder: &Path, files: &[(&str, Option<&[u8]>)]) -> Result<(), RunError> {
    for (name, content) in files {
        let whole = folder.join(name);
        match content {
            Some(_) => fs::rename(temporary(folder, name), &whole)
                .map_err(|cause| RunError::io("write", &whole, cause))?,
            None => remove(&whole)?,
        }
    }
    Ok(())
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> Result<(), RunError> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => {
            Err(RunError::io("remove", path, cause))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The files of a folder with their texts.
    fn texts(folder: &Path) -> BTreeMap<String, String> {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        let files = entries.filter(|entry| entry.path().is_file());
        let text = |path: PathBuf| fs::read_to_string(path).expect("text");
        files
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), text(entry.path())))
            .collect()
    }

    const NEW: Option<&[u8]> = Some(b"new");

    #[test]
    fn files_are_replaced_and_removed_together() {
        let dir = tempfile::tempdir().expect("temporary folder");
        for name in ["a", "b", "other"] {
            fs::write(dir.path().join(name), "old").expect("written");
        }
        let files = [("a", NEW), ("b", None), ("c", NEW), ("d", None)];
        replace_files(dir.path(), &files).expect("replaced");
        let expected = [("a", "new"), ("c", "new"), ("other", "old")];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(texts(dir.path()), BTreeMap::from(expected));
    }

    #[test]
    fn one_file_that_cannot_be_written_leaves_all_as_they_were() {
        let dir = tempfile::tempdir().expect("temporary folder");
        fs::write(dir.path().join("a"), "old").expect("written");
        fs::create_dir(dir.path().join("folder")).expect("made");
        let before = texts(dir.path());
        for last in [NEW, None] {
            let files = [("a", NEW), ("folder", last)];
            let error = replace_files(dir.path(), &files).expect_err("a folder");
            assert!(!error.is_input() && error.to_string().contains("it is a folder"), "{error}");
            assert_eq!(texts(dir.path()), before);
        }
        #[cfg(target_os = "linux")]
        {
            // The last temporary file is a device that is always full.
            let part = dir.path().join("b.part");
            std::os::unix::fs::symlink("/dev/full", &part).expect("a link");
            let files = [("a", NEW), ("b", NEW)];
            let error = replace_files(dir.path(), &files).expect_err("full").to_string();
            assert!(error.contains("/b`: "), "{error}");
            assert_eq!(texts(dir.path()), before);
            assert!(part.symlink_metadata().is_err(), "a temporary file is left");
        }
    }
}
