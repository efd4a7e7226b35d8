//! Which pages a TIFF has after its first.

/// Pages that are followed at most, since offsets of a damaged file may form a circle.
const MOST: usize = 1 << 10;

/// The tag `NewSubfileType`, and its bits for a reduced copy and a mask of another page.
const SUBFILE_TYPE: usize = 254;
const REDUCED_OR_MASK: usize = 1 | 4;

/// Whether a TIFF has a second page. `None` if the bytes are not a TIFF.
pub(crate) fn tiff_has_second_page(bytes: &[u8]) -> Option<bool> {
    let directories = Directories::of(bytes)?;
    Some(directories.next(directories.first()?)? != 0)
}

/// Whether a TIFF has a page after its first that is a picture of its own: neither a reduced copy,
/// such as a thumbnail, nor a mask.
pub(crate) fn tiff_has_second_picture(bytes: &[u8]) -> bool {
    let Some(directories) = Directories::of(bytes) else { return false };
    let mut at = directories.first();
    for _ in 0..MOST {
        at = at.and_then(|at| directories.next(at));
        let Some(page) = at.filter(|&page| page != 0) else { return false };
        if directories.subfile_type(page).unwrap_or(0) & REDUCED_OR_MASK == 0 {
            return true;
        }
    }
    true
}

/// The layout of the directories of pages.
///
/// # Source
/// TIFF 6.0, section 2; for 64-bit offsets the `BigTIFF` design of Adobe.
struct Directories<'a> {
    bytes: &'a [u8],
    is_little: bool,
    /// Position of the first offset.
    first: usize,
    /// Bytes of an offset, of the number of entries, and of an entry.
    offset: usize,
    entries: usize,
    entry: usize,
}

impl<'a> Directories<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let is_little = bytes.starts_with(b"II");
        if !is_little && !bytes.starts_with(b"MM") {
            return None;
        }
        let classic = Self { bytes, is_little, first: 4, offset: 4, entries: 2, entry: 12 };
        match classic.number(2, 2)? {
            42 => Some(classic),
            43 => Some(Self { first: 8, offset: 8, entries: 8, entry: 20, ..classic }),
            _ => None,
        }
    }

    fn number(&self, at: usize, length: usize) -> Option<usize> {
        let field = self.bytes.get(at..at.checked_add(length)?)?;
        let add = |sum: u64, &byte: &u8| (sum << 8) | u64::from(byte);
        let number = if self.is_little {
            field.iter().rev().fold(0, add)
        } else {
            field.iter().fold(0, add)
        };
        usize::try_from(number).ok()
    }

    /// The directory of the first page.
    fn first(&self) -> Option<usize> {
        self.number(self.first, self.offset)
    }

    /// The directory of the page after this one; 0 after the last.
    fn next(&self, directory: usize) -> Option<usize> {
        let length = self.number(directory, self.entries)?.checked_mul(self.entry)?;
        let end = directory.checked_add(self.entries)?.checked_add(length)?;
        self.number(end, self.offset)
    }

    /// The value of the tag [`SUBFILE_TYPE`], which is one number of 32 bits.
    fn subfile_type(&self, directory: usize) -> Option<usize> {
        let count = self.number(directory, self.entries)?;
        let begin = directory.checked_add(self.entries)?;
        let mut entries =
            (0..count).map_while(|entry| begin.checked_add(entry.checked_mul(self.entry)?));
        // Entries are sorted by tag.
        let at = entries.find_map(|at| match self.number(at, 2) {
            Some(tag) if tag < SUBFILE_TYPE => None,
            Some(SUBFILE_TYPE) => Some(Some(at)),
            _ => Some(None),
        })??;
        // After the tag, the type in two bytes, and the count.
        self.number(at.checked_add(4 + self.offset)?, 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TIFF of directories with a single entry each, `NewSubfileType` of these values.
    fn tiff(types: &[u32], is_big: bool, is_little: bool) -> Vec<u8> {
        let number = |value: u64, length: usize| {
            let mut bytes = value.to_le_bytes()[..length].to_vec();
            if !is_little {
                bytes.reverse();
            }
            bytes
        };
        let (offset, entries, entry) = if is_big { (8, 8, 20) } else { (4, 2, 12) };
        let head = if is_big { 16 } else { 8 };
        let size = entries + entry + offset;
        let mut bytes = if is_little { b"II".to_vec() } else { b"MM".to_vec() };
        bytes.extend(number(if is_big { 43 } else { 42 }, 2));
        if is_big {
            bytes.extend([number(8, 2), number(0, 2)].concat());
        }
        bytes.extend(number(head as u64, offset));
        for (at, &kind) in types.iter().enumerate() {
            let next = if at + 1 < types.len() { head + (at + 1) * size } else { 0 };
            bytes.extend(number(1, entries));
            bytes.extend([number(254, 2), number(4, 2), number(1, offset)].concat());
            bytes.extend(number(u64::from(kind), 4));
            bytes.resize(bytes.len() + offset - 4, 0);
            bytes.extend(number(next as u64, offset));
        }
        bytes
    }

    #[test]
    fn only_a_page_that_is_no_copy_and_no_mask_is_a_picture() {
        for (types, second_page, second_picture) in [
            (&[0][..], false, false),
            (&[0, 0], true, true),
            (&[0, 1], true, false),
            (&[0, 4], true, false),
            (&[0, 2], true, true),
            (&[0, 1, 1, 0], true, true),
        ] {
            for (is_big, is_little) in [(false, true), (false, false), (true, true), (true, false)]
            {
                let bytes = tiff(types, is_big, is_little);
                assert_eq!(tiff_has_second_page(&bytes), Some(second_page), "{types:?}");
                assert_eq!(tiff_has_second_picture(&bytes), second_picture, "{types:?} {is_big}");
            }
        }
    }

    #[test]
    fn pages_in_a_circle_end_and_what_is_cut_off_has_no_second_picture() {
        let mut circle = tiff(&[0, 1], false, true);
        let end = circle.len();
        circle[end - 4] = 8;
        assert!(tiff_has_second_picture(&circle));
        let copies = tiff(&[1, 1], false, true);
        assert!(!tiff_has_second_picture(&copies[..copies.len() - 1]));
        assert_eq!(tiff_has_second_page(b"PNG"), None);
        assert!(!tiff_has_second_picture(b"II"));
    }
}
