//! Perceptrons, plain and residual, on embeddings of classes and periodic features of numbers.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor};
use serde::{Deserialize, Serialize};
use updraft_transformer::{DenseLayer, dropout, fused_linear, perceptron, row_features};

use super::embedding::embedding_size;
use super::head::validate as validate_heads;
use super::{Categories, Head, Heads, Periodic, RowFeatures};
use crate::error::TableNetConfigError;
use crate::layer_norm::{EPSILON, layer_norm};

/// The size of a periodic embedding of one number.
const NUMBER: usize = 8;

/// The hidden layers of a [`TableNet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trunk {
    /// Linear layers, each followed by `ReLU` and dropout.
    #[default]
    Plain,
    /// Blocks `x + dropout(W₂·dropout(relu(W₁·norm(x))))` between a first linear layer and a final
    /// normalization with `ReLU`, with twice the width inside a block.
    Residual,
}

/// The configuration of a [`TableNet`].
///
/// # Example
/// ```
/// use updraft_models::{Head, RowFeatures, TableNetConfig, Trunk};
///
/// let features = RowFeatures { class_counts: vec![30, 12], numbers: 3 };
/// let config = TableNetConfig::new(features, [Head::Classes(2)])
///     .with_trunk(Trunk::Residual)
///     .with_frequencies(16);
/// assert!(config.validate().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TableNetConfig {
    /// What a row has.
    pub features: RowFeatures,
    /// What is predicted.
    pub heads: Vec<Head>,
    /// The largest size of an embedding; a column of `k` classes has `(k + 1) / 2` if that is less.
    pub embedding: usize,
    /// Frequencies of each number's periodic embedding; 0 uses the numbers directly.
    pub frequencies: usize,
    /// The standard deviation of the initial frequencies.
    pub frequency_scale: f64,
    /// What the hidden layers are.
    pub trunk: Trunk,
    /// Features of each hidden layer, in order; of a residual trunk of each block, all the same.
    pub hidden: Vec<usize>,
    /// The dropout probability of hidden features.
    pub dropout: f64,
}

impl TableNetConfig {
    /// Embeddings of up to 16 values, numbers used directly, two plain layers of 128, dropout 0.1.
    #[must_use]
    pub fn new(features: RowFeatures, heads: impl Into<Vec<Head>>) -> Self {
        Self {
            features,
            heads: heads.into(),
            embedding: 16,
            frequencies: 0,
            frequency_scale: 0.1,
            trunk: Trunk::Plain,
            hidden: vec![128, 128],
            dropout: 0.1,
        }
    }

    /// Sets [`embedding`](Self::embedding).
    #[must_use]
    pub const fn with_embedding(mut self, embedding: usize) -> Self {
        self.embedding = embedding;
        self
    }

    /// Sets [`frequencies`](Self::frequencies).
    #[must_use]
    pub const fn with_frequencies(mut self, frequencies: usize) -> Self {
        self.frequencies = frequencies;
        self
    }

    /// Sets [`frequency_scale`](Self::frequency_scale).
    #[must_use]
    pub const fn with_frequency_scale(mut self, scale: f64) -> Self {
        self.frequency_scale = scale;
        self
    }

    /// Sets [`trunk`](Self::trunk).
    #[must_use]
    pub const fn with_trunk(mut self, trunk: Trunk) -> Self {
        self.trunk = trunk;
        self
    }

    /// Sets [`hidden`](Self::hidden).
    #[must_use]
    pub fn with_hidden(mut self, hidden: impl Into<Vec<usize>>) -> Self {
        self.hidden = hidden.into();
        self
    }

    /// Sets [`dropout`](Self::dropout).
    #[must_use]
    pub const fn with_dropout(mut self, dropout: f64) -> Self {
        self.dropout = dropout;
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
        if self.hidden.contains(&0) {
            return Err(TableNetConfigError::Zero { name: "hidden" });
        }
        if self.trunk == Trunk::Residual {
            let first = *self.hidden.first().ok_or(TableNetConfigError::NoBlocks)?;
            if let Some(&other) = self.hidden.iter().find(|&&width| width != first) {
                return Err(TableNetConfigError::BlockWidths { first, other });
            }
        }
        let scale = self.frequency_scale;
        if !(scale.is_finite() && scale > 0.0) {
            return Err(TableNetConfigError::FrequencyScale { scale });
        }
        TableNetConfigError::check_dropout(self.dropout)
    }

    /// Multiply-adds of the layers of one row's forward pass.
    #[must_use]
    pub fn multiply_adds(&self) -> u64 {
        let waves = self.features.numbers * 2 * self.frequencies * NUMBER;
        let heads = self.heads.iter().map(|head| head.width()).sum::<usize>();
        let widths = self.widths();
        let layers = widths.windows(2).map(|pair| pair[0] * pair[1]).sum::<usize>();
        let blocks = match self.trunk {
            Trunk::Plain => 0,
            Trunk::Residual => self.hidden.iter().map(|width| 4 * width * width).sum::<usize>(),
        };
        (waves + layers + blocks + self.features_of_heads() * heads) as u64
    }

