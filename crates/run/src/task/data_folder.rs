//! The folder of the data, and the error for a missing file.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use updraft_data::FileIdentity;

use crate::error::RunError;

/// The data folder, and the advice in the error for a missing file.
pub(super) struct DataFolder<'a> {
    pub(super) dir: Option<&'a Path>,
    pub(super) how_to_get: Option<&'a str>,
}

/// Whether a list, such as one of files or columns, has a value twice.
pub(super) fn has_repeats<T: Ord>(values: &[T]) -> bool {
    let mut seen = BTreeSet::new();
    values.iter().any(|value| !seen.insert(value))
}

/// Returns an error if a folder is given for generated data.
///
/// # Errors
/// [`RunError::Unusable`] with what to do.
pub fn refuse_folder(dir: Option<&Path>) -> Result<(), RunError> {
    let Some(dir) = dir else { return Ok(()) };
    let reason = format!(
        "--data is `{}`, and the data is generated, not read from a folder; leave it out",
        dir.display()
    );
    Err(RunError::Unusable { reason })
}

/// Returns an error if a file or folder is named twice: training samples would be test samples,
/// too.
fn refuse_the_same(paths: &[PathBuf]) -> Result<(), RunError> {
    let mut seen: Vec<(FileIdentity, &PathBuf)> = Vec::new();
    for path in paths {
        let identity = FileIdentity::of(path);
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == identity) {
            let reason = format!(
                "`{}` and `{}` are the same: what is learned from would also be tested; name each \
                 once",
                other.display(),
                path.display()
            );
            return Err(RunError::Unusable { reason });
        }
        seen.push((identity, path));
    }
    Ok(())
}

impl DataFolder<'_> {
    /// Joins each file to the data folder, or returns an error with the path and how to get it.
    pub(super) fn find(&self, files: &[&PathBuf]) -> Result<Vec<PathBuf>, RunError> {
        let missing = |what: String| RunError::NoData {
            what,
            how_to_get: self.how_to_get.map(str::to_owned),
        };
        let Some(dir) = self.dir else {
            let what = "this config needs data: name its folder with --data DIR or the key \
                        `data.dir`";
            return Err(missing(what.to_owned()));
        };
        let mut paths = Vec::new();
        for file in files {
            // Without `.`, which may be the file itself.
            let path: PathBuf = dir.join(file).components().collect();
            match fs::metadata(&path).map_err(|cause| (cause.kind(), cause)) {
                Ok(_) => paths.push(path),
                Err((ErrorKind::NotFound | ErrorKind::NotADirectory, _)) => {
                    let what = format!("looked for `{}`, which is not there", path.display());
                    return Err(missing(what));
                }
                Err((_, cause)) => return Err(RunError::io("open", &path, cause)),
            }
        }
        refuse_the_same(&paths)?;
        Ok(paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_no_dots() {
        let dir = tempfile::tempdir().expect("temporary folder");
        fs::create_dir(dir.path().join("a")).expect("made");
        for (folder, file) in [("a", "."), ("a/.", "."), ("./a/", ""), (".", "./a/.")] {
            let (folder, file) = (dir.path().join(folder), PathBuf::from(file));
            let data = DataFolder { dir: Some(&folder), how_to_get: None };
            let found = data.find(&[&file]).expect("there").remove(0);
            // Paths are equal with and without dots.
            assert_eq!(found.as_os_str(), dir.path().join("a").as_os_str(), "{}", folder.display());
        }
    }

    #[test]
    fn a_file_that_is_named_twice_is_refused_under_any_name() {
        let dir = tempfile::tempdir().expect("temporary folder");
        for name in ["a.csv", "b.csv"] {
            fs::write(dir.path().join(name), "x\n1\n").expect("written");
        }
        let find = |names: [&str; 2]| {
            let names = names.map(PathBuf::from);
            DataFolder { dir: Some(dir.path()), how_to_get: None }.find(&[&names[0], &names[1]])
        };
        find(["a.csv", "b.csv"]).expect("two files");
        let refused = |names: [&str; 2]| {
            let error = find(names).expect_err("one file").to_string();
            assert!(error.contains("what is learned from would also be tested"), "{error}");
        };
        refused(["a.csv", "./a.csv"]);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("d.csv", dir.path().join("d.csv")).expect("a link");
            let error = find(["a.csv", "d.csv"]).expect_err("a loop").to_string();
            assert!(
                error.ends_with("d.csv`: its symbolic links form a loop; name the file itself")
            );
            fs::hard_link(dir.path().join("a.csv"), dir.path().join("c.csv")).expect("a link");
            refused(["a.csv", "c.csv"]);
        }
    }
}
