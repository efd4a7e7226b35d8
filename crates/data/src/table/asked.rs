//! The columns to read from a file.

#[cfg(feature = "parquet")]
use crate::table::ColumnKind;
use crate::table::TableSchema;
use crate::table::columns::Column;

/// The columns that were asked for: `None` for one whose guess was wrong.
pub(super) type AskedColumns = Vec<Option<Column>>;

/// What is known of a file before its columns are read.
#[derive(Debug, Clone, Copy)]
pub(super) enum First<'a> {
    /// Its first bytes.
    Bytes(&'a [u8]),
    /// The kinds of all columns; `None` for a type that a table does not have.
    #[cfg(feature = "parquet")]
    Kinds(&'a [Option<ColumnKind>]),
}

/// The columns to read from a file.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) schema: TableSchema,
    /// Whether the kind of a column is a guess: a field that does not fit is no error then, and the
    /// column is left out.
    pub(super) is_guessed: Vec<bool>,
}

impl Asked {
    /// Columns of known kinds.
    pub(super) fn known(schema: TableSchema) -> Self {
        let is_guessed = vec![false; schema.columns.len()];
        Self { schema, is_guessed }
    }
}
