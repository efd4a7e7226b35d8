//! The contents of files as they were first read, a hash of each.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::DataError;
use crate::source::{ImageSource, place};
use crate::xxh64::xxh64;

/// The digits of a hash in a text.
const DIGITS: usize = 16;

/// The hash of a file that was not read yet.
const UNREAD: u64 = 0;

/// The contents of the files of a set as they were first read, in 8 bytes a file; clones share them.
///
/// The hash is XXH64: two contents have the same one by chance once in 1.8·10¹⁹ cases. It does not
/// protect from a file that was made to have the hash of another.
#[derive(Debug, Clone)]
pub struct KnownContents {
    /// That of the set: names and lengths of the files.
    fingerprint: Arc<str>,
    hashes: Arc<[AtomicU64]>,
}

impl KnownContents {
    /// Of a set with this fingerprint and so many files, of which none was read yet.
    #[must_use]
    pub fn new(fingerprint: &str, files: usize) -> Self {
        let hashes = (0..files).map(|_| AtomicU64::new(UNREAD)).collect();
        Self { fingerprint: fingerprint.into(), hashes }
    }

    /// Whether a file has its known content; the content of the first call becomes the known one.
    ///
    /// # Panics
    /// If there is no file of this number.
    #[must_use]
    pub fn agrees(&self, index: usize, bytes: &[u8]) -> bool {
        self.take(index, hash(bytes))
    }

    /// The number of files whose contents are known.
    #[must_use]
    pub fn known(&self) -> usize {
        self.hashes.iter().filter(|hash| hash.load(Ordering::Relaxed) != UNREAD).count()
    }

    /// A text for [`expect_contents`]: the fingerprint of the set, and 16 hexadecimal digits a file,
    /// zeros for one that was not read.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(self.fingerprint.len() + DIGITS * self.hashes.len());
        text.push_str(&self.fingerprint);
        for hash in self.hashes.iter() {
            // Writing into a text cannot fail.
            let _ = write!(text, "{:016x}", hash.load(Ordering::Relaxed));
        }
        text
    }

    /// Whether a hash is that of the file, or the first one.
    fn take(&self, index: usize, hash: u64) -> bool {
        let relaxed = Ordering::Relaxed;
        match self.hashes[index].compare_exchange(UNREAD, hash, relaxed, relaxed) {
            Ok(_) => true,
            Err(known) => known == hash,
        }
    }

    /// The hashes of a text, if it is of this set.
    fn hashes_of(&self, text: &str) -> Option<Vec<u64>> {
        let (digits, rest) =
            text.strip_prefix(&*self.fingerprint)?.as_bytes().as_chunks::<DIGITS>();
        let hash = |digits: &[u8; DIGITS]| {
            // A sign is no digit.
            let digits = str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
            u64::from_str_radix(digits, 16).ok()
        };
        let is_whole = rest.is_empty() && digits.len() == self.hashes.len();
        if is_whole { digits.iter().map(hash).collect() } else { None }
    }
}

/// Compares the contents of a set's files with those of an earlier use, from
/// [`KnownContents::to_text`]: a file that was read then must have the same content, whether it was
/// read here already or is read later.
///
/// Returns whether the text is of this set; nothing is compared for a text of another set, or for a
/// set without [`ImageSource::known_contents`].
///
/// # Errors
/// [`DataError::ChangedFile`] for the first file that was read here with another content.
///
/// # Example
/// ```
/// use updraft_data::{ImageFolder, ImageSource, expect_contents};
///
/// # let root = tempfile::tempdir()?;
/// # let path = root.path().join("a/1.tif");
/// # std::fs::create_dir(root.path().join("a"))?;
/// # image::RgbImage::new(8, 8).save(&path)?;
/// let images = ImageFolder::open(root.path())?;
/// images.read(0)?;
/// let text = images.known_contents().expect("files").to_text();
///
/// // Later, after the file was replaced by a picture of the same length:
/// # image::RgbImage::from_pixel(8, 8, image::Rgb([255; 3])).save(&path)?;
/// let images = ImageFolder::open(root.path())?;
/// assert!(expect_contents(&images, &text)?);
/// let error = images.read(0).expect_err("another content").to_string();
/// assert!(error.contains("1.tif` (sample 0) has another content"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn expect_contents(source: &dyn ImageSource, text: &str) -> Result<bool, DataError> {
    let Some(contents) = source.known_contents() else { return Ok(false) };
    let Some(hashes) = contents.hashes_of(text) else { return Ok(false) };
    let read = hashes.into_iter().enumerate().filter(|(_, hash)| *hash != UNREAD);
    for (index, hash) in read {
        if !contents.take(index, hash) {
            return Err(DataError::ChangedFile { place: place(source, index) });
        }
    }
    Ok(true)
}

/// A hash that is not [`UNREAD`].
fn hash(bytes: &[u8]) -> u64 {
    xxh64(bytes).max(UNREAD + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_content_is_the_known_one_and_a_text_has_all_of_them() {
        let contents = KnownContents::new("set", 3);
        let none = "0".repeat(16);
        assert_eq!((contents.known(), contents.to_text()), (0, format!("set{}", none.repeat(3))));
        assert!(contents.agrees(1, b"a") && contents.clone().agrees(1, b"a"));
        assert!(!contents.agrees(1, b"b") && contents.agrees(1, b"a"));
        assert!(contents.agrees(2, b""));
        let digits = format!("{none}d24ec4f1a98c6e5bef46db3751d8e999");
        assert_eq!((contents.known(), contents.to_text()), (2, format!("set{digits}")));
        let known = [UNREAD, hash(b"a"), hash(b"")];
        assert_eq!(contents.hashes_of(&format!("set{digits}")), Some(known.to_vec()));
        let signed = format!("set+{}", &digits[1..]);
        let others = ["", "set", &digits, &format!("set{none}"), &format!("set{digits}0"), &signed];
        for wrong in others {
            assert_eq!(contents.hashes_of(wrong), None, "{wrong}");
        }
    }
}
