//! Symbolic links that lead to each other and never to a file.

use std::fs;
use std::io;
use std::path::Path;

/// ELOOP of Linux, and that of systems from BSD; the standard library has no stable kind for it.
const LOOP: i32 = if cfg!(any(target_os = "linux", target_os = "android")) { 40 } else { 62 };

/// Whether a path leads through symbolic links that never reach a file.
///
/// # Example
/// ```
/// assert!(!updraft_data::is_link_loop("src/main.rs"));
/// ```
#[must_use]
pub fn is_link_loop(path: impl AsRef<Path>) -> bool {
    fs::metadata(path).err().is_some_and(|cause| is_of_loop(&cause))
}

/// The system's message about a file, with what to do about symbolic links that form a loop.
#[must_use]
pub fn system_message(cause: &io::Error) -> String {
    match is_of_loop(cause) {
        true => "its symbolic links form a loop; name the file itself".to_owned(),
        false => cause.to_string(),
    }
}

fn is_of_loop(cause: &io::Error) -> bool {
    cfg!(unix) && cause.raw_os_error() == Some(LOOP)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_loop_of_links_is_known_and_other_errors_are_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        symlink("b", path("a")).unwrap();
        symlink("a", path("b")).unwrap();
        symlink("gone", path("c")).unwrap();
        assert!(is_link_loop(path("a")) && is_link_loop(path("b/d")));
        assert!(!is_link_loop(path("c")) && !is_link_loop(path("d")) && !is_link_loop(dir.path()));
        let said = |name: &str| system_message(&fs::metadata(path(name)).unwrap_err());
        assert_eq!(said("a"), "its symbolic links form a loop; name the file itself");
        assert!(said("c").contains("os error 2"), "{}", said("c"));
    }
}
