//! An encoded table.

use burn::tensor::{Device, Int, Tensor, TensorData};

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

    /// Columns of categories as one tensor `[rows, columns]`, in the order given.
    ///
    /// # Errors
    /// As [`classes`](Self::classes); [`TableError::Setting`] for no columns.
    pub fn class_tensor(
        &self,
        columns: &[&str],
        device: &Device,
    ) -> Result<Tensor<2, Int>, TableError> {
        let columns: Vec<&[u32]> = self.gather(columns, |column| self.classes(column))?;
        let values = interleave(&columns, self.rows, |value| i64::from(*value));
        Ok(Tensor::from_data(TensorData::new(values, [self.rows, columns.len()]), device))
    }

    /// Columns of numbers as one tensor `[rows, columns]`, in the order given.
    ///
    /// # Errors
    /// As [`classes`](Self::classes); [`TableError::Setting`] for no columns.
    pub fn number_tensor(
        &self,
        columns: &[&str],
        device: &Device,
    ) -> Result<Tensor<2>, TableError> {
        let columns: Vec<&[f32]> = self.gather(columns, |column| self.numbers(column))?;
        let values = interleave(&columns, self.rows, |value| *value);
        Ok(Tensor::from_data(TensorData::new(values, [self.rows, columns.len()]), device))
    }

    /// A column of several labels as a tensor `[rows, labels]` of zeros and ones.
    ///
    /// # Errors
    /// As [`classes`](Self::classes).
    pub fn label_tensor(&self, column: &str, device: &Device) -> Result<Tensor<2>, TableError> {
        let (values, labels) = self.labels(column)?;
        Ok(Tensor::from_data(TensorData::new(values.to_vec(), [self.rows, labels]), device))
    }

    fn column(&self, name: &str) -> Result<&EncodedValues, TableError> {
        let found = self.columns.iter().find(|column| column.name == name);
        found
            .map(|column| &column.values)
            .ok_or_else(|| TableError::Unfitted { column: name.to_owned() })
    }

    fn gather<'a, T>(
        &'a self,
        columns: &[&str],
        get: impl Fn(&str) -> Result<&'a [T], TableError>,
    ) -> Result<Vec<&'a [T]>, TableError> {
        if columns.is_empty() {
            let what = "a tensor of no columns".to_owned();
            return Err(TableError::Setting { what, remedy: "name at least one" });
        }
        columns.iter().map(|column| get(column)).collect()
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

/// Columns as rows.
fn interleave<T, U>(columns: &[&[T]], rows: usize, convert: impl Fn(&T) -> U) -> Vec<U> {
    let mut values = Vec::with_capacity(rows * columns.len());
    for row in 0..rows {
        values.extend(columns.iter().map(|column| convert(&column[row])));
    }
    values
}
