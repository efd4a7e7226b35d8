//! A folder with one folder of images per class.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::decode::decode_bytes;
use crate::error::{DataError, Place};
use crate::file_identity::FileIdentity;
use crate::file_state::FileState;
use crate::image::Image;
use crate::regular_file::open_regular;
use crate::source::ImageSource;
use crate::source::catalog::{Catalog, Found, PassedOver, is_hidden, is_image};

/// The largest image file, in bytes, that is read into memory.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 30;

/// Images on disk, as `folder/class/file` or listed by a manifest, read and decoded on demand.
///
/// Classes and files are sorted by name. Hidden folders and files are ignored; files with other
/// endings and folders inside a class folder are skipped, and listed by
/// [`passed_over`](Self::passed_over). The fingerprint covers names and lengths, not contents.
#[derive(Debug)]
pub struct ImageFolder {
    catalog: Catalog<PathBuf>,
    passed_over: PassedOver,
}

impl ImageFolder {
    /// Lists the images of a folder.
    ///
    /// # Errors
    /// [`DataError::Open`] if a folder cannot be listed, [`DataError::NoClasses`] if it has no
    /// class folders, [`DataError::EmptyClass`] for a class without images, [`DataError::NotUtf8`]
    /// for a name that is not UTF-8.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DataError> {
        let path = path.as_ref();
        let mut found = Vec::new();
        let mut passed_over = PassedOver::default();
        for (class, folder, is_folder) in entries(path)? {
            if !is_folder {
                // Files next to the class folders are ignored.
                if is_image(&class) {
                    passed_over.add(class);
                }
                continue;
            }
            let before = found.len();
            for (file, location, is_folder) in entries(&folder)? {
                if is_image(&file) && !is_folder {
                    let metadata = fs::metadata(&location).map_err(open_error(&location))?;
                    let (bytes, state) = (metadata.len(), FileState::of(&metadata));
                    found.push(Found { class: class.clone(), file, bytes, state, location });
                } else {
                    passed_over.add(format!("{class}/{file}"));
                }
            }
            if found.len() == before {
                return Err(DataError::EmptyClass { path: folder });
            }
        }
        if found.is_empty() {
            return Err(DataError::NoClasses { path: path.to_owned() });
        }
        Ok(Self { catalog: Catalog::new(found), passed_over })
    }

    pub(super) fn new(catalog: Catalog<PathBuf>) -> Self {
        Self { catalog, passed_over: PassedOver::default() }
    }

    /// The files and folders that were skipped, without hidden ones.
    #[must_use]
    pub fn passed_over(&self) -> &PassedOver {
        &self.passed_over
    }

    /// Checks that no image is also in another folder, under any name: what is learned from must not
    /// be tested.
    ///
    /// # Errors
    /// [`DataError::SameFile`] with both paths.
    pub fn check_apart(&self, other: &Self) -> Result<(), DataError> {
        let own: HashMap<FileIdentity, &Path> =
            self.paths().map(|path| (FileIdentity::of(path), path)).collect();
        other.paths().try_for_each(|path| match own.get(&FileIdentity::of(path)) {
            Some(first) => Err(same_file(first, path)),
            None => Ok(()),
        })
    }

    /// Checks that no image is there under two names, before a part of the images is held out.
    ///
    /// # Errors
    /// [`DataError::SameFile`] with both paths.
    pub fn check_no_repeats(&self) -> Result<(), DataError> {
        let mut seen: HashMap<FileIdentity, &Path> = HashMap::new();
        self.paths().try_for_each(|path| match seen.insert(FileIdentity::of(path), path) {
            Some(first) => Err(same_file(first, path)),
            None => Ok(()),
        })
    }

    /// The files of the images, in the order of the samples.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.catalog.files.iter().map(|file| file.location.as_path())
    }

    fn place(&self, index: usize) -> Place {
        Place { name: self.name(index), index: Some(index) }
    }

    fn decode(
        &self,
        index: usize,
        kept: Option<(usize, usize)>,
    ) -> Result<Image<'static>, DataError> {
        let listed = &self.catalog.files[index];
        // A pipe would be waited for.
        let bytes = open_regular(&listed.location)
            .and_then(|file| read_file(file, listed.bytes))
            .map_err(|cause| DataError::Read { place: self.place(index), cause })?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            let (place, bytes) = (self.place(index), bytes.len() as u64);
            return Err(DataError::FileTooLarge { place, bytes, limit: MAX_FILE_BYTES });
        }
        decode_bytes(&bytes, kept)
            .map_err(|cause| DataError::Decode { place: self.place(index), cause })
    }
}

impl ImageSource for ImageFolder {
    fn len(&self) -> usize {
        self.catalog.files.len()
    }

    fn classes(&self) -> &[String] {
        &self.catalog.classes
    }

    fn label(&self, index: usize) -> usize {
        self.catalog.files[index].label
    }

    fn name(&self, index: usize) -> String {
        self.catalog.files[index].location.display().to_string()
    }

    fn read(&self, index: usize) -> Result<Image<'_>, DataError> {
        self.decode(index, None)
    }

    fn read_for(&self, index: usize, size: (usize, usize)) -> Result<Image<'_>, DataError> {
        self.decode(index, Some(size))
    }

    fn fingerprint(&self) -> String {
        self.catalog.fingerprint.clone()
    }

    fn stored_state(&self) -> String {
        self.catalog.state.clone()
    }
}

/// Reads at most one byte more than the limit, even if the file has grown since it was listed.
pub(super) fn read_file(file: File, expected: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(expected.min(MAX_FILE_BYTES) as usize + 1);
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The entries that are not hidden, links followed: name, path, and whether it is a folder.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf, bool)>, DataError> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(open_error(folder))? {
        let path = entry.map_err(open_error(folder))?.path();
        let Some(name) = path.file_name() else { continue };
        // Two names that differ only in invalid UTF-8 would become equal.
        let Some(name) = name.to_str().map(str::to_owned) else {
            return Err(DataError::NotUtf8 { path });
        };
        if !is_hidden(&name) {
            let is_folder = fs::metadata(&path).map_err(open_error(&path))?.is_dir();
            entries.push((name, path, is_folder));
        }
    }
    entries.sort();
    Ok(entries)
}

fn same_file(first: &Path, second: &Path) -> DataError {
    DataError::SameFile { first: first.to_owned(), second: second.to_owned() }
}

fn open_error(path: &Path) -> impl FnOnce(io::Error) -> DataError {
    move |cause| DataError::Open { path: path.to_owned(), cause }
}
