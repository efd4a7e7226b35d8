//! Images in a tar archive, plain or gzipped.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use tar::{Archive, EntryType};

use crate::cache::CacheUse;
use crate::decode::decode_bytes;
use crate::error::{DataError, Place};
use crate::file_state::FileState;
use crate::image::Image;
use crate::known_contents::KnownContents;
use crate::progress::Progress;
use crate::regular_file::open_regular;
use crate::source::cached_tar::cached_tar;
use crate::source::catalog::{Catalog, Found, PassedOver, is_hidden, is_image};
use crate::source::folder::MAX_FILE_BYTES;
use crate::source::inflate::{inflate, is_gzip};
use crate::source::positioned::read_exact_at;
use crate::source::{ImageSource, derived_state};
use crate::trace;

/// A tar archive of images, `…/class/file`, decoded on demand.
///
/// A plain tar is indexed once and read in place; a gzipped one, detected by its first bytes, is
/// decompressed into memory once. The class is the last folder of an entry's path; classes and
/// files are sorted by name. Hidden files and folders, and what macOS adds as `._…` and `__MACOSX`,
/// are ignored; files with other endings are skipped, and listed by
/// [`passed_over`](Self::passed_over). The fingerprint covers names and lengths, not contents, and
/// equals that of an [`ImageFolder`](crate::ImageFolder) with the same files: an image with another
/// content than when it was first read is an error.
#[derive(Debug)]
pub struct TarImages {
    path: PathBuf,
    content: Content,
    catalog: Catalog<Entry>,
    passed_over: PassedOver,
    contents: KnownContents,
    /// The length and the state of the archive.
    stored: String,
}

#[derive(Debug)]
enum Content {
    InPlace(File),
    Inflated(Vec<u8>),
}

#[derive(Debug)]
struct Entry {
    name: String,
    position: u64,
}

impl TarImages {
    /// The largest size to which [`open`](Self::open) decompresses an archive: 4 GiB.
    pub const MEMORY_LIMIT: u64 = 4 << 30;

    /// Opens and indexes an archive within [`MEMORY_LIMIT`](Self::MEMORY_LIMIT).
    ///
    /// While a gzipped archive is inflated, `progress` receives the compressed bytes.
    ///
    /// # Errors
    /// [`DataError::Open`], [`DataError::Inflate`], [`DataError::InflatedTooLarge`],
    /// [`DataError::Archive`] and [`DataError::ArchiveCut`] for an archive that cannot be read;
    /// [`DataError::UnsafePath`], [`DataError::SpecialEntry`], [`DataError::Unclassified`] and
    /// [`DataError::NoClasses`] for entries that are not `class/file`.
    pub fn open(
        path: impl AsRef<Path>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, DataError> {
        Self::open_within(path, Self::MEMORY_LIMIT, progress)
    }

    /// Opens and indexes an archive; a gzipped one may inflate to at most `limit` bytes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_within(
        path: impl AsRef<Path>,
        limit: u64,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, DataError> {
        let path = path.as_ref();
        let open = |cause| DataError::Open { path: path.to_owned(), cause };
        let file = open_regular(path).map_err(open)?;
        if !is_gzip(&file).map_err(open)? {
            return Self::in_place(file, path);
        }
        let bytes = inflate(file, path, limit, progress)?;
        trace::inflated(path, bytes.len());
        let found = index(Cursor::new(bytes.as_slice()), bytes.len() as u64, path)?;
        Self::new(path, Content::Inflated(bytes), found)
    }

    /// Opens and indexes an archive; a gzipped one is inflated into a tar in `folder`, once, and
    /// read there in place.
    ///
    /// The tar is named after a hash of the archive and has a checksum file next to it; if the
    /// checksum does not match, the archive is decompressed again, as [`CacheUse`] reports. A plain
    /// archive is read in place.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`DataError::Write`] if the tar cannot be written.
    pub fn open_cached(
        path: impl AsRef<Path>,
        folder: impl AsRef<Path>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Self, CacheUse), DataError> {
        let path = path.as_ref();
        let (tar, used) = cached_tar(path, folder.as_ref(), progress)?;
        let file = open_regular(&tar).map_err(|cause| DataError::Open { path: tar, cause })?;
        Ok((Self::in_place(file, path)?, used))
    }

    fn in_place(file: File, path: &Path) -> Result<Self, DataError> {
        let open = |cause| DataError::Open { path: path.to_owned(), cause };
        let bytes = file.metadata().map_err(open)?.len();
        let found = index(&file, bytes, path)?;
        Self::new(path, Content::InPlace(file), found)
    }

    fn new(path: &Path, content: Content, (found, passed_over): Index) -> Result<Self, DataError> {
        if found.is_empty() {
            return Err(DataError::NoClasses { path: path.to_owned() });
        }
        let open = |cause| DataError::Open { path: path.to_owned(), cause };
        let metadata = std::fs::metadata(path).map_err(open)?;
        let stored = format!("{} {}", metadata.len(), FileState::of(&metadata));
        let catalog = Catalog::new(found);
        let contents = KnownContents::new(&catalog.fingerprint, catalog.files.len());
        Ok(Self { path: path.to_owned(), content, catalog, passed_over, contents, stored })
    }

    /// The files that were skipped because they are not images, without hidden ones.
    #[must_use]
    pub fn passed_over(&self) -> &PassedOver {
        &self.passed_over
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
        if listed.bytes > MAX_FILE_BYTES {
            let (place, bytes) = (self.place(index), listed.bytes);
            return Err(DataError::FileTooLarge { place, bytes, limit: MAX_FILE_BYTES });
        }
        let length = listed.bytes as usize;
        let bytes = match &self.content {
            Content::Inflated(bytes) => {
                Cow::Borrowed(&bytes[listed.location.position as usize..][..length])
            }
            Content::InPlace(file) => {
                let mut bytes = vec![0; length];
                read_exact_at(file, &mut bytes, listed.location.position)
                    .map_err(|cause| DataError::Read { place: self.place(index), cause })?;
                Cow::Owned(bytes)
            }
        };
        if !self.contents.agrees(index, &bytes) {
            return Err(DataError::ChangedFile { place: self.place(index) });
        }
        decode_bytes(&bytes, kept)
            .map_err(|cause| DataError::Decode { place: self.place(index), cause })
    }
}

impl ImageSource for TarImages {
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
        format!("{}:{}", self.path.display(), self.catalog.files[index].location.name)
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
        derived_state(&self.catalog.fingerprint, &self.stored)
    }

