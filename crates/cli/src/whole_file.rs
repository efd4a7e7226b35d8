//! Writing a file that is complete or as it was.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;

use crate::command::cannot;

/// Writes a file under a temporary name and renames it, so that an error leaves what was there.
///
/// A link, a pipe or a device keeps its kind: it is written in place.
///
/// # Errors
/// If it cannot be written, as on a full disk.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<()> {
    let is_kept = path.symlink_metadata().is_ok_and(|found| !found.is_file());
    let written = match path.file_name().filter(|_| !is_kept) {
        None => fs::write(path, text),
        Some(name) => {
            let name = format!(".{}.{}.partial", name.to_string_lossy(), std::process::id());
            let partial = path.with_file_name(name);
            write_and_rename(&partial, path, text).inspect_err(|_| {
                // A full disk would keep it.
                let _ = fs::remove_file(&partial);
            })
        }
    };
    written.map_err(|cause| cannot("write", path, cause))
}

fn write_and_rename(partial: &Path, path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(partial)?;
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
            let partial = format!(".page.html.{}.partial", std::process::id());
            let partial = dir.path().join(partial);
            // A device that is always full.
            std::os::unix::fs::symlink("/dev/full", &partial).expect("a link");
            let error = write_whole(&path, "newer").expect_err("full").to_string();
            assert!(error.contains("page.html`: "), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("a file"), "new");
            assert!(partial.symlink_metadata().is_err());
            write_whole(Path::new("/dev/null"), "x").expect("a device is written in place");
        }
        assert!(write_whole(dir.path(), "x").is_err());
    }
}
