//! The files of the arguments of `predict`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::command::cannot;

/// The named files in their order; a folder stands for the files in it and in its folders, in the
/// order of their names.
///
/// Files and folders whose names begin with a dot are left out, and so are links to folders.
pub(crate) fn listed(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::with_capacity(named.len());
    for path in named {
        let before = files.len();
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        // Without `.`, which would be in the name of every file.
        add_folder(&path.components().collect::<PathBuf>(), &mut files)?;
        if files.len() == before {
            bail!("the folder `{}` has no files to predict", path.display());
        }
    }
    Ok(files)
}

fn add_folder(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |cause| cannot("read", folder, cause);
    let mut entries =
        fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
        if kind.is_dir() {
            add_folder(&path, files)?;
        } else if !(kind.is_symlink() && path.is_dir()) {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_its_files_in_the_order_of_names() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["b", "b/c", ".hidden", "empty"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        for file in ["d.png", "b/10.png", "b/2.png", "b/c/a.png", "a.png", ".x", ".hidden/y"] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        let at = |name: &str| dir.path().join(name);
        let single = at("d.png");
        let found = listed(&[single.clone(), dir.path().to_path_buf(), single.clone()]).unwrap();
        let expected = ["d.png", "a.png", "b/10.png", "b/2.png", "b/c/a.png", "d.png", "d.png"];
        assert_eq!(found, expected.map(at));
        let dotted = listed(&[dir.path().join("b/./c/.")]).unwrap();
        assert_eq!(dotted[0].as_os_str(), at("b/c/a.png").as_os_str());
        let error = listed(&[at("empty")]).unwrap_err().to_string();
        assert!(error.ends_with("empty` has no files to predict"), "{error}");
    }
}
