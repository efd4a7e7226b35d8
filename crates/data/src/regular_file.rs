//! Reading of regular files: a pipe or a device in place of one is refused, and not waited for.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Why a pipe, a device or a folder is refused.
const NOT_REGULAR: &str = "it is not a regular file; put a regular file there, or name another";

/// Opens a file for reading, and refuses a pipe or a device in its place: opening would wait for it,
/// and it may have no end.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, NOT_REGULAR));
    }
    File::open(path)
}

/// Reads a file of at most `most_bytes`.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for something else than a regular file, [`ErrorKind::InvalidData`] for
/// a longer one, of which nothing is read, and the errors of the system.
///
/// # Example
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("a.json");
/// std::fs::write(&path, "[1]")?;
/// assert_eq!(updraft_data::read_regular(&path, 100)?, b"[1]");
/// assert!(updraft_data::read_regular(&path, 2).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_regular(path: impl AsRef<Path>, most_bytes: u64) -> io::Result<Vec<u8>> {
    let too_long = |bytes: u64| {
        let text = format!("it has {bytes} bytes; at most {most_bytes} are read of such a file");
        io::Error::new(ErrorKind::InvalidData, text)
    };
    let file = open_regular(path.as_ref())?;
    let length = file.metadata()?.len();
    if length > most_bytes {
        return Err(too_long(length));
    }
    let mut bytes = Vec::new();
    file.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    // It may have grown.
    let length = bytes.len() as u64;
    if length > most_bytes { Err(too_long(length)) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_and_what_is_too_long_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_regular(&path, 5).unwrap(), b"12345");
        let error = read_regular(&path, 4).unwrap_err().to_string();
        assert_eq!(error, "it has 5 bytes; at most 4 are read of such a file");
        let error = read_regular(dir.path(), 4).unwrap_err().to_string();
        assert_eq!(error, "it is not a regular file; put a regular file there, or name another");
        assert_eq!(read_regular(dir.path().join("b"), 4).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
