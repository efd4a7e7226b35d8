//! Tensors by name, as in a file of weights.

use std::collections::BTreeMap;

use burn::tensor::{DType, TensorData};

use super::error::ImportError;

/// The tensors of a model.
pub(super) struct State(BTreeMap<String, TensorData>);

impl State {
    pub(super) fn new(tensors: impl IntoIterator<Item = (String, TensorData)>) -> Self {
        Self(tensors.into_iter().collect())
    }

    pub(super) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The prefixes of the names that end with `ending` as a whole component.
    pub(super) fn prefixes(&self, ending: &str) -> Vec<&str> {
        let prefixes = self.names().filter_map(|name| name.strip_suffix(ending));
        prefixes.filter(|prefix| prefix.is_empty() || prefix.ends_with('.')).collect()
    }

    /// The shape of a required tensor.
    pub(super) fn shape<const D: usize>(&self, name: &str) -> Result<[usize; D], ImportError> {
        let data =
            self.0.get(name).ok_or_else(|| ImportError::Missing { name: name.to_owned() })?;
        data.shape().to_vec().try_into().map_err(|actual| ImportError::Shape {
            name: name.to_owned(),
            expected: vec![0; D],
            actual,
        })
    }

    /// The numbers of a required tensor, with its shape.
    pub(super) fn numbers<const D: usize>(
        &self,
        name: &str,
        expected: [usize; D],
    ) -> Result<Vec<f32>, ImportError> {
        let data =
            self.0.get(name).ok_or_else(|| ImportError::Missing { name: name.to_owned() })?;
        if **data.shape() != expected {
            let (name, actual) = (name.to_owned(), data.shape().to_vec());
            return Err(ImportError::Shape { name, expected: expected.to_vec(), actual });
        }
        if !data.dtype().is_float() {
            return Err(ImportError::Dtype { name: name.to_owned(), dtype: data.dtype() });
        }
        let data = data.clone().convert_dtype(DType::F32);
        Ok(data.try_into_vec().expect("f32 was asked for"))
    }

    /// The numbers of an optional tensor.
    pub(super) fn optional<const D: usize>(
        &self,
        name: &str,
        expected: [usize; D],
    ) -> Result<Option<Vec<f32>>, ImportError> {
        self.0.contains_key(name).then(|| self.numbers(name, expected)).transpose()
    }
}

/// Transposes `[rows, columns, run]` to `[columns, rows, run]`.
pub(super) fn swapped(numbers: &[f32], rows: usize, columns: usize, run: usize) -> Vec<f32> {
    let mut swapped = Vec::with_capacity(numbers.len());
    for column in 0..columns {
        for row in 0..rows {
            let first = (row * columns + column) * run;
            swapped.extend_from_slice(&numbers[first..first + run]);
        }
    }
    swapped
}
