//! Which values of a column are accepted.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::table::columns::{Column, Unfit};

/// Which values of a column are accepted; by default all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnRules {
    /// Whether a value may be missing.
    pub missing: bool,
    /// The words that an encoder gives a class, if training rows have them; `None` for all. For
    /// columns of words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// Whether words that are not in `values` are read, as unknown ones.
    pub unknown: bool,
}

impl Default for ColumnRules {
    fn default() -> Self {
        Self { missing: true, values: None, unknown: true }
    }
}

impl ColumnRules {
    /// Whether every value is accepted and none is unknown.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.missing && self.values.is_none()
    }

    /// Removes the words that are not in `values`.
    pub(super) fn keep(&self, words: Vec<String>) -> Vec<String> {
        let Some(values) = &self.values else { return words };
        let values: HashSet<&String> = values.iter().collect();
        words.into_iter().filter(|word| values.contains(word)).collect()
    }
}

/// The rules of a column while its fields are read.
pub(super) struct RuleCheck<'a> {
    missing: bool,
    /// The accepted words, if not all of them are.
    values: Option<HashSet<&'a str>>,
    /// Words of the column that were checked.
    checked: usize,
}

impl<'a> RuleCheck<'a> {
    /// `None` for rules that accept everything.
    pub(super) fn new(rules: &'a ColumnRules) -> Option<Self> {
        let values = rules.values.as_ref().filter(|_| !rules.unknown);
        let values = values.map(|values| values.iter().map(String::as_str).collect());
        let accepts_all = rules.missing && values.is_none();
        (!accepts_all).then_some(Self { missing: rules.missing, values, checked: 0 })
    }

    /// Checks the field that was appended to the column.
    pub(super) fn check(&mut self, column: &Column, is_missing: bool) -> Result<(), Unfit> {
        if is_missing && !self.missing {
            return Err(Unfit::Missing);
        }
        if let Some(values) = &self.values {
            let words = column.words();
            let other = words[self.checked..].iter().find(|word| !values.contains(&***word));
            if let Some(other) = other {
                return Err(Unfit::Unknown(other.to_string()));
            }
            self.checked = words.len();
        }
        Ok(())
    }
}
