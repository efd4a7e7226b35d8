//! The settings of the encoding of rows.

use serde::{Deserialize, Serialize};

use crate::table::scale::Scaling;

/// How the words of a category become inputs of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CategoryEncoding {
    /// A class for each word, for an embedding.
    #[default]
    Embedding,
    /// A number for each word: 1 in the rows that have it, otherwise 0.
    OneHot,
}

/// How rows are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowConfig {
    /// Words in fewer training rows than this belong to the unknown class.
    pub min_rows: u64,
    /// How numbers are scaled.
    pub scaling: Scaling,
    /// How categories are encoded.
    pub encoding: CategoryEncoding,
}

impl Default for RowConfig {
    fn default() -> Self {
        let (scaling, encoding) = (Scaling::default(), CategoryEncoding::default());
        Self { min_rows: 1, scaling, encoding }
    }
}

impl RowConfig {
    /// Sets the minimum number of training rows with a word.
    #[must_use]
    pub const fn with_min_rows(mut self, rows: u64) -> Self {
        self.min_rows = rows;
        self
    }

    /// Sets how numbers are scaled.
    #[must_use]
    pub const fn with_scaling(mut self, scaling: Scaling) -> Self {
        self.scaling = scaling;
        self
    }

    /// Sets how categories are encoded.
    #[must_use]
    pub const fn with_encoding(mut self, encoding: CategoryEncoding) -> Self {
        self.encoding = encoding;
        self
    }
}
