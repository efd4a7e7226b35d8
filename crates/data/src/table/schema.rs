//! What the columns of a table hold.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What one column holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ColumnKind {
    /// One word of a few: a category.
    Category,
    /// A finite number.
    Number,
    /// Any number of words, divided by a character; empty ones do not count.
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

/// The columns to read from a table, in the order of the result; others are passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TableSchema {
    /// The columns.
    pub columns: Vec<ColumnSchema>,
    /// Fields that stand for a missing value, compared after trimming spaces.
    pub missing: Vec<String>,
    /// The names of all columns of a file whose first line is a record already.
    pub header: Option<Vec<String>>,
    /// For each column, fields that are read as another text, after trimming spaces.
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

    /// Adds a column of several labels a field.
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

    /// Sets the names of all columns, for a file whose first line is a record already.
    #[must_use]
    pub fn with_header(mut self, names: Vec<String>) -> Self {
        self.header = Some(names);
        self
    }

    /// Sets, for each column, the fields that are read as another text.
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
