//! Which columns hold numbers and which categories, by what stands in them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::table::columns::{Missing, replaced, trim};
use crate::table::records::{Delimiter, Records};
use crate::table::{ColumnKind, TableError, TableSchema};

/// What the columns of files hold, by the records that were looked at.
#[derive(Debug, Clone, Default)]
pub struct InferredColumns {
    names: Vec<String>,
    /// Of each column: whether a value was seen, and whether one is no number.
    seen: Vec<(bool, bool)>,
}

impl InferredColumns {
    /// Looks at the records of a file for which `is_looked_at` answers yes to their number, counted
    /// from 0; further files of the same columns add to what was seen.
    ///
    /// `schema` has the names of a file without a header, the fields that stand for a missing value
    /// and those that are read as another text; its columns do not matter.
    ///
    /// # Errors
    /// [`TableError`] naming file and line of what cannot be read, [`TableError::Setting`] for a
    /// file of other columns.
    pub fn look_at(
        &mut self,
        path: impl AsRef<Path>,
        delimiter: Delimiter,
        schema: &TableSchema,
        is_looked_at: impl Fn(usize) -> bool,
    ) -> Result<(), TableError> {
        let path = path.as_ref();
        let file =
            File::open(path).map_err(|cause| TableError::Read { path: path.to_owned(), cause })?;
        self.look_at_bytes(file, path, delimiter, schema, is_looked_at)
    }

    /// The same for bytes; `path` is what an error calls them.
    ///
    /// # Errors
    /// As [`look_at`](Self::look_at).
    pub fn look_at_bytes(
        &mut self,
        bytes: impl Read,
        path: impl AsRef<Path>,
        delimiter: Delimiter,
        schema: &TableSchema,
        is_looked_at: impl Fn(usize) -> bool,
    ) -> Result<(), TableError> {
        let path = path.as_ref();
        let mut records = Records::new(bytes, path, delimiter, schema.header.as_deref())?;
        if self.names.is_empty() {
            self.names = records.header().to_vec();
            self.seen = vec![(false, false); self.names.len()];
        } else if self.names != records.header() {
            let what = format!("`{}` has other columns than the files before it", path.display());
            return Err(TableError::Setting { what, remedy: "name files of the same columns" });
        }
        let missing = Missing::new(&schema.missing);
        let replace: Vec<_> = self.names.iter().map(|name| schema.replace.get(name)).collect();
        let mut row = 0;
        while records.advance()? {
            row += 1;
            if !is_looked_at(row - 1) {
                continue;
            }
            for (at, (is_seen, is_word)) in self.seen.iter_mut().enumerate() {
                let field = trim(records.bytes(at)).map_err(|_| records.not_utf8(at))?;
                let field = replaced(replace[at], field);
                if *is_word || missing.contains(field) {
                    continue;
                }
                *is_seen = true;
                let number = str::from_utf8(field).ok().and_then(|text| text.parse::<f64>().ok());
                *is_word = !number.is_some_and(f64::is_finite);
            }
        }
        Ok(())
    }

    /// The names of the columns, in their order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What a column holds: numbers where every value is one, else categories; `None` where no
    /// value was seen, or for a column that is not there.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<ColumnKind> {
        let at = self.names.iter().position(|other| other == name)?;
        let (is_seen, is_word) = self.seen[at];
        let kind = if is_word { ColumnKind::Category } else { ColumnKind::Number };
        is_seen.then_some(kind)
    }
}
