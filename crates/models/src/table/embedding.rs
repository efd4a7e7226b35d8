//! Embeddings of the categories of a row.

use burn::module::{Initializer, Module};
use burn::nn::{Embedding, EmbeddingConfig};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::error::TableNetConfigError;

/// The features of a table's rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowFeatures {
    /// How many classes each column of categories has.
    pub class_counts: Vec<usize>,
    /// How many numbers a row has.
    pub numbers: usize,
}

/// The size of a class's embedding: at most `most`, smaller in columns with few classes.
pub(crate) fn embedding_size(classes: usize, most: usize) -> usize {
    classes.div_ceil(2).min(most)
}

impl RowFeatures {
    /// The size of a row's embeddings and numbers together.
    pub(crate) fn width(&self, most: usize) -> usize {
        let vectors = self.class_counts.iter().map(|&classes| embedding_size(classes, most));
        vectors.sum::<usize>() + self.numbers
    }

    pub(crate) fn validate(&self) -> Result<(), TableNetConfigError> {
        if self.class_counts.is_empty() && self.numbers == 0 {
            return Err(TableNetConfigError::NoFeatures);
        }
        match self.class_counts.iter().position(|&count| count == 0) {
            Some(column) => Err(TableNetConfigError::NoClasses { column }),
            None => Ok(()),
        }
    }
}

/// An embedding table for each column of categories.
#[derive(Module, Debug)]
pub(crate) struct Categories {
    columns: Vec<Embedding>,
}

impl Categories {
    /// Embeddings of `size(classes)` values for the classes of each column, from a normal
    /// distribution with standard deviation `1/√size`.
    pub(crate) fn new(
        class_counts: &[usize],
        size: impl Fn(usize) -> usize,
        device: &Device,
    ) -> Self {
        let column = |&classes: &usize| {
            let std = 1.0 / (size(classes) as f64).sqrt();
            EmbeddingConfig::new(classes, size(classes))
                .with_initializer(Initializer::Normal { mean: 0.0, std })
                .init(device)
        };
        Self { columns: class_counts.iter().map(column).collect() }
    }

    /// The embeddings of all classes of each column, `[classes, size]` each.
    pub(crate) fn vectors(&self) -> Vec<Tensor<2>> {
        self.columns.iter().map(|column| column.weight.val()).collect()
    }
}
