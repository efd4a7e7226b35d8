//! Opening files with checks of their kind or size, regardless of what a file claims.

use std::fs::{self, File};
use std::io::{self, BufRead, ErrorKind, Read};
use std::path::Path;

use updraft_data::utf8_fault;

use crate::error::RunError;

/// A plan or configuration.
pub(crate) const CONFIG_BYTES: u64 = 16 << 20;

/// The limit of a JSON file in a run folder; the largest one contains pictures of mistakes.
pub(crate) const RECORD_BYTES: u64 = 256 << 20;

/// The limit of an image file to predict; the decoder has its own limit for the pixels.
pub(crate) const IMAGE_BYTES: u64 = 1 << 30;

/// The limit of a line of `metrics.jsonl`.
pub(crate) const LINE_BYTES: u64 = 16 << 20;

/// The limit of `metrics.jsonl`: about twenty million steps.
pub(crate) const METRICS_BYTES: u64 = 4 << 30;

/// Why a pipe, a device or a folder is refused.
const NOT_REGULAR: &str = "it is not a regular file; remove it, or put a regular file there";

/// Reads a file of at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, RunError> {
    let failed = |cause| RunError::io("read", path, cause);
    let mut file = File::open(path).map_err(failed)?;
    check_length(&file, path, limit)?;
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    // The length of a pipe is not known before.
    let length = bytes.len() as u64;
    if length > limit {
        return Err(RunError::TooLarge { path: path.to_owned(), bytes: length, limit });
    }
    Ok(bytes)
}

/// Opens a file that a run has written, of at most `limit` bytes.
pub(crate) fn open_own(path: &Path, limit: u64) -> Result<File, RunError> {
    check_regular(path)?;
    let file = File::open(path).map_err(|cause| RunError::io("read", path, cause))?;
    check_length(&file, path, limit)?;
    Ok(file)
}

/// Returns an error for a file that is longer than `limit`, before anything is read.
fn check_length(file: &File, path: &Path, limit: u64) -> Result<(), RunError> {
    let bytes = file.metadata().map_err(|cause| RunError::io("read", path, cause))?.len();
    if bytes > limit {
        return Err(RunError::TooLarge { path: path.to_owned(), bytes, limit });
    }
    Ok(())
}

/// Reads a text of at most `limit` bytes; bytes that are not UTF-8 are an error of the system's
/// kind, with the likely encoding.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String, RunError> {
    String::from_utf8(read(path, limit)?).map_err(|error| {
        let fault = utf8_fault(error.as_bytes()).unwrap_or_default();
        RunError::io("read", path, io::Error::new(ErrorKind::InvalidData, fault))
    })
}

/// As [`read`], of a file that a run has written.
pub(crate) fn read_own(path: &Path, limit: u64) -> Result<Vec<u8>, RunError> {
    check_regular(path)?;
    read(path, limit)
}

/// As [`read_text`], of a file that a run has written.
pub(crate) fn read_own_text(path: &Path, limit: u64) -> Result<String, RunError> {
    check_regular(path)?;
    read_text(path, limit)
}

/// Returns an error for a pipe or a device instead of a file that a run has written: opening
/// would wait for it, and it may have no end.
pub(crate) fn check_regular(path: &Path) -> Result<(), RunError> {
    let found = fs::metadata(path).map_err(|cause| RunError::io("read", path, cause))?;
    if found.is_file() {
        return Ok(());
    }
    let cause = io::Error::new(ErrorKind::InvalidInput, NOT_REGULAR);
    Err(RunError::io("open", path, cause))
}

/// Returns an error for a pipe instead of a file that a run writes, which may not exist yet:
/// opening would wait for a reader.
pub(crate) fn check_no_pipe(path: &Path) -> Result<(), RunError> {
    #[cfg(unix)]
    if fs::metadata(path)
        .is_ok_and(|found| std::os::unix::fs::FileTypeExt::is_fifo(&found.file_type()))
    {
        let cause = io::Error::new(ErrorKind::InvalidInput, NOT_REGULAR);
        return Err(RunError::io("open", path, cause));
    }
    Ok(())
}

