//! A table in memory: columns of numbers, and of words as codes.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::str::Utf8Error;

use crate::table::columnar::Columnar;
use crate::table::open::open;
use crate::table::parallel::read_in_pieces;
use crate::table::read_file::read_file;
use crate::table::records::{Delimiter, Records};
use crate::table::words::Words;
use crate::table::{ColumnKind, TableError, TableSchema};

/// The code of a missing category.
pub(super) const MISSING: u32 = u32::MAX;

/// The columns of a CSV or TSV file that a schema names, read in one pass.
///
/// Each word is stored once; a field takes four bytes as a category and eight as a number.
#[derive(Debug, Clone)]
pub struct Table {
    pub(super) schema: TableSchema,
    pub(super) columns: Vec<Column>,
    pub(super) rows: usize,
}

#[derive(Debug, Clone)]
pub(super) enum Column {
    /// Codes of words; [`MISSING`] for missing values.
    Category { words: Words, codes: Vec<u32> },
    /// Numbers, truth values or dates, by the kind; NaN where there is none.
    Number { kind: ColumnKind, numbers: Vec<f64> },
    /// The words of row `r` are `codes[ends[r − 1]..ends[r]]`.
    MultiLabel { separator: char, words: Words, codes: Vec<u32>, ends: Vec<usize> },
}

impl Table {
    /// Reads a file: text, or a Parquet (`.parquet`, `.pq`) or Arrow (`.arrow`, `.feather`, `.ipc`)
    /// file with the cargo feature `parquet`, whose null values are missing and whose rows are the
    /// lines of errors.
    ///
    /// # Errors
    /// [`TableError`] with file, line and column.
    pub fn read(
        path: impl AsRef<Path>,
        delimiter: Delimiter,
        schema: TableSchema,
    ) -> Result<Self, TableError> {
        read_file(path.as_ref(), delimiter, schema)
    }

    /// Reads bytes; `path` names them in errors.
    ///
    /// The threads of rayon's pool read pieces of the file; their number changes no result.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Example
    /// ```
    /// use updraft_data::{Delimiter, Table, TableSchema};
    ///
    /// let schema = TableSchema::new().category("color").number("size");
    /// let bytes = &b"size,color\n1.5,red\n?,blue\n"[..];
    /// let table = Table::parse(bytes, "inline.csv", Delimiter::Comma, schema)?;
    /// assert_eq!(table.rows(), 2);
    /// assert_eq!(table.word("color", 1)?, Some("blue"));
    /// assert_eq!(table.number("size", 1)?, None);
    /// # Ok::<(), updraft_data::TableError>(())
    /// ```
    pub fn parse(
        bytes: impl Read + Send,
        path: impl AsRef<Path>,
        delimiter: Delimiter,
        schema: TableSchema,
    ) -> Result<Self, TableError> {
        read_in_pieces(bytes, path.as_ref(), delimiter, schema)
    }

    /// The line, counted from 1, on which a file's record begins; `record` counts from 0, without
    /// the header of a file that has one. A record of a Parquet or Arrow file is a line.
    ///
    /// Reads the file again, for an error about a value that was read earlier.
    ///
    /// # Errors
    /// As [`read`](Self::read); [`TableError::OutOfRange`] for a record that does not exist.
    pub fn line_of(
        path: impl AsRef<Path>,
        delimiter: Delimiter,
        header: Option<&[String]>,
        record: usize,
    ) -> Result<u64, TableError> {
        let path = path.as_ref();
        if Columnar::of(path).is_some() {
            return Ok(record as u64 + 1);
        }
        let file = open(path)?;
        let mut records = Records::new(file, path, delimiter, header)?;
        let mut rows = 0;
        while records.advance()? {
            if rows == record {
                return Ok(records.line());
            }
            rows += 1;
        }
        Err(TableError::OutOfRange { row: record, rows })
    }

    /// How many records there are.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// What was read.
    #[must_use]
    pub const fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// The word in a column of categories; `None` if it is missing.
    ///
    /// # Errors
    /// [`TableError::Unfitted`] or [`TableError::Kind`] for a column that does not exist or has
    /// another kind, [`TableError::OutOfRange`] for a row that does not exist.
    pub fn word(&self, column: &str, row: usize) -> Result<Option<&str>, TableError> {
        self.check_row(row)?;
        match self.column(column)? {
            Column::Category { words, codes } => {
                Ok((codes[row] != MISSING).then(|| &*words.words()[codes[row] as usize]))
            }
            other => Err(other.mismatch(column, "categories")),
        }
    }

