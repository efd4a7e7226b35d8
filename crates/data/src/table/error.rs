//! Errors of tables.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use crate::link_loop::system_message;
use crate::table::field_text::shortened;
use crate::text_encoding::TextEncoding;

/// Columns that an error lists.
const MOST_LISTED: usize = 12;

/// The first names of a list, and how many more there are.
fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(MOST_LISTED).map(|name| shortened(name)).collect();
    let shown = shown.join("`, `");
    match names.len().saturating_sub(MOST_LISTED) {
        0 => format!("`{shown}`"),
        more => format!("`{shown}` and {more} more"),
    }
}

fn refused(word: Option<&str>) -> String {
    match word {
        Some(word) => format!("`{word}` is none of the values of the schema"),
        None => "the value is missing, which the schema does not accept".to_owned(),
    }
}

fn fields(count: usize) -> String {
    match count {
        1 => "1 field".to_owned(),
        more => format!("{more} fields"),
    }
}

/// Two lines of one file or of two.
fn lines(first: &Path, first_line: u64, second: &Path, second_line: u64) -> String {
    let (one, other) = (first.display(), second.display());
    if first == second {
        return format!("lines {first_line} and {second_line} of `{one}`");
    }
    format!("line {first_line} of `{one}` and line {second_line} of `{other}`")
}

/// The likely encoding of a field that is not UTF-8, with its conversion.
fn with_conversion(likely: Option<TextEncoding>) -> String {
    likely.map_or_else(String::new, |found| {
        format!(": it is likely {found}, which `{}` converts", found.conversion())
    })
}

/// What to do about a record with too few or too many fields.
const fn field_remedy(got: usize, expected: usize) -> &'static str {
    if got < expected {
        "add the missing fields, which may be empty, or remove the line"
    } else {
        "put quotes around a field that has a delimiter, or remove the surplus fields"
    }
}

