//! A cache file: bytes, an index of them, and a checksum over both.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cache::{AtomicFile, CacheUse};
use crate::digest::Checksum;
use crate::error::DataError;
use crate::regular_file::open_regular;
use crate::trace;

/// A kind of cache file.
///
/// # Format
/// Numbers are little-endian.
/// The magic, version (u32), zero (u32); the body; the index as JSON; the JSON's length (u64);
/// SHA-256 of everything before (32 bytes).
pub(crate) struct CacheFormat {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
    /// What the file holds, such as `images`.
    pub(crate) holds: &'static str,
}

/// The index of a cache file.
pub(crate) trait CacheIndex: Serialize + DeserializeOwned {
    /// SHA-256 of what was cached, and how.
    fn origin(&self) -> &str;

    /// The state of the files that were cached.
    fn state(&self) -> &str;

    /// Whether the index matches a body of this many bytes.
    fn fits(&self, body_bytes: u64) -> bool;
}

/// The start of the body: after magic, version and zero.
pub(crate) const BODY: u64 = 16;
/// Length of the index, checksum.
const FOOTER: u64 = 40;
const CHECKSUM: u64 = 32;

impl CacheFormat {
    /// Opens the file of an origin and a state; `build` creates it first if it is missing, damaged
    /// or of another one.
    pub(crate) fn open_or_build<I: CacheIndex>(
        &self,
        path: &Path,
        (origin, state): (&str, &str),
        build: impl FnOnce(&mut CacheWriter) -> Result<I, DataError>,
    ) -> Result<(File, I, CacheUse), DataError> {
        let mut used = CacheUse::Built;
        if path.exists() {
            match self.reopen(path, (origin, state)) {
                Ok((file, index)) => return Ok((file, index, CacheUse::Reused)),
                Err(reason) => used = CacheUse::Rebuilt { reason },
            }
        }
        trace::cache(path, &used);
        let mut writer = CacheWriter::create(path, self)?;
        let index = build(&mut writer)?;
        let mut file = writer.finish(&index)?;
        let index = self.read_index(&mut file).map_err(|text| {
            let reason = format!("`{}` {text}", path.display());
            DataError::Write { path: path.to_owned(), cause: std::io::Error::other(reason) }
        })?;
        Ok((file, index, used))
    }

    /// Opens an intact file of this origin and state, or returns the reason why it cannot be used.
    fn reopen<I: CacheIndex>(
        &self,
        path: &Path,
        (origin, state): (&str, &str),
    ) -> Result<(File, I), String> {
        let reason = |text: &str| format!("`{}` {text}", path.display());
        let mut file = open_regular(path).map_err(|_| reason("cannot be opened"))?;
        let index: I = self.read_index(&mut file).map_err(|text| reason(&text))?;
        if index.origin() != origin {
            return Err(reason("was made of another source or for another size"));
        }
        if index.state() != state {
            return Err(reason("was made before a file of its source was changed"));
        }
        Ok((file, index))
    }

    /// Checks a file and reads its index; allocates no more than the length of the file.
    pub(crate) fn read_index<I: CacheIndex>(
        &self,
        file: &mut (impl Read + Seek),
    ) -> Result<I, String> {
        let failed = |_| "cannot be read".to_owned();
        let length = file.seek(SeekFrom::End(0)).map_err(failed)?;
        if length < BODY + FOOTER {
            return Err("is truncated".to_owned());
        }
        file.rewind().map_err(failed)?;
        let mut header = [0; BODY as usize];
        file.read_exact(&mut header).map_err(failed)?;
        if header[..8] != self.magic || header[12..] != [0; 4] {
            return Err(format!("is no cache of {}", self.holds));
        }
        let (versions, _) = header[8..12].as_chunks::<4>();
        let version = u32::from_le_bytes(versions[0]);
        if version != self.version {
            return Err(format!("is of version {version}, not {}", self.version));
        }
        file.seek(SeekFrom::Start(length - FOOTER)).map_err(failed)?;
        let mut footer = [0; FOOTER as usize];
        file.read_exact(&mut footer).map_err(failed)?;
        let (lengths, _) = footer[..8].as_chunks::<8>();
        let index_bytes = u64::from_le_bytes(lengths[0]);
        let body = (length - BODY - FOOTER)
            .checked_sub(index_bytes)
            .ok_or("claims an index that is longer than the file")?;
        file.rewind().map_err(failed)?;
        let checked = BufReader::with_capacity(1 << 18, file.take(length - CHECKSUM));
        let (checksum, _) = Checksum::of(checked).map_err(failed)?;
        if checksum.raw() != footer[8..] {
            return Err("does not fit its checksum".to_owned());
        }
        file.seek(SeekFrom::Start(BODY + body)).map_err(failed)?;
        let mut text = vec![0; index_bytes as usize];
        file.read_exact(&mut text).map_err(failed)?;
        let index: I =
            serde_json::from_slice(&text).map_err(|_| "has an index that cannot be read")?;
        if index.fits(body) { Ok(index) } else { Err("contradicts itself".to_owned()) }
    }
}

