//! Inference of column kinds: numbers, dates, truth values or categories.

use std::io::Read;
use std::path::Path;

use crate::table::columns::{Missing, replaced, trim};
use crate::table::instant::truth;
use crate::table::open::open;
use crate::table::records::{Delimiter, Records};
use crate::table::{ColumnKind, TableError, TableSchema};

/// The inferred kinds of columns, from the records that were examined.
#[derive(Debug, Clone, Default)]
pub struct InferredColumns {
    names: Vec<String>,
    /// What each column can be.
    seen: Vec<Seen>,
}

impl InferredColumns {
    /// Examines the records of a file for which `is_looked_at` returns true, called with the
    /// record's number from 0; more files with the same columns can be added.
    ///
    /// `schema` has the names of a file without a header, the fields that stand for a missing value
    /// and those that are read as another text; its columns do not matter.
    ///
    /// # Errors
    /// [`TableError`] with file and line, [`TableError::Setting`] for a file of other columns.
    pub fn look_at(
        &mut self,
        path: impl AsRef<Path>,
        delimiter: Delimiter,
        schema: &TableSchema,
        is_looked_at: impl Fn(usize) -> bool,
    ) -> Result<(), TableError> {
        let path = path.as_ref();
        let file = open(path)?;
        self.look_at_bytes(file, path, delimiter, schema, is_looked_at)
    }

    /// The same for bytes; `path` names them in errors.
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
            self.seen = vec![Seen::default(); self.names.len()];
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
            for (at, seen) in self.seen.iter_mut().enumerate() {
                let field = trim(records.bytes(at)).map_err(|_| records.not_utf8(at))?;
                let field = replaced(replace[at], field);
                if !missing.contains(field) {
                    seen.look_at(field);
                }
            }
        }
        Ok(())
    }

    /// The names of the columns, in their order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The kind of a column: numbers if every value is one, dates if every value is one, truth values
    /// if each is `true` or `false`, `yes` or `no` in any case, otherwise categories; `None` if it has
    /// no values or does not exist.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<ColumnKind> {
        let at = self.names.iter().position(|other| other == name)?;
        self.seen[at].kind()
    }
}

/// What a column can be by the values that were looked at.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    has_value: bool,
    /// Whether a value is no number, no date, or no truth value.
    no_number: bool,
    no_date: bool,
    no_truth: bool,
}

impl Seen {
    fn look_at(&mut self, field: &[u8]) {
        self.has_value = true;
        self.no_number = self.no_number || ColumnKind::Number.number(field).is_none();
        self.no_date = self.no_date || ColumnKind::Date.number(field).is_none();
        self.no_truth = self.no_truth || truth(field).is_none();
    }

    fn kind(self) -> Option<ColumnKind> {
        let kind = match self {
            Self { no_number: false, .. } => ColumnKind::Number,
            Self { no_date: false, .. } => ColumnKind::Date,
            Self { no_truth: false, .. } => ColumnKind::Boolean,
            _ => ColumnKind::Category,
        };
        self.has_value.then_some(kind)
    }
}
