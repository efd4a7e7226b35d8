//! Writing a file that is complete or as it was.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::command::cannot;
use crate::stop::NothingToSave;

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

/// An output whose content is known only after long work.
#[derive(Debug)]
#[must_use = "its content is missing"]
pub(crate) struct Output {
    path: PathBuf,
    /// A pipe stays open: its reader would end with its only writer.
    pipe: Option<File>,
}

impl Output {
    /// Checks, before the work, that a file can be created beside the output, or that a process reads
    /// the pipe.
    ///
    /// # Errors
    /// If it cannot be created, as in a folder that was removed or is read-only, if a folder has its
    /// name, and for a pipe without a reader, which would be waited for.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |cause| cannot("write", path, cause);
        let output = |pipe| Self { path: path.to_owned(), pipe };
        if path.is_dir() {
            return Err(failed(ErrorKind::IsADirectory.into()));
        }
        if is_pipe(path) {
            return Ok(output(Some(open_pipe(path).map_err(failed)?)));
        }
        let Some(partial) = partial(path) else { return Ok(output(None)) };
        let tried = File::create(&partial).and_then(|_| fs::remove_file(&partial));
        tried.map(|()| output(None)).map_err(failed)
    }

    /// As [`write_whole`]; while a pipe is written, the first signal ends the process.
    ///
    /// # Errors
    /// As [`write_whole`], and if the reader of a pipe has ended.
    pub(crate) fn write(self, text: &str) -> Result<()> {
        let Some(mut pipe) = self.pipe else { return write_whole(&self.path, text) };
        let _unasked = NothingToSave::begin();
        let written = pipe.write_all(text.as_bytes()).and_then(|()| pipe.flush());
        written.map_err(|cause| cannot("write", &self.path, cause))
    }
}

/// How long a pipe may wait for its reader, which a shell may start at the same time.
const PATIENCE: Duration = Duration::from_secs(1);

/// Opens a pipe for writing, which waits for a reader: in a thread, because the system has no limit
/// of time for it.
fn open_pipe(path: &Path) -> io::Result<File> {
    let (sender, receiver) = channel();
    let to_open = path.to_owned();
    thread::Builder::new().name("updraft-pipe".to_owned()).spawn(move || {
        // Without a receiver, the command has ended with the error below.
        let _ = sender.send(OpenOptions::new().write(true).open(to_open));
    })?;
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        let text = "no process reads this pipe; start its reader first, or name a file";
        Err(io::Error::new(ErrorKind::TimedOut, text))
    })
}

/// Whether a path is a named pipe, or a link to one.
#[cfg(unix)]
pub(crate) fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;

    fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

#[cfg(not(unix))]
pub(crate) fn is_pipe(_: &Path) -> bool {
    false
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
        Output::open(&path).expect("writable").write("text").expect("written");
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
        let _ = Output::open(&dir.path().join("page.html")).expect("writable");
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 0);
        let error = Output::open(dir.path()).expect_err("a folder").to_string();
        assert!(error.starts_with("cannot write `"), "{error}");
        let error = Output::open(&dir.path().join("gone/page.html")).expect_err("gone");
        assert!(error.to_string().contains("gone/page.html`: "), "{error}");
    }

    #[test]
    #[cfg(unix)]
    fn a_pipe_without_a_reader_is_refused_and_one_with_a_reader_receives_the_text() {
        let dir = tempfile::tempdir().expect("temporary folder");
        // The thread that waits for a reader of the first one would be a writer of it.
        let [alone, path] = ["alone", "pipe"].map(|name| dir.path().join(name));
        let made = std::process::Command::new("mkfifo").args([&alone, &path]).status();
        assert!(made.expect("mkfifo runs").success());
        let error = Output::open(&alone).expect_err("no reader").to_string();
        let expected = "alone`: no process reads this pipe; start its reader first, or name a file";
        assert!(error.ends_with(expected), "{error}");
        let reader = {
            let path = path.clone();
            thread::spawn(move || fs::read_to_string(path).expect("text"))
        };
        // More than a pipe holds.
        let text = "text".repeat(100_000);
        let output = Output::open(&path).expect("it has a reader");
        output.write(&text).expect("written");
        assert_eq!(reader.join().expect("it ended"), text);
    }
}
