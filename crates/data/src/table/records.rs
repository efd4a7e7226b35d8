//! The records of a CSV or TSV file, one after the other.

use std::collections::HashMap;
use std::io::{self, Chain, Cursor, Read};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};
use serde::{Deserialize, Serialize};

use crate::table::TableError;
use crate::table::open::{GzipFault, open};
use crate::table::quotes::Quotes;
use crate::table::row_source::RowSource;
use crate::text_encoding::TextEncoding;

/// The delimiter of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delimiter {
    /// `,`, with quotes as in RFC 4180.
    #[default]
    #[serde(alias = ",")]
    Comma,
    /// `;`, with quotes.
    #[serde(alias = ";")]
    Semicolon,
    /// A tab, with quotes.
    #[serde(alias = "\t")]
    Tab,
    /// `|`, with quotes.
    #[serde(alias = "|")]
    Pipe,
}

impl Delimiter {
    /// A tab for files that end in `.tsv` or `.tab`, or in one of these and `.gz`, else a comma.
    #[must_use]
    pub fn of(path: impl AsRef<Path>) -> Self {
        let ending = |path: &Path| path.extension().unwrap_or_default().to_ascii_lowercase();
        let path = path.as_ref();
        let ending = match ending(path) {
            gz if gz == "gz" => ending(&path.with_extension("")),
            other => other,
        };
        if ending == "tsv" || ending == "tab" { Self::Tab } else { Self::Comma }
    }

    pub(super) const fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Semicolon => b';',
            Self::Tab => b'\t',
            Self::Pipe => b'|',
        }
    }
}

/// The largest record in bytes; its fields are in memory together: 16 MiB.
pub(super) const MOST_RECORD_BYTES: u64 = 16 << 20;

/// Bytes that the parser reads at once.
const BUFFER_BYTES: usize = 1 << 16;

/// Spreadsheets put it before a text.
const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// The bytes after a byte-order mark.
type WithoutMark<R> = Chain<Cursor<Vec<u8>>, R>;

/// Limits the bytes that are read for one record, since a file without line breaks, or with an
/// unclosed quote, is a single record; follows the quotes, and counts the empty lines.
struct Bounded<R> {
    bytes: R,
    since_reset: u64,
    quotes: Quotes,
    /// The bytes that were read last, and how many were read before them.
    block: Vec<u8>,
    before: u64,
    /// The line feeds before the next record: those of empty lines, and that of the record before
    /// where the parser stops at the carriage return.
    line_feeds: u64,
    is_before_record: bool,
}

impl<R> Bounded<R> {
    /// Begins the record after so many bytes.
    fn begin(&mut self, byte: u64) {
        (self.since_reset, self.line_feeds, self.is_before_record) = (0, 0, true);
        self.skip_line_ends(byte.saturating_sub(self.before) as usize);
    }

