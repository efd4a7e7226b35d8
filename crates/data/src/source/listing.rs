//! The files of class folders, listed on several threads.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use crate::error::DataError;
use crate::file_identity::FileIdentity;
use crate::file_state::FileState;
use crate::file_threads::on_threads;
use crate::progress::{Progress, ProgressUnit};
use crate::source::catalog::{Found, PassedOver, is_hidden, is_image};

/// Threads that list folders: they wait for the file system, so that more than the cores pay.
const THREADS: usize = 8;

/// A listed file.
#[derive(Debug)]
pub(super) struct ListedFile {
    pub(super) path: PathBuf,
    /// Its identity, where listing it gave one.
    identity: Option<FileIdentity>,
}

impl ListedFile {
    pub(super) fn new(path: PathBuf, metadata: &fs::Metadata) -> Self {
        Self { path, identity: FileIdentity::found(metadata) }
    }

    pub(super) fn identity(&self) -> FileIdentity {
        self.identity.clone().unwrap_or_else(|| FileIdentity::of(&self.path))
    }
}

/// The images of all class folders in a folder, sorted by class and name, and what was skipped, in
/// the same order; `progress` receives the number of listed class folders on the calling thread.
///
/// The error is that of the first folder in the order of names that has one.
pub(super) fn list_classes(
    path: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Vec<Found<ListedFile>>, PassedOver), DataError> {
    let entries = entries(path)?;
    let classes: Vec<&Entry> = entries.iter().filter(|entry| entry.is_folder).collect();
    let mut listings = list_all(&classes, progress).into_iter();
    let (mut found, mut passed_over) = (Vec::new(), PassedOver::default());
    for entry in &entries {
        if entry.is_folder {
            let listing = listings.next().expect("one listing for each class folder")?;
            found.extend(listing.images);
            listing.passed_over.into_iter().for_each(|name| passed_over.add(name));
        } else if is_image(&entry.name) {
            // Other files next to the class folders are ignored.
            passed_over.add(entry.name.clone());
        }
    }
    Ok((found, passed_over))
}

/// The files of a class folder.
struct Listing {
    images: Vec<Found<ListedFile>>,
    /// The names of files and folders that are no images.
    passed_over: Vec<String>,
}

/// The number of a folder, and its files.
type Listed = (usize, Result<Listing, DataError>);

/// The files of each folder, in the order of the folders.
fn list_all(
    classes: &[&Entry],
    progress: &mut dyn FnMut(Progress),
) -> Vec<Result<Listing, DataError>> {
    let mut listings: Vec<Option<Result<Listing, DataError>>> = Vec::new();
    listings.resize_with(classes.len(), || None);
    let mut done = 0;
    let work = |at: usize, sender: &Sender<Listed>| sender.send((at, list(classes[at]))).is_ok();
    let mut receive = |(at, listing): Listed| {
        listings[at] = Some(listing);
        done += 1;
        let (total, unit) = (classes.len() as u64, ProgressUnit::Folders);
        progress(Progress { done, total, unit });
        ControlFlow::Continue(())
    };
    on_threads("updraft-list", (classes.len(), THREADS), &work, &mut receive);
    listings.into_iter().map(|listing| listing.expect("every folder was listed")).collect()
}

fn list(class: &Entry) -> Result<Listing, DataError> {
    let mut listing = Listing { images: Vec::new(), passed_over: Vec::new() };
    for Entry { name, path, is_folder } in entries(&class.path)? {
        if is_folder || !is_image(&name) {
            listing.passed_over.push(format!("{}/{name}", class.name));
            continue;
        }
        let metadata = fs::metadata(&path).map_err(open_error(&path))?;
        listing.images.push(Found {
            class: class.name.clone(),
            file: name,
            bytes: metadata.len(),
            state: FileState::of(&metadata),
            location: ListedFile::new(path, &metadata),
        });
    }
    match listing.images.is_empty() {
        true => Err(DataError::EmptyClass { path: class.path.clone() }),
        false => Ok(listing),
    }
}

/// A file or folder that is not hidden.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    name: String,
    path: PathBuf,
    is_folder: bool,
}

/// The entries of a folder that are not hidden, links followed, sorted by name.
fn entries(folder: &Path) -> Result<Vec<Entry>, DataError> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(open_error(folder))? {
        let entry = entry.map_err(open_error(folder))?;
        let path = entry.path();
        let Some(name) = path.file_name() else { continue };
        // Two names that differ only in invalid UTF-8 would become equal.
        let Some(name) = name.to_str().map(str::to_owned) else {
            return Err(DataError::NotUtf8 { path });
        };
        if !is_hidden(&name) {
            // What the folder says about its entries costs nothing; a link is followed.
            let is_folder = match entry.file_type() {
                Ok(kind) if !kind.is_symlink() => kind.is_dir(),
                _ => fs::metadata(&path).map_err(open_error(&path))?.is_dir(),
            };
            entries.push(Entry { name, path, is_folder });
        }
    }
    entries.sort();
    Ok(entries)
}

fn open_error(path: &Path) -> impl FnOnce(io::Error) -> DataError {
    move |cause| DataError::Open { path: path.to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Class folders `00`, `01`, …, each with as many images as its number and one more.
    fn classes(root: &Path, count: usize) {
        for class in 0..count {
            let folder = root.join(format!("{class:02}"));
            fs::create_dir(&folder).unwrap();
            for file in 0..=class {
                fs::write(folder.join(format!("{file:02}.jpg")), vec![0_u8; file]).unwrap();
            }
        }
    }

    #[test]
    fn many_folders_are_listed_in_the_order_of_names_with_lengths_and_identities() {
        let root = tempfile::tempdir().unwrap();
        classes(root.path(), 20);
        let mut steps = Vec::new();
        let (found, passed_over) =
            list_classes(root.path(), &mut |progress| steps.push(progress)).unwrap();
        let listed: Vec<_> = found.iter().map(|it| (&*it.class, &*it.file, it.bytes)).collect();
        let names: Vec<(String, String, u64)> = (0..20)
            .flat_map(|class| (0..=class).map(move |file| (class, file)))
            .map(|(class, file)| (format!("{class:02}"), format!("{file:02}.jpg"), file))
            .collect();
        let expected: Vec<_> =
            names.iter().map(|(class, file, bytes)| (&**class, &**file, *bytes)).collect();
        assert_eq!(listed, expected);
        assert_eq!(passed_over.message(), None);
        let done: Vec<u64> = steps.iter().map(|step| step.done).collect();
        assert_eq!(done, (1..=20).collect::<Vec<_>>());
        assert!(steps.iter().all(|step| (step.total, step.unit) == (20, ProgressUnit::Folders)));
        for file in &found {
            assert_eq!(file.location.identity(), FileIdentity::of(&file.location.path));
        }
    }

    #[test]
    fn the_first_fault_in_the_order_of_names_is_reported() {
        let root = tempfile::tempdir().unwrap();
        classes(root.path(), 20);
        for class in ["07", "13"] {
            let folder = root.path().join(class);
            fs::remove_dir_all(&folder).unwrap();
            fs::create_dir(&folder).unwrap();
        }
        for _ in 0..5 {
            let error = list_classes(root.path(), &mut |_| {}).unwrap_err();
            let DataError::EmptyClass { path } = error else { panic!("{error}") };
            assert!(path.ends_with("07"), "{}", path.display());
        }
    }
}
