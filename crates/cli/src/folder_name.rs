//! The name of a folder, for a title.

use std::path::Path;

/// The name of a folder in the folder above, for any path to it, such as `.` or `a/..`; the path of
/// one that has none.
pub(crate) fn folder_name(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = whole.file_name().unwrap_or(whole.as_os_str());
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_name_under_all_of_its_paths() {
        let dir = tempfile::tempdir().expect("temporary folder");
        std::fs::create_dir_all(dir.path().join("a/b")).expect("made");
        for path in ["a", "a/", "a/.", "a/b/..", "./a/b/../../a"] {
            assert_eq!(folder_name(&dir.path().join(path)), "a", "{path}");
        }
        assert_eq!(folder_name(&dir.path().join("a/b/../b")), "b");
        assert_eq!(folder_name(Path::new("/")), "/");
        assert_eq!(folder_name(Path::new("none/gone")), "gone");
        let own = std::env::current_dir().expect("a folder");
        assert_eq!(folder_name(Path::new(".")), own.file_name().expect("a name").to_string_lossy());
    }
}