    /// The number in a column of numbers, truth values or dates; `None` if it is missing.
    ///
    /// # Errors
    /// As [`word`](Self::word).
    pub fn number(&self, column: &str, row: usize) -> Result<Option<f64>, TableError> {
        self.check_row(row)?;
        match self.column(column)? {
            Column::Number { numbers, .. } => {
                Ok(Some(numbers[row]).filter(|number| !number.is_nan()))
            }
            other => Err(other.mismatch(column, "numbers")),
        }
    }

    /// The words of a column of several labels, in the order of the field.
    ///
    /// # Errors
    /// As [`word`](Self::word).
    pub fn labels(&self, column: &str, row: usize) -> Result<Vec<&str>, TableError> {
        self.check_row(row)?;
        match self.column(column)? {
            Column::MultiLabel { words, codes, ends, .. } => {
                let codes = &codes[start(ends, row)..ends[row]];
                Ok(codes.iter().map(|&code| &*words.words()[code as usize]).collect())
            }
            other => Err(other.mismatch(column, "several labels")),
        }
    }

    /// Whether any of the rows misses the value of a column.
    ///
    /// # Errors
    /// [`TableError::Unfitted`] for a column, [`TableError::OutOfRange`] for a row that does not
    /// exist.
    pub fn misses_values(&self, column: &str, rows: &[usize]) -> Result<bool, TableError> {
        rows.iter().try_for_each(|&row| self.check_row(row))?;
        let column = self.column(column)?;
        Ok(rows.iter().any(|&row| match column {
            Column::Category { codes, .. } => codes[row] == MISSING,
            Column::Number { numbers, .. } => numbers[row].is_nan(),
            Column::MultiLabel { ends, .. } => start(ends, row) == ends[row],
        }))
    }

    /// A class for each row, for [`stratified_split`](crate::stratified_split): the words of a
    /// column of categories in the order in which they first appear; missing values are a class
    /// of their own.
    ///
    /// # Errors
    /// [`TableError::Unfitted`] or [`TableError::Kind`] for a column that does not exist or has
    /// another kind.
    pub fn strata(&self, column: &str) -> Result<Vec<usize>, TableError> {
        match self.column(column)? {
            Column::Category { words, codes } => {
                let missing = words.words().len();
                let class = |&code| if code == MISSING { missing } else { code as usize };
                Ok(codes.iter().map(class).collect())
            }
            other => Err(other.mismatch(column, "categories")),
        }
    }

    pub(super) fn column(&self, name: &str) -> Result<&Column, TableError> {
        let at = self.schema.columns.iter().position(|column| column.name == name);
        at.map(|at| &self.columns[at])
            .ok_or_else(|| TableError::Unfitted { column: name.to_owned() })
    }

    pub(super) fn check_row(&self, row: usize) -> Result<(), TableError> {
        let rows = self.rows;
        if row < rows { Ok(()) } else { Err(TableError::OutOfRange { row, rows }) }
    }
}

impl Column {
    pub(super) fn new(kind: &ColumnKind) -> Self {
        match kind {
            ColumnKind::Category => Self::Category { words: Words::default(), codes: Vec::new() },
            ColumnKind::Number | ColumnKind::Boolean | ColumnKind::Date => {
                Self::Number { kind: kind.clone(), numbers: Vec::new() }
            }
            ColumnKind::MultiLabel { separator } => Self::MultiLabel {
                separator: *separator,
                words: Words::default(),
                codes: Vec::new(),
                ends: Vec::new(),
            },
        }
    }

    /// The same for so many rows after those of a column, to which they are appended.
    pub(super) fn after(known: Option<&Self>, kind: &ColumnKind, rows: usize) -> Self {
        let mut column = Self::new(kind);
        match &mut column {
            Self::Category { words, codes } => {
                if let Some(Self::Category { words: known, .. }) = known {
                    *words = Words::after(known);
                }
                codes.reserve(rows);
            }
            Self::Number { numbers, .. } => numbers.reserve(rows),
            Self::MultiLabel { ends, .. } => ends.reserve(rows),
        }
        column
    }

