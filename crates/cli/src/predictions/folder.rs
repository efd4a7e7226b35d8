//! The folder of the finished parts of a prediction, from which it is resumed.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use updraft_data::Digest;

use crate::command::cannot;

/// The file that says what the parts are predictions of.
const KEY: &str = "predictions.json";

/// What parts depend on: a folder with another key has parts of other predictions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartsKey {
    pub(crate) version: String,
    /// SHA-256 of the model.
    pub(crate) model: String,
    /// The options that change the text.
    pub(crate) options: String,
    /// The number of files.
    pub(crate) files: usize,
    /// SHA-256 of the paths of the files, their lengths and their times.
    pub(crate) state: String,
}

impl PartsKey {
    /// The digest of files: of their paths, lengths and times of modification.
    pub(crate) fn state_of(files: &[PathBuf]) -> Result<String> {
        let mut digest = Digest::new("files to predict");
        for file in files {
            let metadata = fs::metadata(file).map_err(|cause| cannot("read", file, cause))?;
            let modified = metadata.modified().ok();
            let nanos = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let facts = format!("{} {:?}", metadata.len(), nanos.map(|time| time.as_nanos()));
            digest = digest.bytes(file.as_os_str().as_encoded_bytes()).bytes(facts.as_bytes());
        }
        Ok(digest.hex())
    }

    /// The name of the first difference, with both values.
    fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let pairs = [
            ("version", &self.version, &other.version),
            ("model", &self.model, &other.model),
            ("options", &self.options, &other.options),
            ("files", &self.files.to_string(), &other.files.to_string()),
            ("state of the files", &self.state, &other.state),
        ];
        let differing = pairs.into_iter().find(|(_, own, other)| own != other);
        differing.map(|(name, own, other)| (name, own.clone(), other.clone()))
    }
}

/// A folder of finished parts: each is one file, complete or absent.
#[derive(Debug)]
pub(crate) struct PartsFolder {
    path: PathBuf,
}

impl PartsFolder {
    /// Opens a folder of the same predictions, or creates it.
    pub(crate) fn open(path: &Path, key: &PartsKey) -> Result<Self> {
        let (folder, is_new) = (Self { path: path.to_owned() }, Self::check(path, key)?);
        if is_new {
            fs::create_dir_all(path).map_err(|cause| cannot("create", path, cause))?;
            folder.write(KEY, &serde_json::to_string_pretty(key)?)?;
        }
        Ok(folder)
    }

    /// Whether a folder has no parts yet.
    ///
    /// # Errors
    /// If it has parts of other predictions, or something else.
    pub(crate) fn check(path: &Path, key: &PartsKey) -> Result<bool> {
        let file = path.join(KEY);
        if !path.exists() {
            return Ok(true);
        }
        if !file.exists() {
            let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
            if !is_empty {
                bail!("`{}` is no folder of parts; name a new or an empty one", path.display());
            }
            return Ok(true);
        }
        let text = fs::read_to_string(&file).map_err(|cause| cannot("read", &file, cause))?;
        let Ok(found) = serde_json::from_str::<PartsKey>(&text) else {
            bail!("`{}` is damaged; name another folder for the parts", file.display());
        };
        if let Some((name, there, here)) = found.difference(key) {
            bail!(
                "`{}` has parts of other predictions: {name} `{there}` there, `{here}` here; name \
                 another folder",
                path.display()
            );
        }
        Ok(false)
    }

    /// The folder that rank 0 has opened.
    pub(crate) fn opened_by_another(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub(crate) fn has(&self, part: usize) -> bool {
        self.path.join(Self::name(part)).exists()
    }

    /// Writes a finished part.
    pub(crate) fn add(&self, part: usize, text: &str) -> Result<()> {
        self.write(&Self::name(part), text)
    }

    /// The text of a part.
    pub(crate) fn text(&self, part: usize) -> Result<String> {
        let file = self.path.join(Self::name(part));
        if !file.exists() {
            bail!(
                "`{}` is missing: the folder has to be on storage that all ranks see",
                file.display()
            );
        }
        fs::read_to_string(&file).map_err(|cause| cannot("read", &file, cause))
    }

    /// In the order of names, as `cat` prints them.
    fn name(part: usize) -> String {
        format!("part-{part:08}.txt")
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let (whole, id) = (self.path.join(name), std::process::id());
        let partial = self.path.join(format!(".{name}.{id}.partial"));
        let write = || {
            let mut file = File::create(&partial)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&partial, &whole)
        };
        write().map_err(|cause| {
            // A full disk would keep it.
            let _ = fs::remove_file(&partial);
            cannot("write", &whole, cause)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> PartsKey {
        PartsKey {
            version: "1".into(),
            model: "m".into(),
            options: "top 1".into(),
            files: 3,
            state: "s".into(),
        }
    }

    #[test]
    fn a_folder_keeps_parts_of_one_prediction() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/parts");
        let folder = PartsFolder::open(&path, &key()).unwrap();
        assert!(!folder.has(2));
        folder.add(2, "a\n").unwrap();
        let again = PartsFolder::open(&path, &key()).unwrap();
        assert!(again.has(2) && !again.has(1));
        assert_eq!(again.text(2).unwrap(), "a\n");
        let missing = again.text(1).unwrap_err().to_string();
        assert!(missing.contains("storage that all ranks see"), "{missing}");
        let other = PartsKey { files: 4, ..key() };
        let error = PartsFolder::open(&path, &other).unwrap_err().to_string();
        assert!(error.contains("files `3` there, `4` here"), "{error}");
        fs::write(path.join(KEY), "{").unwrap();
        let error = PartsFolder::open(&path, &key()).unwrap_err().to_string();
        assert!(error.contains("is damaged"), "{error}");
        fs::remove_file(path.join(KEY)).unwrap();
        let error = PartsFolder::open(&path, &key()).unwrap_err().to_string();
        assert!(error.contains("is no folder of parts"), "{error}");
    }

    #[test]
    fn the_state_of_files_changes_with_their_paths_and_contents() {
        let dir = tempfile::tempdir().unwrap();
        let files = ["a", "b"].map(|name| dir.path().join(name));
        files.iter().for_each(|file| fs::write(file, "x").unwrap());
        let state = PartsKey::state_of(&files).unwrap();
        assert_eq!(PartsKey::state_of(&files).unwrap(), state);
        assert_ne!(PartsKey::state_of(&files[..1]).unwrap(), state);
        fs::write(&files[1], "longer").unwrap();
        assert_ne!(PartsKey::state_of(&files).unwrap(), state);
        assert!(PartsKey::state_of(&[dir.path().join("gone")]).is_err());
    }
}
