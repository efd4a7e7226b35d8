//! The folder of the finished parts of a prediction, from which it is resumed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use updraft_data::{Digest, read_regular};

use super::kept_file::{has_checksum, is_intact, is_partial, keep, remove_partial, write_whole};
use crate::Failed;
use crate::command::cannot;

/// The file that says what the parts are predictions of.
const KEY: &str = "predictions.json";

/// The start and the endings of the names of parts.
const PART: &str = "part-";
const TEXT: &str = ".txt";
const BLOCKS: &str = ".blocks";

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
    /// SHA-256 of the paths of the files, their lengths and their times, as [`PartsKey::state_of`].
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
            let nanos = nanos.map(|time| time.as_nanos());
            let facts = format!("{} {nanos:?}", metadata.len());
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
    /// The names of files that were damaged, and are removed.
    damaged: Vec<String>,
    /// The names of files that had no checksum, and are removed.
    unchecked: Vec<String>,
}

impl PartsFolder {
    /// Opens a folder of the same predictions, or creates it; removes files that are damaged or
    /// incomplete, so that their predictions are computed again.
    pub(crate) fn open(path: &Path, key: &PartsKey) -> Result<Self> {
        if Self::check(path, key)? {
            fs::create_dir_all(path).map_err(|cause| cannot("create", path, cause))?;
            write_whole(path, KEY, &serde_json::to_string_pretty(key)?)?;
        }
        remove_partial(path)?;
        let mut folder = Self::opened_by_another(path);
        folder.remove_damaged()?;
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
            // A process that was killed while it created the folder leaves a partial file.
            let is_left = |name: OsString| is_partial(&name.to_string_lossy());
            let is_empty = fs::read_dir(path).is_ok_and(|mut entries| {
                entries.all(|entry| entry.is_ok_and(|entry| is_left(entry.file_name())))
            });
            if !is_empty {
                bail!("`{}` is no folder of parts; name a new or an empty one", path.display());
            }
            return Ok(true);
        }
        let text = read_text(&file)?;
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
        Self { path: path.to_owned(), damaged: Vec::new(), unchecked: Vec::new() }
    }

    /// A message about the files that were removed; `None` without any.
    pub(crate) fn note(&self) -> Option<String> {
        let path = self.path.display();
        let reasons = [
            (&self.damaged, "is damaged or incomplete", "are damaged or incomplete"),
            (&self.unchecked, "has no checksum", "have no checksum"),
        ];
        let mut texts = Vec::new();
        for (names, of_one, of_several) in reasons {
            let Some(first) = names.first() else { continue };
            texts.push(match names.len() {
                1 => format!("`{first}` in `{path}` {of_one}"),
                count => format!("{count} files in `{path}`, from `{first}` on, {of_several}"),
            });
        }
        let again = match self.damaged.len() + self.unchecked.len() {
            0 => return None,
            1 => "it is computed again",
            _ => "they are computed again",
        };
        Some(format!("{}; {again}", texts.join("; ")))
    }

    /// Whether a part is finished, as a whole or in blocks.
    pub(crate) fn has(&self, part: usize) -> bool {
        [Self::name(part), Self::blocks_name(part)].iter().any(|name| self.path.join(name).exists())
    }

    /// Writes a finished part.
    pub(crate) fn add(&self, part: usize, text: &str) -> Result<()> {
        keep(&self.path, &Self::name(part), text)
    }

    /// The finished blocks of a part that is kept in blocks.
    pub(crate) fn blocks(&self, part: usize) -> Result<BTreeSet<usize>> {
        let entries =
            fs::read_dir(&self.path).map_err(|cause| cannot("read", &self.path, cause))?;
        let start = format!("{PART}{part:08}-");
        let block = |name: &str| name.strip_prefix(&start)?.strip_suffix(TEXT)?.parse().ok();
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter(|name| is_own(name)).filter_map(|name| block(&name)).collect())
    }

    /// Writes a finished block of a part.
    pub(crate) fn add_block(&self, part: usize, block: usize, text: &str) -> Result<()> {
        keep(&self.path, &Self::block_name(part, block), text)
    }

    /// Writes that all blocks of a part are finished, and how many there are.
    pub(crate) fn end_blocks(&self, part: usize, blocks: usize) -> Result<()> {
        keep(&self.path, &Self::blocks_name(part), &format!("{blocks}\n"))
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
        let blocks = self.count_of(&name)?;
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
        let text = read_text(&file)?;
        if !is_intact(&self.path, name, text.as_bytes())? {
            return Err(Failed(format!(
                "`{}` was changed while parts were predicted; run the same command again",
                file.display()
            ))
            .into());
        }
        Ok(text)
    }

    /// The number of blocks in the file with this name.
    fn count_of(&self, name: &str) -> Result<usize> {
        let Ok(blocks) = self.text(name)?.trim_end().parse() else {
            bail!("`{}` is damaged; remove it", self.path.join(name).display());
        };
        Ok(blocks)
    }

    /// Removes files of parts that differ from what was written, and the number of blocks where one
    /// is missing; other files in the folder stay.
    fn remove_damaged(&mut self) -> Result<()> {
        let entries =
            fs::read_dir(&self.path).map_err(|cause| cannot("read", &self.path, cause))?;
        let files = entries.flatten().filter(|entry| entry.path().is_file());
        let names = files.filter_map(|entry| entry.file_name().into_string().ok());
        let names: BTreeSet<String> = names.filter(|name| is_own(name)).collect();
        let mut intact = BTreeSet::new();
        for name in names {
            let file = self.path.join(&name);
            let bytes = match read_regular(&file, u64::MAX) {
                // Another process has just removed it.
                Err(cause) if cause.kind() == ErrorKind::NotFound => continue,
                read => read.map_err(|cause| cannot("read", &file, cause))?,
            };
            if is_intact(&self.path, &name, &bytes)? {
                intact.insert(name);
                continue;
            }
            self.remove(&name)?;
            match has_checksum(&self.path, &name) {
                true => self.damaged.push(name),
                false => self.unchecked.push(name),
            }
        }
        for name in &intact {
            let Some(part) = name.strip_prefix(PART).and_then(|name| name.strip_suffix(BLOCKS))
            else {
                continue;
            };
            let has = |block: usize| intact.contains(&format!("{PART}{part}-{block:08}{TEXT}"));
            if !(0..self.count_of(name)?).all(has) {
                self.remove(name)?;
            }
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let file = self.path.join(name);
        match fs::remove_file(&file) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                Err(cannot("remove", &file, cause))
            }
            _ => Ok(()),
        }
    }

    /// In the order of names, as `cat` prints them.
    fn name(part: usize) -> String {
        format!("{PART}{part:08}{TEXT}")
    }

    fn block_name(part: usize, block: usize) -> String {
        format!("{PART}{part:08}-{block:08}{TEXT}")
    }

    /// The file with the number of blocks.
    fn blocks_name(part: usize) -> String {
        format!("{PART}{part:08}{BLOCKS}")
    }
}

