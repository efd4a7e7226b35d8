//! The contents of the files that a run has read, stored in its folder.

use std::collections::BTreeMap;

use updraft_data::{ImageSource, KnownContents, expect_contents};

use crate::bounded::RECORD_BYTES;
use crate::error::RunError;
use crate::folder::RunFolder;

/// The file of a run's folder with them, by the names of the sets.
const FILE: &str = "file-contents.json";

/// More files do not fit into a file that is read again: each takes 16 bytes, and the rest of the
/// file less than one.
const MOST_FILES: usize = (RECORD_BYTES / 17) as usize;

/// The contents of the files of a run's data as they were first read: a file that a later process of
/// the run reads must have the same.
pub(crate) struct FileContents<'a> {
    sets: Vec<(&'static str, &'a dyn ImageSource)>,
    /// The files whose contents were known when they were stored last.
    stored: usize,
}

impl<'a> FileContents<'a> {
    /// Those of [`Workload::file_sets`](crate::Workload::file_sets), unless they are too many.
    pub(crate) fn new(mut sets: Vec<(&'static str, &'a dyn ImageSource)>) -> Self {
        if sets.iter().map(|(_, images)| images.len()).sum::<usize>() > MOST_FILES {
            sets.clear();
        }
        Self { sets, stored: 0 }
    }

    /// Compares the files with what earlier processes of a run have read, and returns a message for
    /// each set of other files, which are not compared. Files that are read later are compared then.
    ///
    /// # Errors
    /// [`RunError::Data`] for a file that was replaced and has been read here,
    /// [`RunError::Unusable`] if what was stored is damaged or edited, [`RunError::Io`],
    /// [`RunError::TooLarge`].
    pub(crate) fn expect(&self, folder: &RunFolder) -> Result<Vec<String>, RunError> {
        // Without the file, it is a run of an earlier version, or no file has been read.
        if self.sets.is_empty() || !folder.has(FILE) {
            return Ok(Vec::new());
        }
        let stored: BTreeMap<String, String> =
            folder.read_bound_json(FILE).map_err(|error| advised(error, folder))?;
        let mut notes = Vec::new();
        for (name, images) in &self.sets {
            let Some(text) = stored.get(*name) else { continue };
            if !expect_contents(*images, text)? {
                notes.push(format!(
                    "the {name} images are others than before: files were added, removed, renamed or \
                     have another length"
                ));
            }
        }
        Ok(notes)
    }

    /// Stores the contents that are known, if there are more than before.
    ///
    /// # Errors
    /// As [`RunFolder::write_bound`].
    pub(crate) fn store(&mut self, folder: &RunFolder) -> Result<(), RunError> {
        let sets = self.sets.iter();
        let sets = sets.filter_map(|(name, images)| Some((*name, images.known_contents()?)));
        let sets: BTreeMap<&str, KnownContents> = sets.collect();
        let known: usize = sets.values().map(KnownContents::known).sum();
        if known > self.stored {
            let texts = sets.iter().map(|(name, contents)| (*name, contents.to_text()));
            folder.write_bound_json(FILE, &texts.collect::<BTreeMap<_, _>>())?;
            self.stored = known;
        }
        Ok(())
    }
}

/// The model does not depend on the file, unlike on others of a run: it may be removed.
fn advised(error: RunError, folder: &RunFolder) -> RunError {
    match error {
        RunError::ChangedFile { .. } | RunError::Json { .. } | RunError::NoDigests { .. } => {
            let reason = format!(
                "`{}` was changed or replaced since the run wrote it; restore it from a copy, or \
                 remove it to continue without comparing the images with those of before",
                folder.path().join(FILE).display()
            );
            RunError::Unusable { reason }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use updraft_data::{DataError, Image};

    use super::*;
    use crate::config::Plan;
    use crate::task::TASKS;

    /// A set that claims so many files, of which two contents may become known.
    struct Files {
        count: usize,
        contents: KnownContents,
    }

    impl ImageSource for Files {
        fn len(&self) -> usize {
            self.count
        }

        fn classes(&self) -> &[String] {
            &[]
        }

        fn label(&self, _: usize) -> usize {
            0
        }

        fn name(&self, index: usize) -> String {
            format!("{index}.png")
        }

        fn read(&self, _: usize) -> Result<Image<'_>, DataError> {
            Err(DataError::Empty)
        }

        fn fingerprint(&self) -> String {
            "set".to_owned()
        }

        fn known_contents(&self) -> Option<KnownContents> {
            Some(self.contents.clone())
        }
    }

    fn files(count: usize) -> Files {
        Files { count, contents: KnownContents::new("set", 2) }
    }

    #[test]
    fn contents_are_stored_when_there_are_new_ones_and_expected_by_a_later_process() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let plan = {
            let _alone = updraft_testing::alone();
            Plan::read(TASKS, "", Path::new("c.toml"), &[]).expect("valid").plan
        };
        let folder = RunFolder::create(dir.path(), &plan).expect("made");
        let first = files(2);
        let mut own = FileContents::new(vec![("training", &first)]);
        own.store(&folder).expect("nothing");
        assert!(!folder.has(FILE) && own.expect(&folder).expect("nothing").is_empty());
        assert!(first.contents.agrees(0, b"a"));
        own.store(&folder).expect("stored");
        let stored = folder.read(FILE).expect("a file");
        folder.remove(FILE).expect("removed");
        own.store(&folder).expect("nothing new");
        assert!(!folder.has(FILE));
        folder.write(FILE, &stored).expect("put back");

        // Not read before, read with the same content, and with another.
        for (content, is_right) in [(None, true), (Some("a"), true), (Some("b"), false)] {
            let later = files(2);
            let read = content.is_none_or(|content| later.contents.agrees(0, content.as_bytes()));
            let expected = FileContents::new(vec![("training", &later)]).expect(&folder);
            assert_eq!((read, expected.is_ok()), (true, is_right));
            assert_eq!(later.contents.agrees(0, b"a"), is_right);
        }
        let other = Files { contents: KnownContents::new("other", 2), ..files(2) };
        let notes = FileContents::new(vec![("training", &other)]).expect(&folder).expect("noted");
        assert!(notes[0].starts_with("the training images are others than before"), "{notes:?}");
    }

    #[test]
    fn more_files_than_a_file_of_a_run_can_have_are_left_out() {
        let (most, more) = (files(MOST_FILES), files(MOST_FILES + 1));
        assert_eq!(FileContents::new(vec![("training", &most)]).sets.len(), 1);
        assert!(FileContents::new(vec![("training", &more)]).sets.is_empty());
        assert!((16 * MOST_FILES + 1000) as u64 <= RECORD_BYTES);
    }
}