    /// Appends a trimmed field.
    #[inline]
    pub(super) fn push(&mut self, field: &[u8], is_missing: bool) -> Result<(), Unfit> {
        match self {
            Self::Category { words, codes } => {
                codes.push(if is_missing { MISSING } else { words.number(field)? });
            }
            Self::Number { numbers, .. } if is_missing => numbers.push(f64::NAN),
            Self::Number { kind, numbers } => match kind.number(field) {
                Some(number) => numbers.push(number),
                None => {
                    str::from_utf8(field)?;
                    return Err(Unfit::Number(kind.expected()));
                }
            },
            Self::MultiLabel { separator, words, codes, ends } => {
                if !is_missing {
                    let mut add = |part: &[u8]| {
                        let part = trim(part)?;
                        if !part.is_empty() {
                            codes.push(words.number(part)?);
                        }
                        Ok::<_, Unfit>(())
                    };
                    match u8::try_from(*separator) {
                        // An ASCII byte is never part of a multi-byte character.
                        Ok(byte) if byte.is_ascii() => {
                            field.split(|&other| other == byte).try_for_each(&mut add)?;
                        }
                        _ => {
                            let mut parts = str::from_utf8(field)?.split(*separator);
                            parts.try_for_each(|part| add(part.as_bytes()))?;
                        }
                    }
                }
                ends.push(codes.len());
            }
        }
        Ok(())
    }

    /// The words so far, in the order of their first occurrence; none of a column of numbers.
    pub(super) fn words(&self) -> &[Box<str>] {
        match self {
            Self::Category { words, .. } | Self::MultiLabel { words, .. } => words.words(),
            Self::Number { .. } => &[],
        }
    }

    pub(super) fn kind(&self) -> ColumnKind {
        match self {
            Self::Category { .. } => ColumnKind::Category,
            Self::Number { kind, .. } => kind.clone(),
            Self::MultiLabel { separator, .. } => ColumnKind::MultiLabel { separator: *separator },
        }
    }

    pub(super) fn mismatch(&self, column: &str, expected: &'static str) -> TableError {
        TableError::Kind { column: column.to_owned(), expected, got: self.kind().name() }
    }
}

/// The error of a field that does not fit its column.
#[derive(Debug)]
pub(super) enum Unfit {
    /// It is not UTF-8.
    Text,
    /// It is not what a column of numbers, truth values or dates has.
    Number(&'static str),
    /// It is missing, which the schema does not accept.
    Missing,
    /// This word, which the schema does not accept.
    Unknown(String),
}

impl From<Utf8Error> for Unfit {
    fn from(_: Utf8Error) -> Self {
        Self::Text
    }
}

/// What a field is read as.
#[inline]
pub(super) fn replaced<'a>(
    replace: Option<&'a BTreeMap<String, String>>,
    field: &'a [u8],
) -> &'a [u8] {
    let other = replace.and_then(|replace| replace.get(str::from_utf8(field).ok()?));
    other.map_or(field, String::as_bytes)
}

/// The fields that stand for a missing value.
pub(super) struct Missing<'a> {
    texts: &'a [String],
    /// Whether any of them begins with a byte, a quick check for most fields.
    begins: [bool; 256],
    has_empty: bool,
}

impl<'a> Missing<'a> {
    pub(super) fn new(texts: &'a [String]) -> Self {
        let mut begins = [false; 256];
        for first in texts.iter().filter_map(|text| text.as_bytes().first()) {
            begins[usize::from(*first)] = true;
        }
        Self { texts, begins, has_empty: texts.iter().any(String::is_empty) }
    }

    /// Whether a part of a text may stand for a missing value: it is empty, or begins as one does.
    #[inline]
    pub(super) fn may_begin(&self, text: &[u8], start: usize, end: usize) -> bool {
        start == end || self.begins[usize::from(text[start])]
    }

    #[inline]
    pub(super) fn contains(&self, field: &[u8]) -> bool {
        match field.first() {
            None => self.has_empty,
            Some(&first) => {
                self.begins[usize::from(first)]
                    && self.texts.iter().any(|text| text.as_bytes() == field)
            }
        }
    }
}

/// Like [`str::trim`], but fast if neither end can be a space.
#[inline]
pub(super) fn trim(field: &[u8]) -> Result<&[u8], Unfit> {
    match field {
        [] => Ok(field),
        [one] if one.is_ascii_graphic() => Ok(field),
        [first, .., last] if first.is_ascii_graphic() && last.is_ascii_graphic() => Ok(field),
        _ => Ok(str::from_utf8(field)?.trim().as_bytes()),
    }
}

/// Where the labels of a row begin.
pub(super) fn start(ends: &[usize], row: usize) -> usize {
    if row == 0 { 0 } else { ends[row - 1] }
}
