//! Encoding of columns, fitted on the training rows only.

use serde::{Deserialize, Serialize};

use crate::table::columns::{Column, MISSING, start};
use crate::table::encoded::{EncodedColumn, EncodedTable, EncodedValues};
use crate::table::parallel::in_parallel;
use crate::table::{ColumnRules, ColumnSchema, Table, TableError, TableSchema, Vocabulary};

/// How a table is fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FitConfig {
    /// Words in fewer training rows than this belong to the unknown class.
    pub min_rows: u64,
}

impl Default for FitConfig {
    fn default() -> Self {
        Self { min_rows: 1 }
    }
}

impl FitConfig {
    /// Sets the minimum number of training rows with a word.
    #[must_use]
    pub const fn with_min_rows(mut self, rows: u64) -> Self {
        self.min_rows = rows;
        self
    }
}

/// How each column is encoded; saved with serde, it encodes at prediction time without the training
/// data.
///
/// - A category becomes its class in a [`Vocabulary`].
/// - A number becomes `(x − mean) / std`; a missing one is the mean, 0.
/// - Several labels become one 0 or 1 per word of the vocabulary; unknown words have none.
///
/// Means, standard deviations (over `n`, not `n − 1`) and words come from the rows it was fitted
/// on and from no other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableEncoder {
    schema: TableSchema,
    columns: Vec<ColumnEncoder>,
}

/// How one column is encoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ColumnEncoder {
    /// A word becomes its class.
    Category(Vocabulary),
    /// A number is standardized.
    Number {
        /// The mean of the training rows.
        mean: f64,
        /// Their standard deviation; 1 if they are all equal.
        std: f64,
    },
    /// Each word becomes a 0 or a 1.
    MultiLabel(Vocabulary),
}

impl TableEncoder {
    /// Fits the encoding to the given rows of a table.
    ///
    /// # Errors
    /// [`TableError::Setting`] for no rows, [`TableError::OutOfRange`] for one that does not exist.
    ///
    /// # Example
    /// ```
    /// use updraft_data::{Delimiter, FitConfig, Table, TableEncoder, TableSchema, Vocabulary};
    ///
    /// let schema = TableSchema::new().category("color");
    /// let bytes = &b"color\nred\nblue\ngreen\n"[..];
    /// let table = Table::parse(bytes, "inline.csv", Delimiter::Comma, schema)?;
    /// // Row 2 is not in the training part, so its color is unknown.
    /// let encoder = TableEncoder::fit(&table, &[0, 1], FitConfig::default())?;
    /// assert_eq!(encoder.encode(&table)?.classes("color")?, [2, 1, Vocabulary::UNKNOWN]);
    /// # Ok::<(), updraft_data::TableError>(())
    /// ```
    pub fn fit(table: &Table, rows: &[usize], config: FitConfig) -> Result<Self, TableError> {
        if rows.is_empty() {
            let what = "an encoder cannot be fitted on no rows".to_owned();
            return Err(TableError::Setting { what, remedy: "pass the training part's rows" });
        }
        for &row in rows {
            table.check_row(row)?;
        }
        let schema = table.schema().clone();
        let fit = |column: &ColumnSchema| {
            let fitted = ColumnEncoder::fit(table.column(&column.name)?, rows, config);
            Ok(fitted.limited(&column.rules))
        };
        let columns = in_parallel(&schema.columns, fit).into_iter();
        Ok(Self { columns: columns.collect::<Result<_, TableError>>()?, schema })
    }

    /// The columns that a file must have.
    #[must_use]
    pub const fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// How a column is encoded.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&ColumnEncoder> {
        let at = self.schema.columns.iter().position(|column| column.name == name)?;
        self.columns.get(at)
    }

    /// The same encoding of all columns but one: for rows whose target is to be predicted.
    #[must_use]
    pub fn without(&self, column: &str) -> Self {
        let kept = |at: &usize| self.schema.columns[*at].name != column;
        let kept: Vec<usize> = (0..self.schema.columns.len()).filter(kept).collect();
        let mut schema = self.schema.clone();
        schema.columns = kept.iter().map(|&at| self.schema.columns[at].clone()).collect();
        let columns = kept.iter().filter_map(|&at| self.columns.get(at).cloned()).collect();
        Self { schema, columns }
    }

    /// Encodes every row of a table.
    ///
    /// # Errors
    /// [`TableError::Unfitted`] if the table lacks a column, [`TableError::Kind`] if one has
    /// another kind.
    pub fn encode(&self, table: &Table) -> Result<EncodedTable, TableError> {
        if self.columns.len() != self.schema.columns.len() {
            let what =
                "the saved encoder has more columns in one list than in the other".to_owned();
            return Err(TableError::Setting { what, remedy: "save it again" });
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        for (schema, encoder) in self.schema.columns.iter().zip(&self.columns) {
            let column = table.column(&schema.name)?;
            let values = encoder
                .encode(column)
                .ok_or_else(|| column.mismatch(&schema.name, schema.kind.name()))?;
            columns.push(EncodedColumn { name: schema.name.clone(), values });
        }
        Ok(EncodedTable::new(table.rows(), columns))
    }
}

