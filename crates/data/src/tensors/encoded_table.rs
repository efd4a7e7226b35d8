//! Columns of an encoded table as tensors.

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::table::{EncodedTable, TableError};

impl EncodedTable {
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
        let values = interleave(&columns, self.rows(), |value| i64::from(*value));
        Ok(Tensor::from_data(TensorData::new(values, [self.rows(), columns.len()]), device))
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
        let values = interleave(&columns, self.rows(), |value| *value);
        Ok(Tensor::from_data(TensorData::new(values, [self.rows(), columns.len()]), device))
    }

    /// A column of several labels as a tensor `[rows, labels]` of zeros and ones.
    ///
    /// # Errors
    /// As [`classes`](Self::classes).
    pub fn label_tensor(&self, column: &str, device: &Device) -> Result<Tensor<2>, TableError> {
        let (values, labels) = self.labels(column)?;
        Ok(Tensor::from_data(TensorData::new(values.to_vec(), [self.rows(), labels]), device))
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

/// Columns as rows.
fn interleave<T, U>(columns: &[&[T]], rows: usize, convert: impl Fn(&T) -> U) -> Vec<U> {
    let mut values = Vec::with_capacity(rows * columns.len());
    for row in 0..rows {
        values.extend(columns.iter().map(|column| convert(&column[row])));
    }
    values
}