/// Why a table cannot be read, fitted or encoded; the text contains the cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The file cannot be opened or read.
    #[error("`{}` cannot be read: {}", .path.display(), system_message(.cause))]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's message.
        cause: io::Error,
    },
    /// The file begins as a gzip file and is damaged, cut off, or followed by other bytes.
    #[error(
        "`{}` is not an intact gzip file: {cause}; copy it again, or decompress it and name the \
         file inside",
        .path.display()
    )]
    Gzip {
        /// The file.
        path: PathBuf,
        /// The decoder's message.
        cause: io::Error,
    },
    /// A file of columns needs a feature that the build does not have.
    #[error("`{}` needs the cargo feature `{feature}`; build with it, or save the file as CSV", .path.display())]
    Feature {
        /// The file.
        path: PathBuf,
        /// The feature.
        feature: &'static str,
    },
    /// The file is no Parquet or Arrow file, is damaged, or needs what its reader does not have.
    #[error("`{}` cannot be read as its ending says: {cause}", .path.display())]
    Columnar {
        /// The file.
        path: PathBuf,
        /// The reader's message.
        cause: Box<dyn Error + Send + Sync>,
    },
    /// A column of a Parquet or Arrow file has a type that is not what is read.
    #[error(
        "`{}`, column `{column}`: its type is {found}, which cannot be read as {wanted}; convert it, \
         or leave it out",
        .path.display()
    )]
    ColumnType {
        /// The file.
        path: PathBuf,
        /// The column's name.
        column: String,
        /// Its type.
        found: String,
        /// What it is read as.
        wanted: &'static str,
    },
    /// The parser gave up.
    #[error("`{}` line {line} is not a record: {cause}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The parser's message.
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The file is in another encoding than UTF-8.
    #[error(
        "`{}` is encoded as {encoding}; save it as UTF-8, such as with `{}`",
        .path.display(),
        .encoding.conversion()
    )]
    Encoding {
        /// The file.
        path: PathBuf,
        /// Its encoding.
        encoding: TextEncoding,
    },
    /// A field is not text.
    #[error(
        "`{}` line {line}, column `{column}`: not UTF-8; save the file as UTF-8{}",
        .path.display(),
        with_conversion(*.likely)
    )]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The column's name.
        column: String,
        /// The likely encoding.
        likely: Option<TextEncoding>,
    },
    /// A record has another number of fields than the header.
    #[error(
        "`{}` line {line} has {}; the header has {expected}: {}",
        .path.display(),
        fields(*.got),
        field_remedy(*.got, *.expected)
    )]
    Ragged {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// Fields in the header.
        expected: usize,
        /// Fields in this record.
        got: usize,
    },
    /// A file that was said to have no header has one.
    #[error(
        "`{}` line {line} has the names of the columns: leave out the names that were given for a \
         file without a header, or remove the line",
        .path.display()
    )]
    Header {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
    },
    /// Two columns have one name.
    #[error("`{}` has two columns `{column}`; rename one", .path.display())]
    RepeatedColumn {
        /// The file.
        path: PathBuf,
        /// The name.
        column: String,
    },
    /// A requested column does not exist.
    #[error("`{}` has no column `{column}`; it has {}", .path.display(), listed(.known))]
    MissingColumn {
        /// The file.
        path: PathBuf,
        /// The column asked for.
        column: String,
        /// The columns of the file.
        known: Vec<String>,
    },
    /// A field of a column of numbers, truth values or dates is none.
    #[error(
        "`{}` line {line}, column `{column}`: expected {expected}, got `{text}`; correct it, or add \
         it to the `missing` texts of the schema",
        .path.display()
    )]
    Field {
        /// What the column has.
        expected: &'static str,
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The column's name.
        column: String,
        /// The field.
        text: String,
    },
    /// The rules of a column do not accept a field.
    #[error(
        "`{}` line {line}, column `{column}`: {}; correct it, or change the column's schema",
        .path.display(),
        refused(.word.as_deref())
    )]
    Refused {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The column's name.
        column: String,
        /// The word; `None` for a missing value.
        word: Option<String>,
    },
    /// Two records list one file, perhaps by different paths.
    #[error(
        "{} list the same file, `{}`; list it once: in one class, and for training or for testing",
        lines(.first, *.first_line, .second, *.second_line),
        .file.display()
    )]
    RepeatedFile {
        /// The file, as the second record names it.
        file: PathBuf,
        /// The table of the first record.
        first: PathBuf,
        /// Its line, counted from 1.
        first_line: u64,
        /// The table of the second record.
        second: PathBuf,
        /// Its line, counted from 1.
        second_line: u64,
    },
    /// There are no records.
    #[error("`{}` has no records", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A schema has no columns, or there are no rows to fit on.
    #[error("{what}; {remedy}")]
    Setting {
        /// The reason.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A row does not exist.
    #[error("row {row} does not exist; the table has {rows}")]
    OutOfRange {
        /// The row asked for.
        row: usize,
        /// How many there are.
        rows: usize,
    },
    /// A column is of another kind than the operation needs.
    #[error("column `{column}` holds {got}; expected {expected}")]
    Kind {
        /// The column.
        column: String,
        /// What the operation needs.
        expected: &'static str,
        /// What the column holds.
        got: &'static str,
    },
    /// A column of the fitted table is missing in this one.
    #[error("the table has no column `{column}`, which the encoder was fitted with")]
    Unfitted {
        /// The column.
        column: String,
    },
}

impl TableError {
    /// The error of a file whose columns are not those of the files before it.
    pub(super) fn other_columns(path: &Path) -> Self {
        let what = format!("`{}` has other columns than the files before it", path.display());
        Self::Setting { what, remedy: "name files of the same columns" }
    }

    /// The same with a later line, for lines that were counted from the middle of a file.
    pub(super) fn below(mut self, lines: u64) -> Self {
        if let Self::Damaged { line, .. }
        | Self::NotUtf8 { line, .. }
        | Self::Ragged { line, .. }
        | Self::Field { line, .. }
        | Self::Refused { line, .. } = &mut self
        {
            *line += lines;
        }
        self
    }
}