    /// Features from the inputs to the last linear layer: in a residual trunk there is one.
    fn widths(&self) -> Vec<usize> {
        let layers = match self.trunk {
            Trunk::Plain => &*self.hidden,
            Trunk::Residual => &self.hidden[..1],
        };
        [&[self.inputs()], layers].concat()
    }

    /// The number of inputs of each head.
    fn features_of_heads(&self) -> usize {
        self.hidden.last().copied().unwrap_or_else(|| self.inputs())
    }

    /// The numbers that [`TableNet::embed`] returns for a row: the inputs of the first layer.
    #[must_use]
    pub fn inputs(&self) -> usize {
        let width = self.features.width(self.embedding);
        let more = if self.frequencies > 0 { NUMBER - 1 } else { 0 };
        width + more * self.features.numbers
    }

    /// Creates a network with random parameters.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> TableNet {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let RowFeatures { class_counts, numbers } = &self.features;
        let size = |classes: usize| embedding_size(classes, self.embedding);
        let has_waves = self.frequencies > 0 && *numbers > 0;
        let periodic = has_waves.then(|| {
            Periodic::new(*numbers, self.frequencies, self.frequency_scale, NUMBER, device)
        });
        let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(device);
        let layers = self.widths().windows(2).map(|pair| linear(pair[0], pair[1])).collect();
        let norm = |width| LayerNormConfig::new(width).with_epsilon(EPSILON).init(device);
        let (mut blocks, mut last_norm) = (vec![], None);
        if self.trunk == Trunk::Residual {
            let block = |&width: &usize| Block {
                norm: norm(width),
                wide: linear(width, 2 * width),
                narrow: linear(2 * width, width),
            };
            blocks.extend(self.hidden.iter().map(block));
            last_norm = Some(norm(self.features_of_heads()));
        }
        TableNet {
            categories: Categories::new(class_counts, size, device),
            periodic,
            layers,
            blocks,
            norm: last_norm,
            dropout: DropoutConfig::new(self.dropout).init(),
            heads: Heads::new(self.features_of_heads(), &self.heads, device),
        }
    }
}

/// A perceptron on embeddings of classes, and on numbers or their periodic embeddings.
///
/// # Source
/// Gorishniy et al. 2021, arXiv:2106.11959, sections 3.1 and 3.2, with layer norms instead of batch
/// norms; 2022, arXiv:2203.05556, for periodic embeddings.
#[derive(Module, Debug)]
pub struct TableNet {
    categories: Categories,
    periodic: Option<Periodic>,
    /// In a residual trunk, the first layer only.
    layers: Vec<Linear>,
    blocks: Vec<Block>,
    /// In a residual trunk only.
    norm: Option<LayerNorm>,
    dropout: Dropout,
    heads: Heads,
}

/// One block of a residual trunk.
#[derive(Module, Debug)]
struct Block {
    norm: LayerNorm,
    wide: Linear,
    narrow: Linear,
}

impl TableNet {
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

    /// The embeddings of a row's classes, and its numbers or their periodic embeddings, which the first
    /// layer takes.
    ///
    /// # Shapes
    /// - `classes`, `numbers`: as of [`forward`](Self::forward)
    /// - returns: `[rows, inputs]`, see [`TableNetConfig::inputs`]
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    #[must_use]
    pub fn embed(&self, classes: Tensor<2, Int>, numbers: Tensor<2>) -> Tensor<2> {
        let periodic = match numbers.dims()[1] {
            0 => None,
            _ => self.periodic.as_ref().map(Periodic::embedding),
        };
        row_features(classes, numbers, self.categories.vectors(), periodic)
    }

    /// The outputs for rows that [`embed`](Self::embed) returned.
    ///
    /// # Panics
    /// If the shape is another one.
    #[must_use]
    pub fn forward_embedded(&self, features: Tensor<2>) -> Vec<Tensor<2>> {
        match &self.norm {
            None => self.plain(features),
            Some(norm) => {
                let first = fused_linear(&self.layers[0], features);
                let blocks = |features: Tensor<2>, block: &Block| {
                    let normalized = layer_norm(&block.norm, EPSILON, features.clone());
                    let wide = relu(fused_linear(&block.wide, normalized));
                    let narrow = fused_linear(&block.narrow, dropout(&self.dropout, wide));
                    features + dropout(&self.dropout, narrow)
                };
                let last = self.blocks.iter().fold(first, blocks);
                self.heads.forward(&relu(layer_norm(norm, EPSILON, last)))
            }
        }
    }

