//! The files of CIFAR-10 or CIFAR-100 in its binary form: a folder, or the published archive.

use std::collections::HashMap;
use std::fs;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use tar::Archive;

use crate::error::{DataError, FormatError};
use crate::progress::Progress;
use crate::regular_file::open_regular;
use crate::source::InMemoryImages;
use crate::source::cifar::{CifarLabels, CifarPart, CifarRecords, SIDE};
use crate::source::inflate::{inflate, is_gzip, read_whole};

/// The most bytes of a file or an archive that are read; the largest of the published archives
/// inflates to 185 MB.
const LIMIT: u64 = 1 << 30;

/// CIFAR-10 or CIFAR-100 as published: the folder that its binary version unpacks to, or that
/// version's archive, `.tar` or `.tar.gz`, read once into memory.
///
/// The files of images and the names of the classes are found by their names, anywhere in an
/// archive: `data_batch_1.bin` to `data_batch_5.bin`, `test_batch.bin` and `batches.meta.txt` for
/// CIFAR-10; `train.bin`, `test.bin`, `fine_label_names.txt` and `coarse_label_names.txt` for
/// CIFAR-100.
///
/// # Source
/// A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009, and its page.
#[derive(Debug)]
pub struct CifarFiles {
    path: PathBuf,
    /// The files of an archive by name; `None` for a folder.
    archived: Option<HashMap<String, Vec<u8>>>,
}

impl CifarFiles {
    /// Opens a folder or an archive; while an archive is inflated, `progress` receives the compressed
    /// bytes.
    ///
    /// # Errors
    /// [`DataError::Open`], [`DataError::FileLimit`], [`DataError::Inflate`],
    /// [`DataError::InflatedTooLarge`], [`DataError::Archive`] and [`DataError::ArchiveCut`] for
    /// what cannot be read.
    pub fn open(
        path: impl AsRef<Path>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, DataError> {
        let path = path.as_ref();
        let open = |cause| DataError::Open { path: path.to_owned(), cause };
        let mut archived = None;
        if !fs::metadata(path).map_err(open)?.is_dir() {
            let file = open_regular(path).map_err(open)?;
            let tar = match is_gzip(&file).map_err(open)? {
                true => inflate(file, path, LIMIT, progress)?,
                false => read_whole(path, LIMIT)?,
            };
            archived = Some(unpack(&tar, path)?);
        }
        Ok(Self { path: path.to_owned(), archived })
    }

    /// The images of a part.
    ///
    /// # Errors
    /// [`DataError::Open`] naming a file that is missing, [`DataError::Format`] for one that is not
    /// a CIFAR file.
    pub fn images(
        &self,
        labels: CifarLabels,
        part: CifarPart,
    ) -> Result<InMemoryImages, DataError> {
        let classes = self.class_names(labels)?;
        let mut records = CifarRecords::default();
        let mut names = Vec::new();
        for file in labels.files(part) {
            let path = self.path.join(file);
            let before = records.labels.len();
            self.with(file, |bytes| records.extend(bytes, labels))?
                .map_err(|cause| DataError::Format { path: path.clone(), cause })?;
            let read = records.labels.len() - before;
            names.extend((0..read).map(|record| format!("{}:{record}", path.display())));
        }
        let size = (SIDE, SIDE);
        InMemoryImages::try_from_pixels(size, records.pixels, records.labels, names, classes)
    }

    /// Returns the bytes of a file.
    fn with<T>(&self, name: &str, take: impl FnOnce(&[u8]) -> T) -> Result<T, DataError> {
        let path = self.path.join(name);
        match &self.archived {
            None => Ok(take(&read_whole(&path, LIMIT)?)),
            Some(files) => files.get(name).map(|bytes| take(bytes)).ok_or_else(|| {
                let cause = std::io::Error::from(std::io::ErrorKind::NotFound);
                DataError::Open { path, cause }
            }),
        }
    }

    /// The names of the classes, one a line; empty lines at the end do not count.
    fn class_names(&self, labels: CifarLabels) -> Result<Vec<String>, DataError> {
        let (file, expected) = (labels.names_file(), labels.classes());
        let names: Vec<String> = self.with(file, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let names = text.lines().map(str::trim).filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        })?;
        if names.len() == expected {
            return Ok(names);
        }
        let cause = FormatError::ClassNames { expected, got: names.len() };
        Err(DataError::Format { path: self.path.join(file), cause })
    }
}

/// The plain files of a tar in memory, by the last part of their names; hidden ones and anything
/// but plain files are skipped.
fn unpack(tar: &[u8], path: &Path) -> Result<HashMap<String, Vec<u8>>, DataError> {
    let damaged = |cause| DataError::Archive { path: path.to_owned(), cause };
    let mut files = HashMap::new();
    for entry in Archive::new(Cursor::new(tar)).entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = name.rsplit('/').next().unwrap_or_default();
        if !entry.header().entry_type().is_file() || name.starts_with('.') {
            continue;
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(damaged)?;
        if (bytes.len() as u64) < entry.size() {
            let bytes = tar.len() as u64;
            return Err(DataError::ArchiveCut { path: path.to_owned(), bytes });
        }
        files.insert(name.to_owned(), bytes);
    }
    Ok(files)
}

/// Reads a part of CIFAR-10 or CIFAR-100 from the folder or the archive of its binary version, as
/// [`CifarFiles`] does.
///
/// # Errors
/// As [`CifarFiles::open`] and [`CifarFiles::images`].
pub fn read_cifar(
    path: impl AsRef<Path>,
    labels: CifarLabels,
    part: CifarPart,
) -> Result<InMemoryImages, DataError> {
    CifarFiles::open(path, &mut |_| {})?.images(labels, part)
}
