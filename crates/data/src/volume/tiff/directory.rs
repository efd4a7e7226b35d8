//! Writing the header and the directories of a TIFF.

use std::io::{self, Write};

use crate::pixels::PixelType;

/// 32-bit or 64-bit offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offsets {
    Classic,
    Big,
}

/// The content of a page's directory.
pub(super) struct PageEntry<'a> {
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) pixel_type: PixelType,
    pub(super) is_deflated: bool,
    pub(super) rows_per_strip: usize,
    /// Offset and size of each strip.
    pub(super) strips: &'a [(u64, u64)],
    pub(super) description: Option<&'a str>,
    pub(super) software: Option<&'a str>,
}

const SHORT: u16 = 3;
const LONG: u16 = 4;
const LONG8: u16 = 16;
const ASCII: u16 = 2;

impl Offsets {
    /// The header, little-endian, with the offset of the first directory.
    ///
    /// # Source
    /// TIFF 6.0, section 2; for 64-bit offsets the `BigTIFF` design of Adobe.
    pub(super) fn header(self, directory: u64) -> Vec<u8> {
        match self {
            Self::Classic => {
                let directory = u32::try_from(directory).unwrap_or(0);
                [&b"II\x2a\0"[..], &directory.to_le_bytes()].concat()
            }
            Self::Big => [&b"II\x2b\0\x08\0\0\0"[..], &directory.to_le_bytes()].concat(),
        }
    }

    /// Bytes of an offset.
    const fn width(self) -> usize {
        match self {
            Self::Classic => 4,
            Self::Big => 8,
        }
    }

    fn number(self, number: u64, to: &mut Vec<u8>) {
        to.extend_from_slice(&number.to_le_bytes()[..self.width()]);
    }

    /// Writes a directory and its values from byte `start`; the next directory follows unless this
    /// is the last one. Returns the offset and the end of the directory.
    pub(super) fn write_directory(
        self,
        page: &PageEntry<'_>,
        start: u64,
        is_last: bool,
        to: &mut impl Write,
    ) -> io::Result<(u64, u64)> {
        let offset_type = if self == Self::Big { LONG8 } else { LONG };
        let offset = |number: u64| number.to_le_bytes()[..self.width()].to_vec();
        let short = |number: u16| number.to_le_bytes().to_vec();
        let long = |number: usize| (number as u32).to_le_bytes().to_vec();
        let list = |part: fn(&(u64, u64)) -> u64| {
            page.strips.iter().flat_map(|strip| offset(part(strip))).collect::<Vec<u8>>()
        };
        let format = if page.pixel_type == PixelType::F32 { 3 } else { 1 };
        let strips = page.strips.len() as u64;
        let mut entries = vec![
            (256, LONG, 1, long(page.width)),
            (257, LONG, 1, long(page.height)),
            (258, SHORT, 1, short(8 * page.pixel_type.bytes() as u16)),
            (259, SHORT, 1, short(if page.is_deflated { 8 } else { 1 })),
            (262, SHORT, 1, short(1)),
        ];
        let text = |tag: u16, text: &str| {
            let text = [text.as_bytes(), b"\0"].concat();
            (tag, ASCII, text.len() as u64, text)
        };
        entries.extend(page.description.map(|description| text(270, description)));
        entries.extend([
            (273, offset_type, strips, list(|strip| strip.0)),
            (277, SHORT, 1, short(1)),
            (278, LONG, 1, long(page.rows_per_strip)),
            (279, offset_type, strips, list(|strip| strip.1)),
        ]);
        entries.extend(page.software.map(|software| text(305, software)));
        entries.push((339, SHORT, 1, short(format)));
        // Directories begin at an even byte; values that do not fit into their entry follow the
        // directory.
        let padding = (start % 2) as usize;
        let place = start + padding as u64;
        let (count_bytes, entry_bytes) = if self == Self::Big { (8, 20) } else { (2, 12) };
        let bytes = count_bytes + entry_bytes * entries.len() + self.width();
        let (mut directory, mut outside) = (vec![0; padding], Vec::new());
        directory.extend_from_slice(&(entries.len() as u64).to_le_bytes()[..count_bytes]);
        for (tag, kind, count, mut value) in entries {
            directory.extend_from_slice(&u16::to_le_bytes(tag));
            directory.extend_from_slice(&kind.to_le_bytes());
            self.number(count, &mut directory);
            if value.len() <= self.width() {
                value.resize(self.width(), 0);
                directory.extend_from_slice(&value);
            } else {
                self.number(place + (bytes + outside.len()) as u64, &mut directory);
                outside.extend_from_slice(&value);
                outside.resize(outside.len().next_multiple_of(2), 0);
            }
        }
        let end = place + (bytes + outside.len()) as u64;
        self.number(if is_last { 0 } else { end }, &mut directory);
        to.write_all(&directory)?;
        to.write_all(&outside)?;
        Ok((place, end))
    }
}
