//! The records of bytes without quotes, found by searching whole words of bytes.

use std::path::Path;

use crate::table::TableError;
use crate::table::quotes::find_quote;
use crate::table::row_source::RowSource;

/// Whether fields end at delimiters and records at line feeds only: no quotes, and no carriage
/// return that ends a line alone.
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    if find_quote(bytes).is_some() {
        return false;
    }
    // Two searches of whole words for most files, which have no carriage return.
    let ends_alone = |pair: &[u8]| pair[0] == b'\r' && pair[1] != b'\n';
    !bytes.contains(&b'\r') || !(bytes.windows(2).any(ends_alone) || bytes.ends_with(b"\r"))
}

/// The number of records of plain bytes: of lines that are not empty.
pub(super) fn count_plain(text: &[u8]) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < text.len() {
        let end = find(text, at, [b'\n'; 2]);
        count += usize::from(!without_return(&text[at..end]).is_empty());
        at = end + 1;
    }
    count
}

/// Records of plain bytes, which begin with a record.
#[derive(Debug)]
pub(super) struct PlainRecords<'a> {
    path: &'a Path,
    header: &'a [String],
    delimiter: u8,
    text: &'a [u8],
    /// Where the next record begins, and on which line.
    next: usize,
    next_line: u64,
    /// Where the last record begins, on which line, and where each of its fields ends.
    start: usize,
    line: u64,
    ends: Vec<usize>,
}

impl<'a> PlainRecords<'a> {
    /// `path` names the bytes in errors, and lines are counted from 1.
    pub(super) const fn new(
        text: &'a [u8],
        path: &'a Path,
        header: &'a [String],
        delimiter: u8,
    ) -> Self {
        let ends = Vec::new();
        Self { path, header, delimiter, text, next: 0, next_line: 1, start: 0, line: 1, ends }
    }
}

impl RowSource for PlainRecords<'_> {
    fn path(&self) -> &Path {
        self.path
    }

    fn header(&self) -> &[String] {
        self.header
    }

    #[inline]
    fn advance(&mut self) -> Result<bool, TableError> {
        let text = self.text;
        loop {
            if self.next >= text.len() {
                return Ok(false);
            }
            (self.start, self.line) = (self.next, self.next_line);
            self.ends.clear();
            let mut at = self.start;
            loop {
                let end = find(text, at, [self.delimiter, b'\n']);
                self.ends.push(end);
                at = end + 1;
                if text.get(end).is_none_or(|&byte| byte == b'\n') {
                    break;
                }
            }
            (self.next, self.next_line) = (at, self.line + 1);
            let last = self.ends.len() - 1;
            let end = self.start + without_return(&text[self.start..self.ends[last]]).len();
            self.ends[last] = end;
            if end > self.start {
                break;
            }
        }
        match self.ends.len() {
            got if got == self.header.len() => Ok(true),
            got => Err(self.ragged(got)),
        }
    }

    #[inline]
    fn bytes(&self, column: usize) -> &[u8] {
        let start = if column == 0 { self.start } else { self.ends[column - 1] + 1 };
        &self.text[start..self.ends[column]]
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn lines(&self) -> u64 {
        self.next_line - 1
    }
}

/// A line without the carriage return before its line feed.
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The place of the first of two bytes from a place on, or the end of the text.
#[inline]
fn find(text: &[u8], from: usize, bytes: [u8; 2]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    let [first, second] = bytes.map(|byte| ONES * u64::from(byte));
    let mut at = from;
    while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*word);
        // The lowest byte that is zero has its top bit set; no lower byte has.
        let zeros = |word: u64| word.wrapping_sub(ONES) & !word & TOPS;
        let found = zeros(word ^ first) | zeros(word ^ second);
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = text.get(at..).unwrap_or_default();
    at.min(text.len()) + rest.iter().position(|byte| bytes.contains(byte)).unwrap_or(rest.len())
}
