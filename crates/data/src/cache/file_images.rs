//! Decoded images in a file that is checked before it is used.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cache::{CacheUse, WholeFile};
use crate::digest::{Checksum, Digest};
use crate::error::{DataError, Place};
use crate::image::Image;
use crate::progress::{Progress, ProgressUnit};
use crate::source::{Decoding, ImageSource, decoded_fingerprint, read_exact_at};
use crate::trace;

/// Decoded images of one size in a file: for sets whose pixels do not fit memory.
///
/// Reading an image is one read at its position; the operating system keeps in memory what fits.
/// The file is checked whole when it is opened, at the speed of SHA-256.
/// The fingerprint is that of [`InMemoryImages`](crate::InMemoryImages) of the same source, so a
/// run may go on with either.
///
/// # Format
/// Numbers are little-endian.
/// `UPDRAFTC`, version (u32), zero (u32); the pixels, `[images, height, width, 3]`; labels, names,
/// classes and sizes as JSON; the JSON's length (u64); SHA-256 of everything before (32 bytes).
#[derive(Debug)]
pub struct FileImages {
    file: File,
    path: PathBuf,
    index: CacheIndex,
}

/// What a cache file says about its pixels.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheIndex {
    /// What was decoded, and to which size: SHA-256.
    origin: String,
    height: usize,
    width: usize,
    labels: Vec<usize>,
    names: Vec<String>,
    classes: Vec<String>,
    fingerprint: String,
}

const MAGIC: [u8; 8] = *b"UPDRAFTC";
const VERSION: u32 = 1;
/// Magic, version, zero.
const HEADER: u64 = 16;
/// Length of the index, checksum.
const FOOTER: u64 = 40;
const CHECKSUM: u64 = 32;

/// The most bytes of pixels that are decoded between two writes.
const BLOCK_BYTES: usize = 64 << 20;

impl FileImages {
    /// Opens the decoded images of a source at `path`, or decodes them there on `workers`
    /// threads (0 counts as 1).
    ///
    /// Every image is stretched to `size`, height before width; without one, all must have the
    /// size of the first.
    /// A file that is damaged, or was made of another source or for another size, is made anew
    /// and [`CacheUse`] tells why; nothing is read from it.
    /// `progress` hears of decoded images on the calling thread.
    ///
    /// # Errors
    /// The fault of the sample with the lowest index; [`DataError::Empty`],
    /// [`DataError::Setting`] for a size without pixels, [`DataError::Write`] if the file cannot
    /// be written.
    pub fn open(
        source: &dyn ImageSource,
        size: Option<(usize, usize)>,
        path: impl AsRef<Path>,
        workers: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Self, CacheUse), DataError> {
        let path = path.as_ref();
        let origin = origin(source, size);
        let mut used = CacheUse::Built;
        if path.exists() {
            match Self::reopen(path, &origin) {
                Ok(images) => return Ok((images, CacheUse::Reused)),
                Err(reason) => used = CacheUse::Rebuilt { reason },
            }
        }
        trace::cache(path, &used);
        build(source, size, path, &origin, workers, progress)?;
        let images = Self::reopen(path, &origin).map_err(|reason| DataError::Write {
            path: path.to_owned(),
            cause: std::io::Error::other(reason),
        })?;
        Ok((images, used))
    }

    /// Height and width of every image.
    #[must_use]
    pub const fn size(&self) -> (usize, usize) {
        (self.index.height, self.index.width)
    }

    /// Opens a file that is whole and of this origin, or says why not.
    fn reopen(path: &Path, origin: &str) -> Result<Self, String> {
        let told = |text: &str| format!("`{}` {text}", path.display());
        let mut file = File::open(path).map_err(|_| told("cannot be opened"))?;
        let index = read_index(&mut file).map_err(|text| told(&text))?;
        if index.origin != origin {
            return Err(told("was made of another source or for another size"));
        }
        Ok(Self { file, path: path.to_owned(), index })
    }
}