/// Creates a file of a run, or truncates it.
pub(crate) fn create(path: &Path) -> Result<File, RunError> {
    check_no_pipe(path)?;
    File::create(path).map_err(|cause| RunError::io("write", path, cause))
}

/// Reads a configuration or a profile, with an error that does not name the file.
pub(crate) fn read_config(path: &Path) -> io::Result<String> {
    read_text(path, CONFIG_BYTES).map_err(|error| match error {
        RunError::Io { cause, .. } => cause,
        RunError::TooLarge { bytes, limit, .. } => {
            io::Error::other(format!("it has {bytes} bytes, and a config has at most {limit}"))
        }
        other => io::Error::other(other.to_string()),
    })
}

/// Reads a line without its line break, and whether it has one; `None` at the end of the file, and
/// no bytes for a line longer than `limit`.
pub(crate) fn read_line(
    file: &mut impl BufRead,
    limit: u64,
) -> io::Result<Option<(Option<Vec<u8>>, bool)>> {
    let mut line = Vec::new();
    if file.take(limit + 1).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Some((Some(line), true)));
    }
    if line.len() as u64 <= limit {
        return Ok(Some((Some(line), false)));
    }
    drop(line);
    Ok(Some((None, skip_line(file)?)))
}

/// Skips the rest of a line; returns whether it has a line break.
fn skip_line(file: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = file.fill_buf()?;
        let (used, ends) = match bytes.iter().position(|&byte| byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (bytes.len(), false),
        };
        file.consume(used);
        if ends || used == 0 {
            return Ok(ends);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit_and_no_further() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("a");
        fs::write(&path, "12345").expect("written");
        assert_eq!(read(&path, 5).expect("as long as allowed"), b"12345");
        let error = read(&path, 4).expect_err("too long").to_string();
        assert!(error.contains("has 5 bytes; at most 4 are read"), "{error}");
        fs::write(&path, b"a\xffb").expect("written");
        let error = read_text(&path, 9).expect_err("no text").to_string();
        let expected = "the byte at offset 1, on line 1, is 0xff and not UTF-8: the text is likely \
                        encoded as Latin-1; save it as UTF-8, such as with `iconv -f latin1 -t";
        assert!(error.contains(expected), "{error}");
        for (mark, name) in [
            (&[0xFF, 0xFE][..], "UTF-16"),
            (&[0xFE, 0xFF], "UTF-16"),
            (&[0xFF, 0xFE, 0, 0], "UTF-32"),
            (&[0, 0, 0xFE, 0xFF], "UTF-32"),
        ] {
            fs::write(&path, [mark, b"a\0\0\0"].concat()).expect("written");
            let error = read_text(&path, 9).expect_err("no UTF-8").to_string();
            let expected = format!("encoded as {name}; save it as UTF-8, such as with `iconv");
            assert!(error.contains(&expected), "{error}");
        }
    }

    #[test]
    fn a_file_of_a_run_is_a_regular_one() {
        let dir = tempfile::tempdir().expect("temporary folder");
        fs::write(dir.path().join("a"), "1").expect("written");
        assert_eq!(read_own_text(&dir.path().join("a"), 9).expect("a file"), "1");
        let error = read_own(dir.path(), 9).expect_err("a folder");
        assert!(error.is_input() && error.to_string().contains("it is not a regular file"));
        let new = dir.path().join("new");
        assert!(read_own(&new, 9).is_err());
        create(&new).expect("created");
        assert!(create(dir.path()).expect_err("a folder").to_string().contains("cannot write"));
    }

    #[test]
    fn a_long_line_is_passed_over_and_the_last_one_says_whether_it_ends() {
        let text = [b"ab\n".as_slice(), &[b'x'; 40], b"\n\nc"].concat();
        let mut file = BufReader::with_capacity(7, Cursor::new(text));
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut file, 8).expect("in memory") {
            lines.push(line);
        }
        let expected = [
            (Some(b"ab".to_vec()), true),
            (None, true),
            (Some(Vec::new()), true),
            (Some(b"c".to_vec()), false),
        ];
        assert_eq!(lines, expected);
    }
}