    /// The path of the layers that only one target has, all others being shared.
    #[must_use]
    pub fn head_path(&self) -> String {
        "heads".to_owned()
    }

    /// The plain trunk, with the heads.
    fn plain(&self, features: Tensor<2>) -> Vec<Tensor<2>> {
        let trains = self.dropout.training.is_enabled() && features.device().is_autodiff();
        let dropout = if trains { self.dropout.prob } else { 0.0 };
        let layers = self.layers.iter().map(dense).collect();
        perceptron(features, layers, self.heads.layers().iter().map(dense).collect(), dropout)
    }
}

fn dense(layer: &Linear) -> DenseLayer {
    let bias = layer.bias.as_ref().expect("every layer is made with a bias");
    DenseLayer { weight: layer.weight.val(), bias: bias.val() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_the_layers() {
        let _alone = updraft_testing::alone();
        let device = Device::flex();
        let features = RowFeatures { class_counts: vec![9, 100], numbers: 3 };
        let config = TableNetConfig::new(features, [Head::Classes(2), Head::Numbers(1)])
            .with_hidden([10, 10]);
        let embeddings = 9 * 5 + 100 * 16;
        let heads = 11 * 3;
        let inputs = 5 + 16 + 3;
        let plain = embeddings + (inputs + 1) * 10 + 11 * 10 + heads;
        assert_eq!(config.init(&device).num_params(), plain);
        let residual = config.clone().with_trunk(Trunk::Residual);
        let blocks = 2 * (2 * 10 + 11 * 20 + 21 * 10) + 2 * 10;
        let expected = embeddings + (inputs + 1) * 10 + blocks + heads;
        assert_eq!(residual.init(&device).num_params(), expected);
        // Without vectors, norms and biases.
        assert_eq!(residual.multiply_adds(), 24 * 10 + 2 * 400 + 30);
        let waves = config.clone().with_frequencies(4);
        let inputs = 5 + 16 + 3 * 8;
        let expected = embeddings + 3 * 4 + 9 * 8 + (inputs + 1) * 10 + 11 * 10 + heads;
        assert_eq!(waves.init(&device).num_params(), expected);
        assert_eq!(waves.multiply_adds(), 3 * 8 * 8 + 45 * 10 + 100 + 30);
        let narrow = config.with_hidden([6, 2]);
        let expected = embeddings + 25 * 6 + 7 * 2 + 3 * 3;
        assert_eq!(narrow.init(&device).num_params(), expected);
        assert_eq!(narrow.multiply_adds(), 24 * 6 + 6 * 2 + 2 * 3);
        let linear = narrow.with_hidden([]);
        assert_eq!(linear.init(&device).num_params(), embeddings + 25 * 3);
        assert_eq!(linear.multiply_adds(), 24 * 3);
    }

    #[test]
    fn rows_of_numbers_or_classes_alone_have_outputs() {
        let _alone = updraft_testing::alone();
        let device = Device::flex();
        for (class_counts, numbers) in [(vec![], 3), (vec![4, 2], 0), (vec![4], 1)] {
            for (trunk, frequencies) in [(Trunk::Plain, 0), (Trunk::Residual, 3)] {
                let columns = class_counts.len();
                let features = RowFeatures { class_counts: class_counts.clone(), numbers };
                let network = TableNetConfig::new(features, [Head::Labels(5)])
                    .with_trunk(trunk)
                    .with_frequencies(frequencies)
                    .init(&device);
                let classes = Tensor::<2, Int>::ones([6, columns], &device);
                let outputs = network.forward(classes, Tensor::ones([6, numbers], &device));
                assert_eq!(outputs[0].dims(), [6, 5]);
            }
        }
    }

    #[test]
    fn what_cannot_be_built_is_refused_by_name() {
        let features = || RowFeatures { class_counts: vec![4], numbers: 1 };
        let config = || TableNetConfig::new(features(), [Head::Classes(2)]);
        let none = RowFeatures { class_counts: vec![], numbers: 0 };
        let empty = RowFeatures { class_counts: vec![3, 0], numbers: 0 };
        for (config, expected) in [
            (TableNetConfig::new(none, [Head::Numbers(1)]), "no features"),
            (TableNetConfig::new(empty, [Head::Numbers(1)]), "column 1 of categories has no class"),
            (TableNetConfig::new(features(), []), "no heads"),
            (TableNetConfig::new(features(), [Head::Classes(1)]), "heads[0]"),
            (config().with_hidden([4, 0]), "`hidden` is 0"),
            (config().with_trunk(Trunk::Residual).with_hidden([]), "no blocks"),
            (config().with_trunk(Trunk::Residual).with_hidden([4, 8]), "4 and 8"),
            (config().with_dropout(1.0), "`dropout` is 1"),
            (config().with_frequency_scale(f64::NAN), "`frequency_scale` is NaN"),
        ] {
            let error = config.validate().expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
