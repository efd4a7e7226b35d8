//! The journal of a study: a file of JSON lines, appended under a lock.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::error::{TuneError, of_json};

/// The largest journal: ten million lines of a hundred bytes.
const MOST_BYTES: u64 = 1 << 30;

/// Returns an error for a journal that is too long, and for a pipe or a device in its place: opening
/// would wait for it, and it may have no end.
pub(crate) fn check_file(path: &Path) -> Result<(), TuneError> {
    let found = std::fs::metadata(path).map_err(|cause| TuneError::io("read", path, cause))?;
    let refuse = |kind, text: String| TuneError::io("read", path, Error::new(kind, text));
    if !found.is_file() {
        let text = "it is not a regular file; remove it, or put a regular file there";
        return Err(refuse(ErrorKind::InvalidInput, text.to_owned()));
    }
    let bytes = found.len();
    if bytes > MOST_BYTES {
        let text = format!(
            "it has {bytes} bytes; a journal has at most {MOST_BYTES}: restore it from a copy, or \
             begin a study in another folder"
        );
        return Err(refuse(ErrorKind::InvalidData, text));
    }
    Ok(())
}

/// The journal of a study, and the position up to which this process has read it.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Bytes that were read.
    read: u64,
    /// Lines that were read.
    lines: u64,
}

impl Journal {
    pub(crate) fn open(path: &Path) -> Result<Self, TuneError> {
        if path.exists() {
            check_file(path)?;
        }
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).read(true).write(true).open(path);
        let file = file.map_err(|cause| TuneError::io("open", path, cause))?;
        Ok(Self { path: path.to_owned(), file, read: 0, lines: 0 })
    }

    /// Takes the lock; waits while another process holds it.
    pub(crate) fn lock(&self) -> Result<(), TuneError> {
        self.file.lock().map_err(|cause| match cause.kind() {
            ErrorKind::Unsupported => TuneError::NoLocks { path: self.path.clone() },
            _ => TuneError::io("lock", &self.path, cause),
        })
    }

    pub(crate) fn unlock(&self) {
        // If this fails, the lock is released when the file is closed.
        let _ = self.file.unlock();
    }

    /// Parses the lines that were appended since the last call, in order; lines of spaces are ignored.
    /// The lock must be held. An incomplete last line, which a killed process leaves, is removed from
    /// the file; one that lacks only its line break gets it.
    pub(crate) fn read<T: DeserializeOwned>(&mut self) -> Result<Vec<(u64, T)>, TuneError> {
        let failed = |action, cause| TuneError::io(action, &self.path, cause);
        let mut bytes = Vec::new();
        self.file
            .seek(SeekFrom::Start(self.read))
            .and_then(|_| self.file.read_to_end(&mut bytes))
            .map_err(|cause| failed("read", cause))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut whole = whole;
        if whole < bytes.len() {
            if serde_json::from_slice::<IgnoredAny>(&bytes[whole..]).is_ok() {
                // The position is the end of the file.
                self.file.write_all(b"\n").map_err(|cause| failed("write", cause))?;
                bytes.push(b'\n');
                whole = bytes.len();
            } else {
                let end = self.read + whole as u64;
                self.file.set_len(end).map_err(|cause| failed("write", cause))?;
            }
        }
        let mut parsed = Vec::new();
        for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
            self.lines += 1;
            self.read += line.len() as u64;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let value = serde_json::from_slice(line).map_err(|cause| TuneError::Damaged {
                path: self.path.clone(),
                line: self.lines,
                cause: of_json(&cause),
            })?;
            parsed.push((self.lines, value));
        }
        Ok(parsed)
    }

    /// Appends a line, which the next [`read`](Self::read) returns. The lock must be held, and all
    /// earlier lines must have been read.
    pub(crate) fn append<T: Serialize>(&mut self, value: &T, sync: Sync) -> Result<(), TuneError> {
        let mut line = serde_json::to_vec(value).expect("an event has only texts and numbers");
        line.push(b'\n');
        let written = self
            .file
            .seek(SeekFrom::Start(self.read))
            .and_then(|_| self.file.write_all(&line))
            .and_then(|()| match sync {
                Sync::Now => self.file.sync_data(),
                Sync::Later => Ok(()),
            });
        written.map_err(|cause| TuneError::io("write", &self.path, cause))
    }

    pub(crate) fn damaged(&self, line: u64, cause: impl Into<String>) -> TuneError {
        TuneError::Damaged { path: self.path.clone(), line, cause: cause.into() }
    }
}

/// Whether a line is flushed to the disk before the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    /// Flushed now: the line survives a power failure.
    Now,
    /// Flushed with a later line: the line survives the end of the process.
    Later,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_last_line_is_removed_wherever_it_was_cut() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("journal.jsonl");
        let whole = "{\"a\":1}\n{\"a\":22}\n{\"a\":333}\n";
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("written");
            let mut journal = Journal::open(&path).expect("opened");
            journal.lock().expect("free");
            let found: Vec<(u64, serde_json::Value)> = journal.read().expect("read");
            // A last line without its line break is a line.
            let expected = whole[..cut].matches('}').count();
            assert_eq!(found.len(), expected, "cut at {cut}");
            journal.append(&serde_json::json!({ "a": 4 }), Sync::Now).expect("appended");
            let more: Vec<(u64, serde_json::Value)> = journal.read().expect("read");
            assert_eq!(more, [(expected as u64 + 1, serde_json::json!({ "a": 4 }))]);
            let text = std::fs::read_to_string(&path).expect("read");
            assert!(text.ends_with("{\"a\":4}\n"), "{text}");
            assert_eq!(text.lines().count(), expected + 1, "{text}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_journal_that_is_too_long_or_no_file_is_refused_unread() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("journal.jsonl");
        let file = File::create(&path).expect("created");
        // Without blocks on the disk.
        file.set_len(MOST_BYTES + 1).expect("a sparse file");
        let error = Journal::open(&path).expect_err("too long").to_string();
        let expected = "`: it has 1073741825 bytes; a journal has at most 1073741824: restore it";
        assert!(error.starts_with("cannot read `") && error.contains(expected), "{error}");
        let error = check_file(dir.path()).expect_err("a folder").to_string();
        assert!(error.contains("it is not a regular file; remove it, or put a"), "{error}");
    }

    #[test]
    fn lines_of_spaces_are_ignored() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("journal.jsonl");
        std::fs::write(&path, "{\"a\":1}\n\n  \r\n{\"a\":2}\n\n").expect("written");
        let mut journal = Journal::open(&path).expect("opened");
        let found: Vec<(u64, serde_json::Value)> = journal.read().expect("read");
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 4]);
    }

    #[test]
    fn a_damaged_line_in_the_middle_is_named() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("journal.jsonl");
        std::fs::write(&path, "{\"a\":1}\n{\"a\":]\n{\"a\":3}\n").expect("written");
        let mut journal = Journal::open(&path).expect("opened");
        let error = journal.read::<serde_json::Value>().expect_err("damaged").to_string();
        assert!(error.starts_with("line 2 of `"), "{error}");
        assert!(error.contains("at column ") && !error.contains("at line"), "{error}");
        assert!(error.ends_with("or remove the line to continue without it"), "{error}");
        let kept = std::fs::read_to_string(&path).expect("read");
        assert_eq!(kept.lines().count(), 3, "nothing is lost: {kept}");
    }
}
