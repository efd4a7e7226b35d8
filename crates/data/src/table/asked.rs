//! The columns to read from a file.

use crate::table::TableSchema;
use crate::table::columns::Column;

/// The columns that were asked for: `None` for one whose guess was wrong.
pub(super) type AskedColumns = Vec<Option<Column>>;

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