/// Whether a name is one of a part, of a block or of a number of blocks.
fn is_own(name: &str) -> bool {
    let is_number = |text: &str| text.len() >= 8 && text.bytes().all(|it| it.is_ascii_digit());
    let Some(name) = name.strip_prefix(PART) else { return false };
    if let Some(part) = name.strip_suffix(BLOCKS) {
        return is_number(part);
    }
    let Some(numbers) = name.strip_suffix(TEXT) else { return false };
    match numbers.split_once('-') {
        Some((part, block)) => is_number(part) && is_number(block),
        None => is_number(numbers),
    }
}

/// Reads the text of a file of the folder, which may be as long as the predictions.
fn read_text(file: &Path) -> Result<String> {
    let bytes = read_regular(file, u64::MAX).map_err(|cause| cannot("read", file, cause))?;
    String::from_utf8(bytes).map_err(|error| {
        cannot("read", file, io::Error::new(ErrorKind::InvalidData, error.utf8_error()))
    })
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
    fn damaged_files_are_removed_with_a_note_and_a_missing_block_is_open_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("parts");
        let folder = PartsFolder::open(&path, &key()).unwrap();
        let part = |name: &str| path.join(name);
        for at in 0..3 {
            folder.add(at, "a line\n").unwrap();
            folder.add_block(7, at, "a block\n").unwrap();
        }
        folder.end_blocks(7, 3).unwrap();
        fs::write(part(".part-00000009.txt.1.partial"), "half").unwrap();
        assert_eq!(PartsFolder::open(&path, &key()).unwrap().note(), None);
        assert!(!part(".part-00000009.txt.1.partial").exists());

        fs::write(part("part-00000001.txt"), "").unwrap();
        let again = PartsFolder::open(&path, &key()).unwrap();
        let note = again.note().unwrap();
        assert!(note.starts_with("`part-00000001.txt` in `"), "{note}");
        assert!(again.has(0) && !again.has(1) && again.has(2) && again.has(7));

        fs::write(part("part-00000000.txt"), "a li").unwrap();
        fs::write(part("part-00000007-00000001.txt"), "a blo").unwrap();
        let again = PartsFolder::open(&path, &key()).unwrap();
        assert!(again.note().unwrap().starts_with("2 files in `"));
        assert!(!again.has(0) && !again.has(7));
        assert_eq!(again.blocks(7).unwrap(), BTreeSet::from([0, 2]));

        again.add_block(7, 1, "a block\n").unwrap();
        again.end_blocks(7, 3).unwrap();
        fs::remove_file(part("part-00000007-00000002.txt")).unwrap();
        let again = PartsFolder::open(&path, &key()).unwrap();
        assert!(again.note().is_none() && !again.has(7), "a missing one is no damage");
        assert_eq!(again.blocks(7).unwrap(), BTreeSet::from([0, 1]));

        fs::remove_file(part(".part-00000002.txt.sha256")).unwrap();
        let again = PartsFolder::open(&path, &key()).unwrap();
        let note = again.note().unwrap();
        assert!(note.ends_with("has no checksum; it is computed again"), "{note}");
        assert!(!again.has(2));

        // An error of the system is no damage.
        again.add(2, "a line\n").unwrap();
        fs::remove_file(part(".part-00000002.txt.sha256")).unwrap();
        fs::create_dir(part(".part-00000002.txt.sha256")).unwrap();
        let error = PartsFolder::open(&path, &key()).unwrap_err().to_string();
        assert!(error.contains(".part-00000002.txt.sha256`: "), "{error}");
        assert!(part("part-00000002.txt").exists());
    }

    #[test]
    fn files_of_the_user_in_the_folder_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        PartsFolder::open(path, &key()).unwrap().add_block(1, 0, "a line\n").unwrap();
        let files = ["part-all.txt", "part-1.txt", "part-00000001-2.txt", "part-00000001.csv"];
        files.iter().for_each(|name| fs::write(path.join(name), "mine").unwrap());
        let folders = ["part-old", "part-00000002.txt"];
        folders.iter().for_each(|name| fs::create_dir(path.join(name)).unwrap());
        let folder = PartsFolder::open(path, &key()).unwrap();
        assert_eq!(folder.note(), None);
        assert!(files.iter().chain(&folders).all(|name| path.join(name).exists()));
        assert_eq!(folder.blocks(1).unwrap(), BTreeSet::from([0]));
    }

    #[test]
    fn a_part_that_changes_while_others_are_predicted_is_not_printed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = PartsFolder::open(&dir.path().join("parts"), &key()).unwrap();
        folder.add(0, "a line\n").unwrap();
        fs::write(dir.path().join("parts/part-00000000.txt"), "a l").unwrap();
        let error = folder.each_text(0, &mut |_| Ok(())).unwrap_err();
        assert!(error.is::<Failed>(), "the exit code is that of a failure");
        assert!(error.to_string().contains("run the same command again"), "{error}");
    }

    #[test]
    fn a_folder_whose_creation_was_killed_is_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".predictions.json.1.partial"), "{").unwrap();
        PartsFolder::open(dir.path(), &key()).unwrap();
        assert!(!dir.path().join(".predictions.json.1.partial").exists());
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

        // Another name of a file changes no byte of it.
        let state = PartsKey::state_of(&files).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        fs::hard_link(&files[0], dir.path().join("backup")).unwrap();
        assert_eq!(PartsKey::state_of(&files).unwrap(), state);
    }
}