    fn known_contents(&self) -> Option<KnownContents> {
        Some(self.contents.clone())
    }
}

/// The images of a tar, and its other entries.
type Index = (Vec<Found<Entry>>, PassedOver);

/// Lists the images of a tar of `length` bytes and checks that it is complete.
fn index(reader: impl Read + Seek, length: u64, path: &Path) -> Result<Index, DataError> {
    let damaged = |cause| DataError::Archive { path: path.to_owned(), cause };
    let cut = || DataError::ArchiveCut { path: path.to_owned(), bytes: length };
    let mut archive = Archive::new(reader);
    let (mut found, mut passed_over) = (Vec::new(), PassedOver::default());
    let mut end = 0;
    for entry in archive.entries_with_seek().map_err(damaged)? {
        let entry = entry.map_err(damaged)?;
        let name = match str::from_utf8(&entry.path_bytes()) {
            Ok(name) => name.to_owned(),
            Err(_) => {
                let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
                return Err(DataError::NotUtf8 { path: path.join(name) });
            }
        };
        let (position, bytes) = (entry.raw_file_position(), entry.size());
        // An archive ends with a block of zeros; without it the archive was truncated, if only
        // between entries.
        end = position.checked_add(bytes).filter(|&end| end <= length).ok_or_else(cut)?;
        end = end.next_multiple_of(BLOCK);
        if end + BLOCK > length {
            return Err(cut());
        }
        if is_unsafe(&name) {
            return Err(DataError::UnsafePath { path: path.to_owned(), entry: name });
        }
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {}
            EntryType::Directory | EntryType::XGlobalHeader => continue,
            _ => return Err(DataError::SpecialEntry { path: path.to_owned(), entry: name }),
        }
        if name.split('/').any(|part| part != "." && is_hidden(part)) {
            continue;
        }
        let mut parts = name.rsplit('/');
        let file = parts.next().unwrap_or_default();
        if !is_image(file) {
            passed_over.add(name);
            continue;
        }
        match parts.next() {
            Some(class) if !class.is_empty() && class != "." => found.push(Found {
                class: class.to_owned(),
                file: file.to_owned(),
                bytes,
                state: FileState::default(),
                location: Entry { name, position },
            }),
            _ => return Err(DataError::Unclassified { path: path.to_owned(), entry: name }),
        }
    }
    if end == 0 && length < BLOCK {
        return Err(cut());
    }
    Ok((found, passed_over))
}

/// A tar consists of blocks of 512 bytes.
const BLOCK: u64 = 512;

/// Whether a path leaves the folder that it is unpacked into, by the rules of any operating system.
fn is_unsafe(name: &str) -> bool {
    let drive = name.as_bytes().get(1) == Some(&b':');
    let absolute = name.starts_with(['/', '\\']);
    drive || absolute || name.split(['/', '\\']).any(|part| part == "..")
}