    /// Counts the line feeds before the record, from a place of the block on.
    fn skip_line_ends(&mut self, from: usize) {
        for &byte in self.block.get(from..).unwrap_or_default() {
            match byte {
                b'\n' => self.line_feeds += 1,
                b'\r' => {}
                _ => {
                    self.is_before_record = false;
                    break;
                }
            }
        }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.since_reset > MOST_RECORD_BYTES {
            let message = format!(
                "a record has more than {} MiB; a quote may not be closed, or the delimiter be \
                 another",
                MOST_RECORD_BYTES >> 20
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let read = self.bytes.read(buffer)?;
        self.since_reset += read as u64;
        match &buffer[..read] {
            [] => self.quotes.end(),
            read => {
                self.before += self.block.len() as u64;
                self.block.clear();
                self.block.extend_from_slice(read);
                self.quotes.read(read);
                if self.is_before_record {
                    self.skip_line_ends(0);
                }
            }
        }
        Ok(read)
    }
}

/// The error of bytes that cannot be read, at a line.
fn unreadable(path: PathBuf, line: u64, cause: io::Error) -> TableError {
    let is_gzip_fault = cause.get_ref().is_some_and(|inner| inner.is::<GzipFault>());
    match cause.kind() {
        _ if is_gzip_fault => TableError::Gzip { path, cause },
        io::ErrorKind::InvalidData => TableError::Damaged { path, line, cause: cause.into() },
        _ => TableError::Read { path, cause },
    }
}

/// A file with a header, read record by record into one buffer.
pub(crate) struct Records<R> {
    path: PathBuf,
    reader: Reader<Bounded<WithoutMark<R>>>,
    header: Vec<String>,
    /// The index of each name in the header.
    places: HashMap<String, usize>,
    record: ByteRecord,
    /// Whether the record is the next row, read before it was known to be one.
    is_next: bool,
    /// Whether the next record is the first one of a file without a header.
    is_first_of_unnamed: bool,
}

impl Records<Box<dyn Read + Send>> {
    pub(crate) fn open(path: &Path, delimiter: Delimiter) -> Result<Self, TableError> {
        let file = open(path)?;
        Self::new(file, path, delimiter, None)
    }
}

impl<R: Read> Records<R> {
    /// `path` names the bytes in errors; without names, the first record is the header.
    pub(crate) fn new(
        mut bytes: R,
        path: &Path,
        delimiter: Delimiter,
        names: Option<&[String]>,
    ) -> Result<Self, TableError> {
        let mut first = Vec::with_capacity(BYTE_ORDER_MARK.len());
        let read = bytes.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut first);
        read.map_err(|cause| unreadable(path.to_owned(), 1, cause))?;
        if first == BYTE_ORDER_MARK {
            first.clear();
        }
        let mut records = Self::unnamed(Cursor::new(first).chain(bytes), path, delimiter);
        match names {
            Some(names) => {
                records.header = names.to_vec();
                records.is_first_of_unnamed = true;
            }
            None => records.header = records.read_fields()?,
        }
        records.find_places()?;
        Ok(records)
    }

    /// The records of a part of a file, which begins with one that is not the header.
    pub(super) fn part(
        bytes: R,
        path: &Path,
        delimiter: Delimiter,
        header: &[String],
    ) -> Result<Self, TableError> {
        let mut records = Self::unnamed(Cursor::default().chain(bytes), path, delimiter);
        records.header = header.to_vec();
        records.find_places()?;
        Ok(records)
    }

    fn unnamed(bytes: WithoutMark<R>, path: &Path, delimiter: Delimiter) -> Self {
        let reader = ReaderBuilder::new()
            .delimiter(delimiter.byte())
            .has_headers(false)
            // Records of the wrong length are reported here, with both counts.
            .flexible(true)
            .buffer_capacity(BUFFER_BYTES)
            .from_reader(Bounded {
                bytes,
                since_reset: 0,
                quotes: Quotes::new(delimiter.byte()),
                block: Vec::new(),
                before: 0,
                line_feeds: 0,
                is_before_record: false,
            });
        let record = ByteRecord::new();
        let places = HashMap::new();
        let (path, header) = (path.to_owned(), Vec::new());
        let (is_next, is_first_of_unnamed) = (false, false);
        Self { path, reader, header, places, record, is_next, is_first_of_unnamed }
    }

    /// The same with names that depend on the trimmed fields of the first record; without names it
    /// is the header.
    pub(crate) fn of_names<E: From<TableError>>(
        bytes: R,
        path: &Path,
        delimiter: Delimiter,
        names: impl FnOnce(&[String]) -> Result<Option<Vec<String>>, E>,
    ) -> Result<Self, E> {
        let mut records = Self::new(bytes, path, delimiter, Some(&[]))?;
        let first = records.read_fields()?;
        let names = names(&first)?;
        // The caller has seen the record.
        records.is_first_of_unnamed = false;
        records.is_next = names.is_some();
        records.header = names.unwrap_or(first);
        records.find_places()?;
        Ok(records)
    }

    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where a column is.
    pub(crate) fn column(&self, name: &str) -> Result<usize, TableError> {
        self.places.get(name).copied().ok_or_else(|| TableError::MissingColumn {
            path: self.path.clone(),
            column: name.to_owned(),
            known: self.header.clone(),
        })
    }

    /// Reads the next record; false at the end of the file.
    pub(crate) fn advance(&mut self) -> Result<bool, TableError> {
        if !std::mem::take(&mut self.is_next) && !self.read()? {
            return Ok(false);
        }
        if std::mem::take(&mut self.is_first_of_unnamed) && self.repeats_the_names() {
            return Err(TableError::Header { path: self.path.clone(), line: self.line() });
        }
        match self.record.len() {
            got if got == self.header.len() => Ok(true),
            got => Err(self.ragged(got)),
        }
    }

    /// Whether the fields of the last record are the names of the columns.
    fn repeats_the_names(&self) -> bool {
        let fields = self.record.iter().map(<[u8]>::trim_ascii);
        fields.eq(self.header.iter().map(|name| name.as_bytes()))
    }

    /// A field of the last record.
    pub(crate) fn field(&self, column: usize) -> Result<&str, TableError> {
        str::from_utf8(&self.record[column]).map_err(|_| self.not_utf8(column))
    }

    /// The line on which the last record begins.
    pub(crate) fn line(&self) -> u64 {
        self.record.position().map_or(0, csv::Position::line) + self.reader.get_ref().line_feeds
    }

    /// The number of lines before the next record.
    pub(super) fn lines(&self) -> u64 {
        self.reader.position().line() - 1
    }

    fn read(&mut self) -> Result<bool, TableError> {
        let (line, byte) = (self.reader.position().line(), self.reader.position().byte());
        self.reader.get_mut().begin(byte);
        let is_read = self.reader.read_byte_record(&mut self.record).map_err(|error| {
            let line = line + self.reader.get_ref().line_feeds;
            let path = self.path.clone();
            if !error.is_io_error() {
                return TableError::Damaged { path, line, cause: error.into() };
            }
            match error.into_kind() {
                ErrorKind::Io(cause) => unreadable(path, line, cause),
                other => TableError::Read { path, cause: io::Error::other(format!("{other:?}")) },
            }
        })?;
        let end = self.reader.position().byte();
        match self.reader.get_ref().quotes.fault_before(end) {
            Some(fault) => {
                let cause = fault.message().into();
                Err(TableError::Damaged { path: self.path.clone(), line: self.line(), cause })
            }
            None => Ok(is_read),
        }
    }

    /// Finds the columns by their names, which are unique.
    fn find_places(&mut self) -> Result<(), TableError> {
        for (at, name) in self.header.iter().enumerate() {
            if self.places.insert(name.clone(), at).is_some() {
                let (path, column) = (self.path.clone(), name.clone());
                return Err(TableError::RepeatedColumn { path, column });
            }
        }
        Ok(())
    }

    /// Reads the next record as text.
    fn read_fields(&mut self) -> Result<Vec<String>, TableError> {
        if !self.read()? {
            return Err(TableError::Empty { path: self.path.clone() });
        }
        let field = |(at, field): (usize, &[u8])| {
            // The names of a file in UTF-16 are UTF-8 with zeros.
            let is_text = |text: &&str| !text.contains('\0');
            let text = str::from_utf8(field).ok().filter(is_text);
            let text = text.ok_or_else(|| TableError::NotUtf8 {
                path: self.path.clone(),
                line: self.line(),
                column: format!("number {}", at + 1),
                likely: TextEncoding::likely(field),
            })?;
            Ok(text.trim().to_owned())
        };
        self.record.iter().enumerate().map(field).collect()
    }
}

impl<R: Read> RowSource for Records<R> {
    fn path(&self) -> &Path {
        &self.path
    }

