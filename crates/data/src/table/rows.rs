//! Encoding of rows as classes and numbers, fitted on the training rows only.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use updraft_simd::{over, pool_threads};

use crate::digest::Digest;
use crate::kernels::prefetch;
use crate::table::parallel::in_parallel;
use crate::table::row_config::RowConfig;
use crate::table::{ColumnSchema, FeatureEncoder, Table, TableError, TableSchema, Vocabulary};

/// How the features of a row are encoded as classes and numbers; saved with serde, it encodes at
/// prediction time without the training data.
///
/// - A category becomes a class. A missing one is a separate class if it is missing in training
///   rows, otherwise unknown.
/// - With [`CategoryEncoding::OneHot`] it becomes a 0 or 1 for each word, and one more for a missing
///   word if words are missing in training rows; unknown words have none.
/// - A number is scaled by a [`NumberScale`]; a missing one is 0. If it is missing in training
///   rows, a second number is 1 for missing and 0 otherwise.
/// - A truth value is 1 or −1, and a missing one 0, with a second number likewise.
/// - A date becomes the number of its days, scaled, and sine and cosine of its place in the year, in
///   the week and, if training rows have times, in the day.
/// - Several labels become one 0 or 1 for each label of the vocabulary.
///
/// Words, scales and which columns miss values come from the rows it was fitted on and from no
/// other.
///
/// [`CategoryEncoding::OneHot`]: crate::CategoryEncoding::OneHot
/// [`NumberScale`]: crate::NumberScale
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SavedEncoder")]
pub struct RowEncoder {
    schema: TableSchema,
    columns: Vec<FeatureEncoder>,
}

/// An encoder as it was saved: the file may have been edited.
#[derive(Deserialize)]
#[serde(rename = "RowEncoder")]
struct SavedEncoder {
    schema: TableSchema,
    columns: Vec<FeatureEncoder>,
}

impl TryFrom<SavedEncoder> for RowEncoder {
    type Error = String;

    fn try_from(saved: SavedEncoder) -> Result<Self, String> {
        let SavedEncoder { schema, columns } = saved;
        if schema.columns.len() != columns.len() {
            let (names, codes) = (schema.columns.len(), columns.len());
            return Err(format!("`schema` has {names} columns and `columns` has {codes}"));
        }
        for (column, feature) in schema.columns.iter().zip(&columns) {
            if let FeatureEncoder::Number { scale, .. } | FeatureEncoder::Date { scale, .. } =
                feature
                && !scale.is_valid()
            {
                return Err(format!("the scale of `{}` is none", column.name));
            }
        }
        Ok(Self { schema, columns })
    }
}

/// Encoded rows, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedRows {
    pub(super) rows: usize,
    pub(super) class_columns: usize,
    pub(super) number_columns: usize,
    pub(super) classes: Vec<u32>,
    pub(super) numbers: Vec<f32>,
}

/// Rows that are encoded together: their classes and numbers stay in a cache from column to column.
const BLOCK_ROWS: usize = 1 << 10;

/// Neighboring rows, encoded by one thread.
pub(super) struct RowBlock<'a> {
    pub(super) rows: Range<usize>,
    pub(super) class_columns: usize,
    pub(super) number_columns: usize,
    pub(super) classes: &'a mut [u32],
    pub(super) numbers: &'a mut [f32],
}

/// Where a column begins among the classes and the numbers of a row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) class: usize,
    pub(super) number: usize,
}

impl EncodedRows {
    /// How many rows there are.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// The classes of a row, one for each column of categories.
    ///
    /// # Panics
    /// If the row does not exist.
    #[must_use]
    pub fn classes(&self, row: usize) -> &[u32] {
        &self.classes[row * self.class_columns..][..self.class_columns]
    }

    /// The numbers of a row.
    ///
    /// # Panics
    /// If the row does not exist.
    #[must_use]
    pub fn numbers(&self, row: usize) -> &[f32] {
        &self.numbers[row * self.number_columns..][..self.number_columns]
    }

