//! A folder with one folder of images per class.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::decode::decode_bytes;
use crate::error::{DataError, Place};
use crate::image::Image;
use crate::source::ImageSource;
use crate::source::catalog::{Catalog, Found, is_image};

/// The most bytes an image file may have; none larger is read into memory.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 30;

/// Images on disk, as `folder/class/file` or as a manifest lists them, read and decoded when
/// asked for.
///
/// Classes and files are sorted by name.
/// Hidden folders and files, and files with other endings, are ignored; folders inside a class
/// folder too.
/// The fingerprint covers names and lengths, not contents.
#[derive(Debug)]
pub struct ImageFolder {
    catalog: Catalog<PathBuf>,
}

impl ImageFolder {
    /// Lists the images of a folder.
    ///
    /// # Errors
    /// [`DataError::Open`] if a folder cannot be listed, [`DataError::NoClasses`] if there is
    /// nothing to list, [`DataError::EmptyClass`] for a class without images.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DataError> {
        let path = path.as_ref();
        let mut found = Vec::new();
        for (class, folder) in entries(path, fs::Metadata::is_dir)? {
            let before = found.len();
            for (file, location) in entries(&folder, fs::Metadata::is_file)? {
                if is_image(&file) {
                    let bytes = fs::metadata(&location).map_err(open_error(&location))?.len();
                    found.push(Found { class: class.clone(), file, bytes, location });
                }
            }
            if found.len() == before {
                return Err(DataError::EmptyClass { path: folder });
            }
        }
        if found.is_empty() {
            return Err(DataError::NoClasses { path: path.to_owned() });
        }
        Ok(Self::new(Catalog::new(found)))
    }

    pub(super) const fn new(catalog: Catalog<PathBuf>) -> Self {
        Self { catalog }
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
        let bytes = read_file(&listed.location, listed.bytes)
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
}

/// At most one byte more than the limit, whatever the file has become since it was listed.
pub(super) fn read_file(path: &Path, expected: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(expected.min(MAX_FILE_BYTES) as usize + 1);
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The entries that are not hidden and of the wanted kind, links followed.
fn entries(
    folder: &Path,
    is_wanted: impl Fn(&fs::Metadata) -> bool,
) -> Result<Vec<(String, PathBuf)>, DataError> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(open_error(folder))? {
        let path = entry.map_err(open_error(folder))?.path();
        let Some(name) = path.file_name() else { continue };
        let name = name.to_string_lossy().into_owned();
        if !name.starts_with('.') && is_wanted(&fs::metadata(&path).map_err(open_error(&path))?) {
            entries.push((name, path));
        }
    }
    entries.sort();
    Ok(entries)
}

fn open_error(path: &Path) -> impl FnOnce(io::Error) -> DataError {
    move |cause| DataError::Open { path: path.to_owned(), cause }
}
