//! The schema of a table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What one column holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ColumnKind {
    /// A category.
    Category,
    /// A finite number.
    Number,
    /// Any number of words, separated by a character; empty ones are ignored.
    MultiLabel {
        /// What divides the words.
        separator: char,
    },
}

impl ColumnKind {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Category => "categories",
            Self::Number => "numbers",
            Self::MultiLabel { .. } => "several labels",
        }
    }
}

/// One column to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnSchema {
    /// Its name in the header.
    pub name: String,
    /// What it holds.
    pub kind: ColumnKind,
}

/// The columns to read from a table, in the order of the result; others are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TableSchema {
    /// The columns.
    pub columns: Vec<ColumnSchema>,
    /// Fields that stand for a missing value, compared after trimming spaces.
    pub missing: Vec<String>,
    /// The names of all columns, for a file without a header.
    pub header: Option<Vec<String>>,
    /// Replacements of field texts per column, after trimming spaces.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replace: BTreeMap<String, BTreeMap<String, String>>,
}

impl Default for TableSchema {
    fn default() -> Self {
        let missing = ["", "?", "NA", "N/A", "NaN", "nan", "null"].map(str::to_owned).to_vec();
        Self { columns: Vec::new(), missing, header: None, replace: BTreeMap::new() }
    }
}

impl TableSchema {
    /// No columns yet; empty fields, `?`, `NA`, `N/A`, `NaN`, `nan` and `null` are missing values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column of categories.
    #[must_use]
    pub fn category(self, name: impl Into<String>) -> Self {
        self.column(name, ColumnKind::Category)
    }

    /// Adds a column of numbers.
    #[must_use]
    pub fn number(self, name: impl Into<String>) -> Self {
        self.column(name, ColumnKind::Number)
    }

    /// Adds a column with several labels per field.
    #[must_use]
    pub fn multi_label(self, name: impl Into<String>, separator: char) -> Self {
        self.column(name, ColumnKind::MultiLabel { separator })
    }

    /// Sets the fields that stand for a missing value.
    #[must_use]
    pub fn with_missing(mut self, missing: Vec<String>) -> Self {
        self.missing = missing;
        self
    }

    /// Sets the names of all columns, for a file without a header.
    #[must_use]
    pub fn with_header(mut self, names: Vec<String>) -> Self {
        self.header = Some(names);
        self
    }

    /// Sets replacements of field texts per column.
    #[must_use]
    pub fn with_replaced(mut self, replace: BTreeMap<String, BTreeMap<String, String>>) -> Self {
        self.replace = replace;
        self
    }

    /// Adds a column of any kind.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, kind: ColumnKind) -> Self {
        self.columns.push(ColumnSchema { name: name.into(), kind });
        self
    }
}
