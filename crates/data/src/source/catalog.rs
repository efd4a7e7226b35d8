//! The classes and files of a folder or an archive, in a common order.

use std::collections::BTreeSet;

use crate::digest::Digest;
use crate::file_state::FileState;

/// The file endings that count as images, in any case; everything else is ignored.
pub(crate) const EXTENSIONS: [&str; 5] = [".jpg", ".jpeg", ".png", ".tif", ".tiff"];

/// Whether a file counts as an image, by its ending, and is not hidden.
pub(crate) fn is_image(file: &str) -> bool {
    let file = file.to_ascii_lowercase();
    !file.starts_with('.') && EXTENSIONS.iter().any(|extension| file.ends_with(extension))
}

/// Whether a file or folder is ignored: hidden, or added to archives by macOS.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || name == "__MACOSX"
}

/// What a source of images found and skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassedOver {
    /// How many files and folders.
    pub count: usize,
    /// The names of the first.
    pub first: Vec<String>,
}

impl PassedOver {
    /// The names that a message lists.
    const MOST_LISTED: usize = 3;

    pub(crate) fn add(&mut self, name: String) {
        self.count += 1;
        if self.first.len() < Self::MOST_LISTED {
            self.first.push(name);
        }
    }

    /// A message about them; `None` if there are none.
    #[must_use]
    pub fn message(&self) -> Option<String> {
        let more = match self.count.checked_sub(self.first.len())? {
            0 if self.first.is_empty() => return None,
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "passed over `{}`{more}: no files in class folders that end in {}",
            self.first.join("`, `"),
            EXTENSIONS.join(", ")
        ))
    }
}

/// A file found, before classes have numbers.
#[derive(Debug)]
pub(crate) struct Found<L> {
    pub(crate) class: String,
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// That of the default in an archive, which has a state of its own.
    pub(crate) state: FileState,
    pub(crate) location: L,
}

/// A file with its class.
#[derive(Debug)]
pub(crate) struct Listed<L> {
    pub(crate) label: usize,
    pub(crate) bytes: u64,
    pub(crate) location: L,
}

/// All files, sorted by class and file name, so that a folder and its archive agree.
#[derive(Debug)]
pub(crate) struct Catalog<L> {
    pub(crate) classes: Vec<String>,
    pub(crate) files: Vec<Listed<L>>,
    pub(crate) fingerprint: String,
    /// The same with the states of the files.
    pub(crate) state: String,
}

impl<L> Catalog<L> {
    pub(crate) fn new(mut found: Vec<Found<L>>) -> Self {
        found.sort_by(|a, b| (&a.class, &a.file).cmp(&(&b.class, &b.file)));
        let classes: BTreeSet<&str> = found.iter().map(|file| file.class.as_str()).collect();
        let classes: Vec<String> = classes.into_iter().map(str::to_owned).collect();
        let mut digest = Digest::new("updraft images by class/file and length").texts(&classes);
        let mut states = Digest::new("updraft states of files");
        let mut files = Vec::with_capacity(found.len());
        let mut label = 0;
        for file in found {
            // Both lists are sorted, so the class is this one or a later one.
            while classes[label] != file.class {
                label += 1;
            }
            digest = digest.number(label).text(&file.file).number(file.bytes as usize);
            states = states.text(&file.state.to_string());
            files.push(Listed { label, bytes: file.bytes, location: file.location });
        }
        let fingerprint = digest.hex();
        let state = states.text(&fingerprint).hex();
        Self { classes, files, fingerprint, state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_found_does_not_matter() {
        let found = |class: &str, file: &str| Found {
            class: class.to_owned(),
            file: file.to_owned(),
            bytes: 1,
            state: FileState::default(),
            location: format!("{class}/{file}"),
        };
        let one = Catalog::new(vec![found("b", "1"), found("a", "2"), found("a", "1")]);
        let other = Catalog::new(vec![found("a", "1"), found("a", "2"), found("b", "1")]);
        assert_eq!(one.fingerprint, other.fingerprint);
        assert_eq!(one.classes, ["a", "b"]);
        let files: Vec<_> = one.files.iter().map(|file| (file.label, &*file.location)).collect();
        assert_eq!(files, [(0, "a/1"), (0, "a/2"), (1, "b/1")]);
    }

    #[test]
    fn endings_count_in_any_case_and_hidden_files_do_not() {
        for (file, expected) in [
            ("a.jpg", true),
            ("A.TIFF", true),
            ("._a.jpg", false),
            ("a.txt", false),
            ("jpg", false),
        ] {
            assert_eq!(is_image(file), expected, "{file}");
        }
    }
}
