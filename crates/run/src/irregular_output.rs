//! Outputs at paths where something is that is not a regular file.

use std::fs;
use std::path::Path;

use crate::error::RunError;

/// Returns an error for an output that would replace a pipe, a socket, a device, or a link that
/// leads to one of them, to nothing or in a loop. Folders are not checked.
///
/// # Errors
/// [`RunError::Unusable`] with what is there, and [`RunError::Io`] if a link cannot be followed.
pub fn refuse_irregular(path: &Path) -> Result<(), RunError> {
    // No file, or one that the error of creating it describes.
    let Ok(own) = fs::symlink_metadata(path) else { return Ok(()) };
    let what = match fs::metadata(path) {
        Ok(found) if found.is_file() || found.is_dir() => return Ok(()),
        Ok(_) if own.is_symlink() => "a link to something that is not a regular file",
        Ok(_) => "not a regular file",
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => "a link to a missing file",
        Err(_) if fs::read_link(path).is_ok() => "a link that cannot be followed",
        Err(cause) => return Err(RunError::io("read", path, cause)),
    };
    let reason = format!(
        "`{}` is {what}, and would be replaced by a file; name another file",
        path.display()
    );
    Err(RunError::Unusable { reason })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_no_file_a_regular_file_or_a_folder_is_accepted() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "").expect("written");
        let _socket = UnixListener::bind(path("socket")).expect("a socket");
        for (target, link) in [
            ("file", "to-file"),
            ("socket", "to-socket"),
            ("gone", "dangling"),
            ("loop-b", "loop-a"),
            ("loop-a", "loop-b"),
        ] {
            symlink(target, path(link)).expect("a link");
        }
        for accepted in ["new", "file", "to-file", "."] {
            assert!(refuse_irregular(&path(accepted)).is_ok(), "{accepted}");
        }
        for (name, what) in [
            ("socket", "socket` is not a regular file, and would be replaced"),
            ("to-socket", "to-socket` is a link to something that is not a regular file, and"),
            ("dangling", "dangling` is a link to a missing file, and would be replaced"),
            ("loop-a", "loop-a` is a link that cannot be followed, and would be replaced"),
            ("/dev/null", "/dev/null` is not a regular file, and would be replaced"),
        ] {
            let said = refuse_irregular(&path(name)).expect_err(name).to_string();
            assert!(said.contains(what), "{said}");
            assert!(said.ends_with("by a file; name another file"), "{said}");
        }
    }
}