/// Reads and checks everything but what the pixels show; allocates no more than the file is long.
fn read_index(file: &mut (impl Read + Seek)) -> Result<CacheIndex, String> {
    let failed = |_| "cannot be read".to_owned();
    let length = file.seek(SeekFrom::End(0)).map_err(failed)?;
    if length < HEADER + FOOTER {
        return Err("is cut short".to_owned());
    }
    file.rewind().map_err(failed)?;
    let mut header = [0; HEADER as usize];
    file.read_exact(&mut header).map_err(failed)?;
    if header[..8] != MAGIC || header[12..] != [0; 4] {
        return Err("is no cache of images".to_owned());
    }
    let (versions, _) = header[8..12].as_chunks::<4>();
    if u32::from_le_bytes(versions[0]) != VERSION {
        return Err(format!("is of version {}, not {VERSION}", u32::from_le_bytes(versions[0])));
    }
    file.seek(SeekFrom::Start(length - FOOTER)).map_err(failed)?;
    let mut footer = [0; FOOTER as usize];
    file.read_exact(&mut footer).map_err(failed)?;
    let (lengths, _) = footer[..8].as_chunks::<8>();
    let index_bytes = u64::from_le_bytes(lengths[0]);
    let pixels = (length - HEADER - FOOTER)
        .checked_sub(index_bytes)
        .ok_or("claims more labels than it has bytes")?;
    file.rewind().map_err(failed)?;
    let checked = BufReader::with_capacity(1 << 18, file.take(length - CHECKSUM));
    let (checksum, _) = Checksum::of(checked).map_err(failed)?;
    if checksum.raw() != footer[8..] {
        return Err("does not fit its checksum".to_owned());
    }
    file.seek(SeekFrom::Start(HEADER + pixels)).map_err(failed)?;
    let mut text = vec![0; index_bytes as usize];
    file.read_exact(&mut text).map_err(failed)?;
    let index: CacheIndex =
        serde_json::from_slice(&text).map_err(|_| "has labels that cannot be read")?;
    let image = Image::CHANNELS as u128 * index.height as u128 * index.width as u128;
    let is_consistent = image > 0
        && image.checked_mul(index.labels.len() as u128) == Some(u128::from(pixels))
        && !index.labels.is_empty()
        && index.names.len() == index.labels.len()
        && index.labels.iter().all(|&label| label < index.classes.len());
    if is_consistent { Ok(index) } else { Err("contradicts itself".to_owned()) }
}

fn origin(source: &dyn ImageSource, size: Option<(usize, usize)>) -> String {
    let digest = Digest::new("updraft cache of images").text(&source.fingerprint());
    let (height, width) = size.unwrap_or((0, 0));
    digest.number(height).number(width).hex()
}

fn build(
    source: &dyn ImageSource,
    size: Option<(usize, usize)>,
    path: &Path,
    origin: &str,
    workers: usize,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), DataError> {
    let decoding = Decoding::try_new(source, size)?;
    let (samples, bytes) = (source.len(), decoding.image_bytes());
    let mut file = WholeFile::create(path)?;
    let mut checksum = Checksum::default();
    let mut write = |bytes: &[u8]| {
        checksum.update(bytes);
        file.write(bytes)
    };
    write(&MAGIC)?;
    write(&VERSION.to_le_bytes())?;
    write(&[0; 4])?;
    let block = (BLOCK_BYTES / bytes).clamp(1, samples);
    let mut pixels = vec![0; block * bytes];
    let (mut digests, mut done) = (Vec::with_capacity(samples), 0);
    for first in (0..samples).step_by(block) {
        let range = first..(first + block).min(samples);
        let pixels = &mut pixels[..range.len() * bytes];
        digests.extend(decoding.run(range, pixels, workers, &mut |more| {
            done += more as u64;
            progress(Progress { done, total: samples as u64, unit: ProgressUnit::Images });
        })?);
        write(pixels)?;
    }
    let (height, width) = decoding.size();
    let labels: Vec<usize> = (0..samples).map(|index| source.label(index)).collect();
    let fingerprint =
        decoded_fingerprint((height, width), source.classes(), labels.iter().zip(digests));
    let index = CacheIndex {
        origin: origin.to_owned(),
        height,
        width,
        labels,
        names: (0..samples).map(|index| source.name(index)).collect(),
        classes: source.classes().to_vec(),
        fingerprint,
    };
    let index = serde_json::to_vec(&index).expect("numbers and strings are always JSON");
    write(&index)?;
    write(&(index.len() as u64).to_le_bytes())?;
    file.write(&checksum.raw())?;
    file.finish()
}

