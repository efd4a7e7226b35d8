//! What reads the rows of a table one after the other.

use std::path::Path;

use crate::table::TableError;
use crate::text_encoding::TextEncoding;

/// Rows of text, one at a time.
pub(super) trait RowSource {
    /// The file in errors.
    fn path(&self) -> &Path;

    /// The names of the columns.
    fn header(&self) -> &[String];

    /// Reads the next row; false after the last one.
    fn advance(&mut self) -> Result<bool, TableError>;

    /// A field of the last row.
    fn bytes(&self, column: usize) -> &[u8];

    /// The line on which the last row begins.
    fn line(&self) -> u64;

    /// The number of lines before the next row.
    fn lines(&self) -> u64;

    /// The error about a field of the last row that is not UTF-8.
    fn not_utf8(&self, column: usize) -> TableError {
        TableError::NotUtf8 {
            path: self.path().to_owned(),
            line: self.line(),
            column: self.header()[column].clone(),
            likely: TextEncoding::likely(self.bytes(column)),
        }
    }

    /// The error of a row with another number of fields than the header.
    fn ragged(&self, got: usize) -> TableError {
        let (path, line) = (self.path().to_owned(), self.line());
        TableError::Ragged { path, line, expected: self.header().len(), got }
    }
}
