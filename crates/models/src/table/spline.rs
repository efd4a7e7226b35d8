//! A Kolmogorov–Arnold network on embeddings of classes and on numbers, with one head per target.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use serde::{Deserialize, Serialize};
use updraft_kan::{Kan, KanConfig, KanLinearConfig};
use updraft_transformer::row_features;

use super::embedding::embedding_size;
use super::head::validate as validate_heads;
use super::{Categories, Head, RowFeatures};
use crate::error::TableNetConfigError;

/// The configuration of a [`SplineNet`].
///
/// # Example
/// ```
/// use updraft_models::{Head, RowFeatures, SplineNetConfig};
///
/// let features = RowFeatures { class_counts: vec![30, 12], numbers: 3 };
/// let config = SplineNetConfig::new(features, [Head::Classes(2)]).with_hidden([8]);
/// assert!(config.validate().is_ok());
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SplineNetConfig {
    /// What a row has.
    pub features: RowFeatures,
    /// What is predicted.
    pub heads: Vec<Head>,
    /// The largest size of an embedding; a column of `k` classes has `(k + 1) / 2` if that is less.
    pub embedding: usize,
    /// Features between the layers.
    pub hidden: Vec<usize>,
    /// The settings of all layers; their numbers of features are ignored.
    pub layer: KanLinearConfig,
}

impl SplineNetConfig {
    /// Embeddings of up to 16 values, 8 features between two layers of cubic splines on ±2.5.
    #[must_use]
    pub fn new(features: RowFeatures, heads: impl Into<Vec<Head>>) -> Self {
        let layer = KanLinearConfig::new(1, 1).with_domain_low(-2.5).with_domain_high(2.5);
        Self { features, heads: heads.into(), embedding: 16, hidden: vec![8], layer }
    }

    /// Sets [`embedding`](Self::embedding).
    #[must_use]
    pub const fn with_embedding(mut self, embedding: usize) -> Self {
        self.embedding = embedding;
        self
    }

    /// Sets [`hidden`](Self::hidden).
    #[must_use]
    pub fn with_hidden(mut self, hidden: impl Into<Vec<usize>>) -> Self {
        self.hidden = hidden.into();
        self
    }

    /// Sets [`layer`](Self::layer).
    #[must_use]
    pub fn with_layer(mut self, layer: KanLinearConfig) -> Self {
        self.layer = layer;
        self
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`TableNetConfigError`] for the first that is out of range.
    pub fn validate(&self) -> Result<(), TableNetConfigError> {
        self.features.validate()?;
        validate_heads(&self.heads)?;
        if self.embedding == 0 {
            return Err(TableNetConfigError::Zero { name: "embedding" });
        }
        self.network().validate().map_err(|cause| TableNetConfigError::Splines { cause })
    }

    /// The numbers that [`SplineNet::embed`] returns for a row: the inputs of the first layer.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.features.width(self.embedding)
    }

    /// Multiply-adds of the forward pass of one row: the non-zero basis functions and the base
    /// branch of each edge.
    #[must_use]
    pub fn multiply_adds(&self) -> u64 {
        let edges = self.network().widths.windows(2).map(|pair| pair[0] * pair[1]).sum::<usize>();
        (edges * (self.layer.degree + 2)) as u64
    }

    /// Creates a network with random parameters.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> SplineNet {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let size = |classes: usize| embedding_size(classes, self.embedding);
        SplineNet {
            categories: Categories::new(&self.features.class_counts, size, device),
            network: self.network().init(device),
            widths: self.heads.iter().map(|head| head.width()).collect(),
        }
    }

    fn network(&self) -> KanConfig {
        let outputs = self.heads.iter().map(|head| head.width()).sum();
        let widths = [&[self.inputs()], &*self.hidden, &[outputs]].concat();
        KanConfig::new(widths).with_layer(self.layer.clone())
    }
}

/// KAN layers on embeddings of classes and on numbers.
///
/// # Source
/// Liu et al. 2024, arXiv:2404.19756.
#[derive(Module, Debug)]
pub struct SplineNet {
    categories: Categories,
    network: Kan,
    /// Of each head.
    widths: Vec<usize>,
}

impl SplineNet {
    /// Computes the outputs of every row, one for each head.
    ///
    /// # Shapes
    /// - `classes`: `[rows, columns]`, each below its column's number of classes
    /// - `numbers`: `[rows, numbers]`
    /// - returns: for each head `[rows, width]`
    ///
    /// # Panics
    /// If the shapes are not those of the configuration's features.
    #[must_use]
    pub fn forward(&self, classes: Tensor<2, Int>, numbers: Tensor<2>) -> Vec<Tensor<2>> {
        self.forward_embedded(self.embed(classes, numbers))
    }

    /// The embeddings of a row's classes, and its numbers, which the first layer takes.
    ///
    /// # Shapes
    /// - `classes`, `numbers`: as of [`forward`](Self::forward)
    /// - returns: `[rows, inputs]`, see [`SplineNetConfig::inputs`]
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    #[must_use]
    pub fn embed(&self, classes: Tensor<2, Int>, numbers: Tensor<2>) -> Tensor<2> {
        row_features(classes, numbers, self.categories.vectors(), None)
    }

    /// The outputs for rows that [`embed`](Self::embed) returned.
    ///
    /// # Panics
    /// If the shape is another one.
    #[must_use]
    pub fn forward_embedded(&self, features: Tensor<2>) -> Vec<Tensor<2>> {
        let outputs = self.network.forward(features);
        if self.widths.len() == 1 {
            return vec![outputs];
        }
        let mut from = 0;
        let part = |&width: &usize| {
            from += width;
            outputs.clone().narrow(1, from - width, width)
        };
        self.widths.iter().map(part).collect()
    }

    /// The path of the last layer, whose outputs are those of the heads.
    #[must_use]
    pub fn head_path(&self) -> String {
        format!("network.layers.{}", self.network.layers.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::devices;

    use super::*;

    #[test]
    fn every_head_has_its_part_of_the_outputs() {
        for device in devices() {
            let features = RowFeatures { class_counts: vec![5, 3], numbers: 2 };
            let heads = [Head::Numbers(1), Head::Ordered(4), Head::Labels(2)];
            let config = SplineNetConfig::new(features, heads).with_hidden([4]);
            // Vectors of 3 and 2 numbers beside the 2; 3 + 8 coefficients and a factor an edge.
            assert_eq!(config.multiply_adds(), (7 * 4 + 4 * 6) * 5);
            let network = config.init(&device);
            let classes = Tensor::<2, Int>::ones([3, 2], &device);
            let outputs = network.forward(classes, Tensor::ones([3, 2], &device));
            assert_eq!(
                outputs.iter().map(Tensor::dims).collect::<Vec<_>>(),
                [[3, 1], [3, 3], [3, 2]]
            );
        }
    }

    #[test]
    fn splines_that_cannot_be_made_are_refused() {
        let features = RowFeatures { class_counts: vec![5], numbers: 0 };
        let config = SplineNetConfig::new(features, [Head::Numbers(1)]);
        let refused = config.clone().with_layer(config.layer.clone().with_intervals(0));
        assert!(refused.validate().is_err() && config.validate().is_ok());
        let refused = config.with_embedding(0).validate().expect_err("no vectors");
        assert!(refused.to_string().contains("`embedding` is 0"), "{refused}");
    }
}
