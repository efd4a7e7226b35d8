//! A folder with one folder of images per class.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::decode::decode_bytes;
use crate::error::{DataError, Place};
use crate::file_identity::FileIdentity;
use crate::image::Image;
use crate::known_contents::KnownContents;
use crate::progress::Progress;
use crate::regular_file::open_regular;
use crate::source::ImageSource;
use crate::source::catalog::{Catalog, PassedOver};
use crate::source::listing::{ListedFile, list_classes};

/// The largest image file, in bytes, that is read into memory.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 30;

/// Images on disk, as `folder/class/file` or listed by a manifest, read and decoded on demand.
///
/// Classes and files are sorted by name. Hidden folders and files are ignored; files with other
/// endings and folders inside a class folder are skipped, and listed by
/// [`passed_over`](Self::passed_over). The fingerprint covers names and lengths, not contents: a file
/// with another content than when it was first read is an error.
#[derive(Debug)]
pub struct ImageFolder {
    catalog: Catalog<ListedFile>,
    passed_over: PassedOver,
    contents: KnownContents,
}

impl ImageFolder {
    /// Lists the images of a folder.
    ///
    /// # Errors
    /// [`DataError::Open`] if a folder cannot be listed, [`DataError::NoClasses`] if it has no
    /// class folders, [`DataError::EmptyClass`] for a class without images, [`DataError::NotUtf8`]
    /// for a name that is not UTF-8.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DataError> {
        Self::open_with(path, &mut |_| {})
    }

    /// The same; `progress` is called with the listed class folders on the calling thread.
    ///
    /// Folders are listed on several threads, each file with one call to the system.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(
        path: impl AsRef<Path>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, DataError> {
        let path = path.as_ref();
        let (found, passed_over) = list_classes(path, progress)?;
        if found.is_empty() {
            return Err(DataError::NoClasses { path: path.to_owned() });
        }
        Ok(Self { passed_over, ..Self::new(Catalog::new(found)) })
    }

    pub(super) fn new(catalog: Catalog<ListedFile>) -> Self {
        let contents = KnownContents::new(&catalog.fingerprint, catalog.files.len());
        Self { catalog, passed_over: PassedOver::default(), contents }
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
            self.files().map(|file| (file.identity(), file.path.as_path())).collect();
        other.files().try_for_each(|file| match own.get(&file.identity()) {
            Some(first) => Err(same_file(first, &file.path)),
            None => Ok(()),
        })
    }

    /// Checks that no image is there under two names, before a part of the images is held out.
    ///
    /// # Errors
    /// [`DataError::SameFile`] with both paths.
    pub fn check_no_repeats(&self) -> Result<(), DataError> {
        let mut seen: HashMap<FileIdentity, &Path> = HashMap::new();
        self.files().try_for_each(|file| match seen.insert(file.identity(), &file.path) {
            Some(first) => Err(same_file(first, &file.path)),
            None => Ok(()),
        })
    }

    /// The files of the images, in the order of the samples.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files().map(|file| file.path.as_path())
    }

    fn files(&self) -> impl Iterator<Item = &ListedFile> {
        self.catalog.files.iter().map(|file| &file.location)
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
        let bytes = open_regular(&listed.location.path)
            .and_then(|file| read_file(file, listed.bytes))
            .map_err(|cause| DataError::Read { place: self.place(index), cause })?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            let (place, bytes) = (self.place(index), bytes.len() as u64);
            return Err(DataError::FileTooLarge { place, bytes, limit: MAX_FILE_BYTES });
        }
        if !self.contents.agrees(index, &bytes) {
            return Err(DataError::ChangedFile { place: self.place(index) });
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
        self.catalog.files[index].location.path.display().to_string()
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

    fn known_contents(&self) -> Option<KnownContents> {
        Some(self.contents.clone())
    }
}

/// Reads at most one byte more than the limit, even if the file has grown since it was listed.
pub(super) fn read_file(file: File, expected: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(expected.min(MAX_FILE_BYTES) as usize + 1);
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn same_file(first: &Path, second: &Path) -> DataError {
    DataError::SameFile { first: first.to_owned(), second: second.to_owned() }
}
