//! An encoded table.

use crate::table::TableError;

/// An encoded table, column by column.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedTable {
    rows: usize,
    columns: Vec<EncodedColumn>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct EncodedColumn {
    pub(super) name: String,
    pub(super) values: EncodedValues,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum EncodedValues {
    Classes { classes: usize, values: Vec<u32> },
    Numbers(Vec<f32>),
    MultiHot { labels: usize, values: Vec<f32> },
}

impl EncodedTable {
    pub(super) const fn new(rows: usize, columns: Vec<EncodedColumn>) -> Self {
        Self { rows, columns }
    }

    /// How many rows there are.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// The classes of a column of categories.
    ///
    /// # Errors
    /// [`TableError::Unfitted`] or [`TableError::Kind`] for a column that does not exist or has
    /// another kind.
    pub fn classes(&self, column: &str) -> Result<&[u32], TableError> {
        match self.column(column)? {
            EncodedValues::Classes { values, .. } => Ok(values),
            other => Err(other.mismatch(column, "categories")),
        }
    }

    /// The number of classes of a column of categories: the size of its embedding.
    ///
    /// # Errors
    /// As [`classes`](Self::classes).
    pub fn class_count(&self, column: &str) -> Result<usize, TableError> {
        match self.column(column)? {
            EncodedValues::Classes { classes, .. } => Ok(*classes),
            other => Err(other.mismatch(column, "categories")),
        }
    }

    /// The standardized values of a column of numbers.
    ///
    /// # Errors
    /// As [`classes`](Self::classes).
    pub fn numbers(&self, column: &str) -> Result<&[f32], TableError> {
        match self.column(column)? {
            EncodedValues::Numbers(values) => Ok(values),
            other => Err(other.mismatch(column, "numbers")),
        }
    }

    /// The zeros and ones of a column of several labels, `[rows, labels]`, and how many labels
    /// there are.
    ///
    /// # Errors
    /// As [`classes`](Self::classes).
    pub fn labels(&self, column: &str) -> Result<(&[f32], usize), TableError> {
        match self.column(column)? {
            EncodedValues::MultiHot { labels, values } => Ok((values, *labels)),
            other => Err(other.mismatch(column, "several labels")),
        }
    }

    fn column(&self, name: &str) -> Result<&EncodedValues, TableError> {
        let found = self.columns.iter().find(|column| column.name == name);
        found
            .map(|column| &column.values)
            .ok_or_else(|| TableError::Unfitted { column: name.to_owned() })
    }
}

impl EncodedValues {
    fn mismatch(&self, column: &str, expected: &'static str) -> TableError {
        let got = match self {
            Self::Classes { .. } => "categories",
            Self::Numbers(_) => "numbers",
            Self::MultiHot { .. } => "several labels",
        };
        TableError::Kind { column: column.to_owned(), expected, got }
    }
}