    fn header(&self) -> &[String] {
        &self.header
    }

    fn advance(&mut self) -> Result<bool, TableError> {
        Records::advance(self)
    }

    fn bytes(&self, column: usize) -> &[u8] {
        &self.record[column]
    }

    fn line(&self) -> u64 {
        Records::line(self)
    }

    fn lines(&self) -> u64 {
        Records::lines(self)
    }
}

#[cfg(test)]
mod tests {
    use crate::table::{Delimiter, Table, TableSchema};

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_field() {
        for text in ["\u{feff}a,b\n1,2\n", "\u{feff}\"a\",\"b\"\n1,2\n"] {
            let schema = TableSchema::new().number("a").number("b");
            let table = Table::parse(text.as_bytes(), "t.csv", Delimiter::Comma, schema).unwrap();
            assert_eq!((table.rows(), table.number("a", 0).unwrap()), (1, Some(1.0)), "{text}");
        }
        let schema = || TableSchema::new().number("a").with_header(["a".to_owned()].to_vec());
        let without_header = |text: &str| {
            Table::parse(text.as_bytes(), "t.csv", Delimiter::Comma, schema()).map(|it| it.rows())
        };
        assert_eq!(without_header("\u{feff}1\n2\n").unwrap(), 2);
        assert_eq!(without_header("1").unwrap(), 1);
    }

    #[test]
    fn a_quote_that_is_not_what_its_author_meant_is_an_error_with_its_line() {
        let error = |text: &str| {
            let schema = TableSchema::new().category("b");
            let table = Table::parse(text.as_bytes(), "t.csv", Delimiter::Comma, schema);
            table.expect_err(text).to_string()
        };
        let open = "is not a record: a field begins with a quote that is not closed before the end";
        // Without a check, the last field has the rest of the file.
        assert!(error("a,b\n1,x\n2,\"y\n3,z\n").contains(&format!("`t.csv` line 3 {open}")));
        assert!(error("\u{feff}\"a,b\n1,x\n").contains(&format!("`t.csv` line 1 {open}")));
        let after = "is not a record: text follows the closing quote of a field";
        assert!(error("a,b\n1,\"x\" y\n2,z\n").contains(&format!("`t.csv` line 2 {after}")));
        // The first fault, though a later one was read with it.
        assert!(error("a,b\n1,\"x\ny\"z\n2,\"z\n").contains(&format!("`t.csv` line 2 {after}")));
    }
}
