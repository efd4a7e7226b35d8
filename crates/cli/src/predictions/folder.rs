//! The folder of the finished parts of a prediction, from which it is resumed.

use std::collections::BTreeSet;
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

/// A folder of finished parts: each is one file, or one for each of its blocks, complete or absent.
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

    /// Whether a part is finished, as a whole or in blocks.
    pub(crate) fn has(&self, part: usize) -> bool {
        [Self::name(part), Self::blocks_name(part)].iter().any(|name| self.path.join(name).exists())
    }

    /// Writes a finished part.
    pub(crate) fn add(&self, part: usize, text: &str) -> Result<()> {
        self.write(&Self::name(part), text)
    }

    /// The finished blocks of a part that is kept in blocks.
    pub(crate) fn blocks(&self, part: usize) -> Result<BTreeSet<usize>> {
        let entries =
            fs::read_dir(&self.path).map_err(|cause| cannot("read", &self.path, cause))?;
        let start = format!("part-{part:08}-");
        let block = |name: &str| name.strip_prefix(&start)?.strip_suffix(".txt")?.parse().ok();
        let names = entries.flatten().map(|entry| entry.file_name());
        Ok(names.filter_map(|name| block(&name.to_string_lossy())).collect())
    }

    /// Writes a finished block of a part.
    pub(crate) fn add_block(&self, part: usize, block: usize, text: &str) -> Result<()> {
        self.write(&Self::block_name(part, block), text)
    }

    /// Writes that all blocks of a part are finished, and how many there are.
    pub(crate) fn end_blocks(&self, part: usize, blocks: usize) -> Result<()> {
        self.write(&Self::blocks_name(part), &format!("{blocks}\n"))
    }

    /// Passes on the text of a part, block by block.
    pub(crate) fn each_text(
        &self,
        part: usize,
        print: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        let name = Self::blocks_name(part);
        if !self.path.join(&name).exists() {
            return print(&self.text(&Self::name(part))?);
        }
        let text = self.text(&name)?;
        let Ok(blocks) = text.trim_end().parse::<usize>() else {
            bail!("`{}` is damaged; remove it", self.path.join(&name).display());
        };
        (0..blocks).try_for_each(|block| print(&self.text(&Self::block_name(part, block))?))
    }

    fn text(&self, name: &str) -> Result<String> {
        let file = self.path.join(name);
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

    fn block_name(part: usize, block: usize) -> String {
        format!("part-{part:08}-{block:08}.txt")
    }

    /// The file with the number of blocks.
    fn blocks_name(part: usize) -> String {
        format!("part-{part:08}.blocks")
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
        let text = |part: usize| {
            let mut all = String::new();
            again.each_text(part, &mut |text| {
                all += text;
                Ok(())
            })?;
            anyhow::Ok(all)
        };
        assert_eq!(text(2).unwrap(), "a\n");
        let missing = text(1).unwrap_err().to_string();
        assert!(missing.contains("storage that all ranks see"), "{missing}");
        for (block, text) in [(1, "c\n"), (0, "b\n")] {
            again.add_block(1, block, text).unwrap();
        }
        assert_eq!(again.blocks(1).unwrap(), BTreeSet::from([0, 1]));
        assert!(again.blocks(2).unwrap().is_empty() && !again.has(1), "its end is not known");
        again.end_blocks(1, 2).unwrap();
        assert!(again.has(1));
        assert_eq!(text(1).unwrap(), "b\nc\n");
        fs::remove_file(path.join("part-00000001-00000001.txt")).unwrap();
        assert!(text(1).unwrap_err().to_string().contains("00000001.txt` is missing"));
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