impl ColumnEncoder {
    fn fit(column: &Column, rows: &[usize], config: FitConfig) -> Self {
        match column {
            Column::Category { words, codes } => {
                let seen = seen(words.words().len(), codes, rows);
                Self::Category(frequent(words.words(), &seen, config.min_rows))
            }
            Column::Number { numbers, .. } => {
                let (mean, std) = moments(rows.iter().map(|&row| numbers[row]));
                Self::Number { mean, std }
            }
            Column::MultiLabel { words, codes, ends, .. } => {
                let seen = seen_labels(words.words().len(), (codes, ends), rows);
                Self::MultiLabel(frequent(words.words(), &seen, config.min_rows))
            }
        }
    }

    /// The same without the words that the rules of its column do not have.
    fn limited(self, rules: &ColumnRules) -> Self {
        let limited = |vocabulary: Vocabulary| Vocabulary::from(rules.keep(vocabulary.into()));
        match self {
            Self::Category(vocabulary) => Self::Category(limited(vocabulary)),
            Self::MultiLabel(vocabulary) => Self::MultiLabel(limited(vocabulary)),
            number @ Self::Number { .. } => number,
        }
    }

    /// The column's values, or `None` for a column of another kind.
    fn encode(&self, column: &Column) -> Option<EncodedValues> {
        match (self, column) {
            (Self::Category(vocabulary), Column::Category { words, codes }) => {
                let classes = classes(vocabulary, words.words());
                let class = |&code: &u32| {
                    // The code of a missing word is past the end of the list.
                    classes.get(code as usize).copied().unwrap_or(Vocabulary::UNKNOWN)
                };
                Some(EncodedValues::Classes {
                    classes: vocabulary.classes(),
                    values: codes.iter().map(class).collect(),
                })
            }
            (Self::Number { mean, std }, Column::Number { numbers, .. }) => {
                let standard = |&number: &f64| {
                    if number.is_nan() { 0.0 } else { ((number - mean) / std) as f32 }
                };
                Some(EncodedValues::Numbers(numbers.iter().map(standard).collect()))
            }
            (Self::MultiLabel(vocabulary), Column::MultiLabel { words, codes, ends, .. }) => {
                let classes = classes(vocabulary, words.words());
                let labels = vocabulary.words().len();
                let mut values = vec![0.0; labels * ends.len()];
                for row in 0..ends.len() {
                    for &code in &codes[start(ends, row)..ends[row]] {
                        let class = classes[code as usize];
                        if class != Vocabulary::UNKNOWN {
                            values[row * labels + class as usize - 1] = 1.0;
                        }
                    }
                }
                Some(EncodedValues::MultiHot { labels, values })
            }
            _ => None,
        }
    }
}

/// The number of rows with each word.
pub(super) fn seen(words: usize, codes: &[u32], rows: &[usize]) -> Vec<u64> {
    let mut seen = vec![0_u64; words];
    for &row in rows {
        if codes[row] != MISSING {
            seen[codes[row] as usize] += 1;
        }
    }
    seen
}

/// The same for several labels per row.
pub(super) fn seen_labels(
    words: usize,
    (codes, ends): (&[u32], &[usize]),
    rows: &[usize],
) -> Vec<u64> {
    let mut seen = vec![0_u64; words];
    for &row in rows {
        let labels = &codes[start(ends, row)..ends[row]];
        for (at, &code) in labels.iter().enumerate() {
            // A label that is repeated in a field counts once.
            seen[code as usize] += u64::from(!labels[..at].contains(&code));
        }
    }
    seen
}

/// The class of each word of a table.
pub(super) fn classes(vocabulary: &Vocabulary, words: &[Box<str>]) -> Vec<u32> {
    words.iter().map(|word| vocabulary.class(word)).collect()
}

pub(super) fn frequent(words: &[Box<str>], seen: &[u64], least: u64) -> Vocabulary {
    let least = least.max(1);
    let frequent = words.iter().zip(seen).filter(|(_, seen)| **seen >= least);
    frequent.map(|(word, _)| word.to_string()).collect::<Vec<_>>().into()
}

/// Mean and standard deviation in two passes of f64; (0, 1) without numbers, and a standard
/// deviation of 1 for equal numbers.
pub(super) fn moments(numbers: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let present = || numbers.clone().filter(|number| !number.is_nan());
    let count = present().count() as f64;
    if count == 0.0 {
        return (0.0, 1.0);
    }
    // Divided before they are added, so that no sum of finite numbers overflows.
    let mean = present().map(|number| number / count).sum::<f64>();
    let variance = present().map(|number| (number - mean).powi(2) / count).sum::<f64>();
    let std = variance.sqrt();
    (mean, if std > 0.0 && std.is_finite() { std } else { 1.0 })
}