impl ImageSource for FileImages {
    fn len(&self) -> usize {
        self.index.labels.len()
    }

    fn classes(&self) -> &[String] {
        &self.index.classes
    }

    fn label(&self, index: usize) -> usize {
        self.index.labels[index]
    }

    fn name(&self, index: usize) -> String {
        self.index.names[index].clone()
    }

    fn read(&self, index: usize) -> Result<Image<'_>, DataError> {
        let (height, width) = self.size();
        let mut pixels = vec![0; Image::CHANNELS * height * width];
        let position = HEADER + index as u64 * pixels.len() as u64;
        read_exact_at(&self.file, &mut pixels, position).map_err(|cause| {
            let name = format!("{} in `{}`", self.index.names[index], self.path.display());
            DataError::Read { place: Place { name, index: Some(index) }, cause }
        })?;
        Image::try_new(height, width, pixels)
    }

    fn fingerprint(&self) -> String {
        self.index.fingerprint.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::random::{Purpose, Random};

    /// A file by hand, with a right checksum around whatever is inside.
    fn sealed(version: u32, pixels: &[u8], index: &str, claimed: u64) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &version.to_le_bytes(), &[0; 4], pixels].concat();
        bytes.extend(index.as_bytes());
        bytes.extend(claimed.to_le_bytes());
        let (checksum, _) = Checksum::of(&bytes[..]).unwrap();
        bytes.extend(checksum.raw());
        bytes
    }

    fn index(labels: &str, height: usize) -> String {
        format!(
            r#"{{"origin":"o","height":{height},"width":1,"labels":{labels},"names":["a","b"],"#
        ) + r#""classes":["x"],"fingerprint":"f"}"#
    }

    fn told(bytes: &[u8]) -> String {
        read_index(&mut Cursor::new(bytes)).map(|_| "whole".to_owned()).unwrap_or_else(|text| text)
    }

    #[test]
    fn what_a_file_claims_is_compared_with_what_it_is() {
        let good = index("[0,0]", 1);
        let length = good.len() as u64;
        assert_eq!(told(&sealed(1, &[0; 6], &good, length)), "whole");
        assert_eq!(told(&sealed(2, &[0; 6], &good, length)), "is of version 2, not 1");
        assert_eq!(told(&sealed(1, &[0; 5], &good, length)), "contradicts itself");
        assert_eq!(
            told(&sealed(1, &[0; 6], &good, u64::MAX)),
            "claims more labels than it has bytes"
        );
        assert_eq!(told(&sealed(1, &[0; 6], &good, length - 1)), "has labels that cannot be read");
        for (labels, height) in [("[0,1]", 1), ("[0]", 1), ("[]", 1), ("[0,0]", usize::MAX)] {
            let index = index(labels, height);
            let bytes = sealed(1, &[0; 6], &index, index.len() as u64);
            assert_eq!(told(&bytes), "contradicts itself", "{labels} {height}");
        }
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_found() {
        let good = index("[0,0]", 1);
        let whole = sealed(1, &[1, 2, 3, 4, 5, 6], &good, good.len() as u64);
        for cut in 0..whole.len() {
            assert_ne!(told(&whole[..cut]), "whole", "{cut}");
        }
        let mut random = Random::new(Purpose::Split, 1, 0, 0);
        for _ in 0..500 {
            let mut flipped = whole.clone();
            flipped[random.below(whole.len() as u64) as usize] ^= 1 << random.below(8);
            assert_ne!(told(&flipped), "whole");
        }
    }
}
