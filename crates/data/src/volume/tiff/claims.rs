//! The first directory of a TIFF: the decoder reads its tags before limits can be set.

use std::io::{self, Read, Seek};

use super::first_directory::FirstDirectory;
use super::page::PageFault;

/// Refuses a tag of the first directory that claims more bytes than the file has.
///
/// Whatever else is wrong with the file is left to the decoder.
pub(super) fn check_first(
    reader: &mut (impl Read + Seek),
    file_bytes: u64,
) -> Result<(), PageFault> {
    let found = largest(reader);
    reader.rewind()?;
    match found {
        Ok(bytes) if bytes > file_bytes => {
            let expected = format!("at most the {file_bytes} bytes of the file");
            Err(PageFault::Tag("the values of a tag", format!("{bytes} bytes"), expected))
        }
        _ => Ok(()),
    }
}

/// The most bytes that the values of a tag of the first directory claim.
fn largest(reader: &mut (impl Read + Seek)) -> io::Result<u64> {
    let mut directory = FirstDirectory::open(reader)?;
    let mut most = 0;
    // After the last whole entry, the decoder reports what is missing.
    while let Ok(Some(entry)) = directory.next_entry() {
        most = most.max(entry.count.saturating_mul(size_of(entry.kind)));
    }
    Ok(most)
}

/// Bytes of a value of a type: those of TIFF 6.0, and the three of `BigTIFF`.
const fn size_of(kind: u64) -> u64 {
    match kind {
        3 | 8 => 2,
        4 | 9 | 11 | 13 => 4,
        5 | 10 | 12 | 16 | 17 | 18 => 8,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A header and a directory with one tag of LONGs.
    fn file(is_big: bool, is_most_significant_first: bool, count: u32) -> Vec<u8> {
        let of = |bytes: usize, value: u32| {
            let value = u64::from(value).to_le_bytes();
            let mut value = value[..bytes].to_vec();
            if is_most_significant_first {
                value.reverse();
            }
            value
        };
        let order = if is_most_significant_first { b"MM" } else { b"II" }.to_vec();
        let rest = match is_big {
            true => [of(2, 43), of(2, 8), of(2, 0), of(8, 16), of(8, 1)].concat(),
            false => [of(2, 42), of(4, 8), of(2, 1)].concat(),
        };
        let wide = if is_big { 8 } else { 4 };
        [order, rest, of(2, 279), of(2, 4), of(wide, count), of(wide, 0)].concat()
    }

    #[test]
    fn a_tag_that_claims_more_than_the_file_is_refused_before_it_is_read() {
        for (is_big, is_most_significant_first) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let check = |count| {
                let bytes = file(is_big, is_most_significant_first, count);
                let length = bytes.len() as u64;
                check_first(&mut Cursor::new(bytes), length)
            };
            assert!(check(1).is_ok() && check(5).is_ok());
            let Err(PageFault::Tag(what, got, _)) = check(2_771_273) else { panic!("not refused") };
            assert_eq!((what, got.as_str()), ("the values of a tag", "11085092 bytes"));
        }
        assert!(check_first(&mut Cursor::new(b"II*"), 3).is_ok(), "it is the decoder's to refuse");
    }
}
