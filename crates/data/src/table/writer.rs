//! Writing a table as CSV or TSV.

use std::io;
use std::path::Path;

use csv::{Writer, WriterBuilder};

use crate::cache::AtomicFile;
use crate::error::DataError;
use crate::table::Delimiter;

/// Writes a CSV or TSV file record by record, as RFC 4180 with line feeds: a field with a delimiter,
/// a quote or a line end is quoted.
///
/// The file appears at its path when it is finished; until then, and after an error, whatever was
/// there before stays, and a writer that is dropped leaves nothing.
///
/// # Example
/// ```
/// use updraft_data::{Delimiter, TableWriter};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("colors.csv");
/// let mut writer = TableWriter::create(&path, Delimiter::Comma)?;
/// writer.write(["color", "note"])?;
/// writer.write(["red", "bright, \"warm\""])?;
/// writer.finish()?;
/// assert_eq!(std::fs::read_to_string(&path)?, "color,note\nred,\"bright, \"\"warm\"\"\"\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TableWriter {
    records: Writer<AtomicFile>,
}

impl TableWriter {
    /// Begins a file; missing folders are created.
    ///
    /// # Errors
    /// [`DataError::Write`] with the path.
    pub fn create(path: impl AsRef<Path>, delimiter: Delimiter) -> Result<Self, DataError> {
        let file = AtomicFile::create(path.as_ref())?;
        let records = WriterBuilder::new().delimiter(delimiter.byte()).from_writer(file);
        Ok(Self { records })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`DataError::Write`] with the path, for a record with another number of fields than the first
    /// one, too.
    pub fn write<F: AsRef<[u8]>>(
        &mut self,
        fields: impl IntoIterator<Item = F>,
    ) -> Result<(), DataError> {
        self.records.write_record(fields).map_err(|cause| self.failed(cause.into()))
    }

    /// Writes everything to the disk and moves the file to its path.
    ///
    /// # Errors
    /// [`DataError::Write`] with the path.
    pub fn finish(self) -> Result<(), DataError> {
        let path = self.records.get_ref().path().to_owned();
        let file = self.records.into_inner();
        let failed = |cause| DataError::Write { path, cause };
        file.map_err(|error| failed(error.into_error()))?.finish()
    }

    fn failed(&self, cause: io::Error) -> DataError {
        DataError::Write { path: self.records.get_ref().path().to_owned(), cause }
    }
}

impl std::fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter").field("path", &self.records.get_ref().path()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::table::{Table, TableSchema};

    #[test]
    fn any_text_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/words.csv");
        let words = ["a,b", "tab\tin", "\"quoted\"", "two\nlines", "cr\r\nlf", "ü", "", "x"];
        for delimiter in [Delimiter::Comma, Delimiter::Tab, Delimiter::Semicolon, Delimiter::Pipe] {
            let mut writer = TableWriter::create(&path, delimiter).unwrap();
            writer.write(["word"]).unwrap();
            words.iter().for_each(|word| writer.write([word]).unwrap());
            writer.finish().unwrap();
            let schema = TableSchema::new().category("word").with_missing(vec![]);
            let table = Table::read(&path, delimiter, schema).unwrap();
            let read = (0..table.rows()).map(|row| table.word("word", row).unwrap().unwrap());
            assert_eq!(read.collect::<Vec<_>>(), words, "{delimiter:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_finished_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        fs::write(&path, "before").unwrap();
        let mut writer = TableWriter::create(&path, Delimiter::Comma).unwrap();
        for at in 0..100_000 {
            writer.write([at.to_string()]).unwrap();
        }
        let error = writer.write(["1", "2"]).unwrap_err().to_string();
        assert!(error.contains("a.csv"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        drop(writer);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a partial file is left");
    }
}
