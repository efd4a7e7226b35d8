//! The schema of a table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::table::ColumnRules;
use crate::table::instant::{days, short_truth};
use crate::table::number::finite;

/// What one column holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ColumnKind {
    /// A category.
    Category,
    /// A finite number.
    Number,
    /// A truth value: `true`, `yes`, `t`, `y` or `1`, or `false`, `no`, `f`, `n` or `0`, in any case;
    /// its number is 1 or 0.
    Boolean,
    /// A date of ISO 8601, such as `2024-02-29`, with or without a time, `2024-02-29T23:59:30Z`; its
    /// number is that of the days since 1970-01-01.
    Date,
    /// Any number of words, separated by a character; empty ones are ignored.
    MultiLabel {
        /// What divides the words.
        separator: char,
    },
}

impl ColumnKind {
    /// Whether a field that is not a missing value can be read as this kind.
    #[must_use]
    pub fn takes(&self, field: &str) -> bool {
        match self {
            Self::Number | Self::Boolean | Self::Date => self.number(field.as_bytes()).is_some(),
            Self::Category | Self::MultiLabel { .. } => true,
        }
    }

    /// The number of a field, finite; `None` if it has none, and of kinds without numbers.
    #[inline]
    pub(super) fn number(&self, field: &[u8]) -> Option<f64> {
        let text = || str::from_utf8(field).ok();
        match self {
            Self::Number => finite(field),
            Self::Boolean => short_truth(field),
            Self::Date => days(text()?),
            Self::Category | Self::MultiLabel { .. } => None,
        }
    }

    /// What a field of a kind with numbers has to be.
    pub(super) const fn expected(&self) -> &'static str {
        match self {
            Self::Boolean => "`true` or `false`, `yes` or `no`, `1` or `0`, or their first letters",
            Self::Date => "a date such as `2024-02-29`, or with a time such as `2024-02-29T23:59`",
            _ => "a finite number",
        }
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Category => "categories",
            Self::Number => "numbers",
            Self::Boolean => "truth values",
            Self::Date => "dates",
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
    /// Which of its values are accepted.
    #[serde(default, skip_serializing_if = "ColumnRules::is_empty")]
    pub rules: ColumnRules,
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

    /// Adds a column of truth values.
    #[must_use]
    pub fn boolean(self, name: impl Into<String>) -> Self {
        self.column(name, ColumnKind::Boolean)
    }

    /// Adds a column of dates.
    #[must_use]
    pub fn date(self, name: impl Into<String>) -> Self {
        self.column(name, ColumnKind::Date)
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
    pub fn column(self, name: impl Into<String>, kind: ColumnKind) -> Self {
        self.column_of(name, kind, ColumnRules::default())
    }

    /// The same of the values that rules accept.
    #[must_use]
    pub fn column_of(
        mut self,
        name: impl Into<String>,
        kind: ColumnKind,
        rules: ColumnRules,
    ) -> Self {
        self.columns.push(ColumnSchema { name: name.into(), kind, rules });
        self
    }
}
