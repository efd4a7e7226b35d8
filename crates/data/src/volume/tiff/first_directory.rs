//! The entries of the first directory of a TIFF, as they are in the file.

use std::io::{self, Read, Seek, SeekFrom};

/// An entry; they are read one after the other.
pub(super) struct Entry {
    pub(super) tag: u64,
    pub(super) kind: u64,
    /// How many values it claims.
    pub(super) count: u64,
    /// The values if they fit, otherwise their offset.
    value: [u8; 8],
}

/// The entries that are left.
pub(super) struct FirstDirectory<'a, R> {
    reader: &'a mut R,
    is_most_significant_first: bool,
    /// Bytes of a count and of an offset.
    wide: usize,
    left: u64,
}

impl<'a, R: Read + Seek> FirstDirectory<'a, R> {
    /// Reads the header from the start of a file.
    ///
    /// # Source
    /// TIFF 6.0, section 2; for 64-bit offsets the `BigTIFF` design of Adobe.
    pub(super) fn open(reader: &'a mut R) -> io::Result<Self> {
        let mut order = [0; 2];
        reader.read_exact(&mut order)?;
        let is_most_significant_first = &order == b"MM";
        let mut directory = Self { reader, is_most_significant_first, wide: 4, left: 0 };
        // BigTIFF names the size of its offsets first; counts and offsets have eight bytes.
        let is_big = directory.number(2)? == 43;
        let entries = if is_big { 8 } else { 2 };
        if is_big {
            directory.number(4)?;
            directory.wide = 8;
        }
        let offset = directory.number(directory.wide)?;
        directory.reader.seek(SeekFrom::Start(offset))?;
        directory.left = directory.number(entries)?;
        Ok(directory)
    }

    /// The next entry; `None` after the last one.
    pub(super) fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let (tag, kind, count) = (self.number(2)?, self.number(2)?, self.number(self.wide)?);
        let mut value = [0; 8];
        self.reader.read_exact(&mut value[..self.wide])?;
        Ok(Some(Entry { tag, kind, count, value }))
    }

    /// The first bytes of an entry of bytes, at most `most`; the entries after it cannot be read then.
    pub(super) fn bytes(self, entry: &Entry, most: u64) -> io::Result<Vec<u8>> {
        let length = entry.count.min(most);
        if entry.count <= self.wide as u64 {
            return Ok(entry.value[..length as usize].to_vec());
        }
        let offset = value_of(&entry.value[..self.wide], self.is_most_significant_first);
        self.reader.seek(SeekFrom::Start(offset))?;
        let mut bytes = vec![0; length as usize];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn number(&mut self, bytes: usize) -> io::Result<u64> {
        let mut buffer = [0; 8];
        self.reader.read_exact(&mut buffer[..bytes])?;
        Ok(value_of(&buffer[..bytes], self.is_most_significant_first))
    }
}

fn value_of(bytes: &[u8], is_most_significant_first: bool) -> u64 {
    let add = |sum: u64, &byte: &u8| (sum << 8) | u64::from(byte);
    match is_most_significant_first {
        true => bytes.iter().fold(0, add),
        false => bytes.iter().rev().fold(0, add),
    }
}