    /// Prefetches a row that is read soon; does not block.
    ///
    /// # Panics
    /// If the row does not exist.
    pub fn announce(&self, row: usize) {
        prefetch(self.classes(row));
        prefetch(self.numbers(row));
    }
}

impl RowEncoder {
    /// Fits the encoding of every column of a table to the given rows.
    ///
    /// # Errors
    /// [`TableError::Setting`] for no rows, or a column without a value in any of them;
    /// [`TableError::OutOfRange`] for a row that does not exist.
    ///
    /// # Example
    /// ```
    /// use updraft_data::{Delimiter, RowConfig, RowEncoder, Table, TableSchema};
    ///
    /// let schema = TableSchema::new().category("color").number("size");
    /// let bytes = &b"color,size\nred,1\n?,2\ngreen,\n"[..];
    /// let table = Table::parse(bytes, "inline.csv", Delimiter::Comma, schema)?;
    /// // Row 2 is not in the training part, so its color is unknown, and no row misses a size.
    /// let encoder = RowEncoder::fit(&table, &[0, 1], RowConfig::default())?;
    /// assert_eq!((encoder.class_counts(), encoder.number_names()), (vec![3], vec!["size"]));
    /// let rows = encoder.encode(&table)?;
    /// assert_eq!((rows.classes(1), rows.classes(2), rows.numbers(2)), (&[2][..], &[0][..], &[0.0][..]));
    /// # Ok::<(), updraft_data::TableError>(())
    /// ```
    pub fn fit(table: &Table, rows: &[usize], config: RowConfig) -> Result<Self, TableError> {
        if rows.is_empty() {
            let what = "an encoder cannot be fitted on no rows".to_owned();
            return Err(TableError::Setting { what, remedy: "pass the training part's rows" });
        }
        for &row in rows {
            table.check_row(row)?;
        }
        let fit = |ColumnSchema { name, rules, .. }: &ColumnSchema| {
            let refuse = |what: String| TableError::Setting {
                what: format!("column `{name}` {what}"),
                remedy: match config.min_rows {
                    0 | 1 => "leave it out of the features",
                    _ => "lower that number, or leave it out of the features",
                },
            };
            let feature = FeatureEncoder::fit(table.column(name)?, rows, config);
            let feature = feature.ok_or_else(|| {
                refuse(match config.min_rows {
                    0 | 1 => "has no value in any training row".to_owned(),
                    least => format!("has no value in at least {least} training rows (`min_rows`)"),
                })
            })?;
            let none = "has none of the values that its rules list in the training rows";
            feature.limited(rules).ok_or_else(|| refuse(none.to_owned()))
        };
        let schema = table.schema().clone();
        let columns = in_parallel(&schema.columns, fit);
        Ok(Self { columns: columns.into_iter().collect::<Result<_, _>>()?, schema })
    }

    /// The columns that a file must have.
    #[must_use]
    pub const fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Each feature with how it is encoded, in the order of the schema.
    pub fn features(&self) -> impl Iterator<Item = (&str, &FeatureEncoder)> {
        self.schema.columns.iter().map(|column| column.name.as_str()).zip(&self.columns)
    }

    /// How many classes each embedded column of categories has, as
    /// [`FeatureEncoder::class_count`].
    #[must_use]
    pub fn class_counts(&self) -> Vec<usize> {
        self.columns.iter().filter_map(FeatureEncoder::class_count).collect()
    }

    /// For each number of a row the column that it comes from.
    #[must_use]
    pub fn number_names(&self) -> Vec<&str> {
        let of = |(name, feature): (_, &FeatureEncoder)| {
            std::iter::repeat_n(name, feature.number_count())
        };
        self.features().flat_map(of).collect()
    }

    /// A SHA-256, as 64 hexadecimal digits, of everything that was fitted.
    #[must_use]
    pub fn digest(&self) -> String {
        let add = |digest: Digest, (name, feature): (&str, &FeatureEncoder)| {
            feature.add_to(digest.text(name))
        };
        self.features().fold(Digest::new("updraft rows"), add).hex()
    }