/// A cache file that is being written; it is renamed into place when it is finished.
pub(crate) struct CacheWriter {
    file: AtomicFile,
    checksum: Checksum,
}

impl CacheWriter {
    fn create(path: &Path, format: &CacheFormat) -> Result<Self, DataError> {
        let mut writer = Self { file: AtomicFile::create(path)?, checksum: Checksum::default() };
        writer.write(&format.magic)?;
        writer.write(&format.version.to_le_bytes())?;
        writer.write(&[0; 4])?;
        Ok(writer)
    }

    /// Appends to the body.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.checksum.update(bytes);
        self.file.write(bytes)
    }

    /// Returns the finished file, open for reading: at its path there may be that of another process.
    fn finish(mut self, index: &impl Serialize) -> Result<File, DataError> {
        let index = serde_json::to_vec(index).expect("numbers and strings are always JSON");
        self.write(&index)?;
        self.write(&(index.len() as u64).to_le_bytes())?;
        self.file.write(&self.checksum.raw())?;
        self.file.finish_and_open()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use serde::Deserialize;

    use super::*;
    use crate::random::{Purpose, Random};

    const FORMAT: CacheFormat = CacheFormat { magic: *b"UPDRAFT?", version: 1, holds: "tests" };

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Length {
        bytes: u64,
    }

    impl CacheIndex for Length {
        fn origin(&self) -> &str {
            "here"
        }

        fn state(&self) -> &str {
            "now"
        }

        fn fits(&self, body_bytes: u64) -> bool {
            self.bytes == body_bytes
        }
    }

    /// A file by hand, with a right checksum around whatever is inside.
    fn cache_file(version: u32, body: &[u8], index: &str, claimed: u64) -> Vec<u8> {
        let mut bytes = [&FORMAT.magic[..], &version.to_le_bytes(), &[0; 4], body].concat();
        bytes.extend(index.as_bytes());
        bytes.extend(claimed.to_le_bytes());
        let (checksum, _) = Checksum::of(&bytes[..]).unwrap();
        bytes.extend(checksum.raw());
        bytes
    }

    fn reason(bytes: &[u8]) -> String {
        let index = FORMAT.read_index::<Length>(&mut Cursor::new(bytes));
        index.map(|_| "whole".to_owned()).unwrap_or_else(|text| text)
    }

    #[test]
    fn what_a_file_claims_is_compared_with_what_it_is() {
        let good = r#"{"bytes":6}"#;
        let length = good.len() as u64;
        assert_eq!(reason(&cache_file(1, &[0; 6], good, length)), "whole");
        assert_eq!(reason(&cache_file(2, &[0; 6], good, length)), "is of version 2, not 1");
        assert_eq!(reason(&cache_file(1, &[0; 5], good, length)), "contradicts itself");
        let longer = "claims an index that is longer than the file";
        assert_eq!(reason(&cache_file(1, &[0; 6], good, u64::MAX)), longer);
        let unread = "has an index that cannot be read";
        assert_eq!(reason(&cache_file(1, &[0; 6], good, length - 1)), unread);
    }

    #[test]
    fn a_file_that_another_process_replaced_is_read_as_it_was_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.cache");
        let mut writer = CacheWriter::create(&path, &FORMAT).unwrap();
        writer.write(&[0; 6]).unwrap();
        let mut made = writer.finish(&Length { bytes: 6 }).unwrap();
        let other = dir.path().join("b.cache");
        std::fs::write(&other, "of another machine").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(FORMAT.read_index::<Length>(&mut made).unwrap().bytes, 6);
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_found() {
        let good = r#"{"bytes":6}"#;
        let whole = cache_file(1, &[1, 2, 3, 4, 5, 6], good, good.len() as u64);
        for cut in 0..whole.len() {
            assert_ne!(reason(&whole[..cut]), "whole", "{cut}");
        }
        let mut random = Random::new(Purpose::Split, 1, 0, 0);
        for _ in 0..500 {
            let mut flipped = whole.clone();
            flipped[random.below(whole.len() as u64) as usize] ^= 1 << random.below(8);
            assert_ne!(reason(&flipped), "whole");
        }
    }
}