    /// Encodes every row of a table.
    ///
    /// # Errors
    /// [`TableError::Unfitted`] if the table lacks a column, [`TableError::Kind`] if one has
    /// another kind.
    pub fn encode(&self, table: &Table) -> Result<EncodedRows, TableError> {
        let (class_columns, number_columns) =
            (self.class_counts().len(), self.number_names().len());
        let mut encoded = EncodedRows {
            rows: table.rows(),
            class_columns,
            number_columns,
            classes: vec![Vocabulary::UNKNOWN; table.rows() * class_columns],
            numbers: vec![0.0; table.rows() * number_columns],
        };
        let (mut columns, mut place) = (Vec::new(), Place::default());
        for (name, feature) in self.features() {
            let column = table.column(name)?;
            let Some(ready) = feature.prepare(column) else {
                return Err(column.mismatch(name, feature.expected()));
            };
            columns.push((ready, place));
            place.class += usize::from(feature.class_count().is_some());
            place.number += feature.number_count();
        }
        let mut blocks = Vec::with_capacity(table.rows().div_ceil(BLOCK_ROWS));
        let (mut classes, mut numbers) = (&mut *encoded.classes, &mut *encoded.numbers);
        for first in (0..table.rows()).step_by(BLOCK_ROWS) {
            let rows = first..table.rows().min(first + BLOCK_ROWS);
            let (own_classes, own_numbers);
            (own_classes, classes) = classes.split_at_mut(rows.len() * class_columns);
            (own_numbers, numbers) = numbers.split_at_mut(rows.len() * number_columns);
            let (classes, numbers) = (own_classes, own_numbers);
            blocks.push(RowBlock { rows, class_columns, number_columns, classes, numbers });
        }
        over(blocks, &mut vec![(); pool_threads()], |_, mut block, ()| {
            for (column, place) in &columns {
                column.encode(&mut block, *place);
            }
        });
        Ok(encoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Delimiter;
    use crate::table::row_config::CategoryEncoding;

    fn read(text: &str) -> Table {
        let schema = TableSchema::new().category("color").number("size");
        Table::parse(text.as_bytes(), "inline.csv", Delimiter::Comma, schema).expect("a table")
    }

    #[test]
    fn words_are_classes_or_numbers_and_unknown_ones_have_none() {
        let table = read("color,size\ngreen,1\nred,3\n,5\nviolet,3\n");
        let fit = |rows: &[usize], encoding| {
            let config = RowConfig::default().with_scaling(crate::Scaling::Standard);
            RowEncoder::fit(&table, rows, config.with_encoding(encoding)).expect("fitted")
        };
        let classes = fit(&[0, 1, 2], CategoryEncoding::Embedding);
        assert_eq!((classes.class_counts(), classes.number_names()), (vec![4], vec!["size"]));
        let rows = classes.encode(&table).expect("encoded");
        assert_eq!((0..4).map(|row| rows.classes(row)[0]).collect::<Vec<_>>(), [1, 2, 3, 0]);

        let numbers = fit(&[0, 1, 2], CategoryEncoding::OneHot);
        assert_eq!(numbers.class_counts(), [0; 0]);
        assert_eq!(numbers.number_names(), ["color", "color", "color", "size"]);
        let rows = numbers.encode(&table).expect("encoded");
        let words: Vec<&[f32]> = (0..4).map(|row| &rows.numbers(row)[..3]).collect();
        assert_eq!(words, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0; 3]]);

        // Without missing words in the training rows, a missing one is like an unknown one.
        let whole = fit(&[0, 1], CategoryEncoding::OneHot);
        let rows = whole.encode(&table).expect("encoded");
        assert_eq!(rows.numbers(2), [0.0, 0.0, 3.0]);
        assert_ne!(whole.digest(), fit(&[0, 1], CategoryEncoding::Embedding).digest());
        let text = serde_json::to_string(&whole).expect("JSON");
        assert_eq!(serde_json::from_str::<RowEncoder>(&text).expect("an encoder"), whole);
    }
}
