//! A factorization machine, attention and a perceptron on embeddings of a row's features.

use burn::module::{Initializer, Module, Param};
use burn::nn::activation::ActivationConfig;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig};
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor};
use serde::{Deserialize, Serialize};
use updraft_transformer::{dropout, fused_linear_gelu, row_features};

use super::encoder::encode;
use super::head::validate as validate_heads;
use super::{Categories, Head, Heads, RowFeatures};
use crate::error::TableNetConfigError;
use crate::layer_norm::EPSILON;

/// The configuration of an [`InteractionNet`].
///
/// # Example
/// ```
/// use updraft_models::{Head, InteractionConfig, RowFeatures};
///
/// let features = RowFeatures { class_counts: vec![30, 12], numbers: 3 };
/// let config = InteractionConfig::new(features, [Head::Classes(4), Head::Numbers(1)]);
/// assert!(config.validate().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct InteractionConfig {
    /// What a row has.
    pub features: RowFeatures,
    /// What is predicted.
    pub heads: Vec<Head>,
    /// The size of each feature's embedding.
    pub embedding: usize,
    /// Layers of attention between the features; each has the first of 8, 4, 2 and 1 heads that
    /// divides `embedding`.
    pub attention_layers: usize,
    /// Hidden layers of the perceptron.
    pub layers: usize,
    /// Their width, and that of the layers inside attention.
    pub hidden: usize,
    /// The dropout probability of hidden features.
    pub dropout: f64,
}

impl InteractionConfig {
    /// Embeddings of 64 values, one layer of attention, two hidden layers of 256, no dropout.
    #[must_use]
    pub fn new(features: RowFeatures, heads: impl Into<Vec<Head>>) -> Self {
        Self {
            features,
            heads: heads.into(),
            embedding: 64,
            attention_layers: 1,
            layers: 2,
            hidden: 256,
            dropout: 0.0,
        }
    }

    /// Sets [`embedding`](Self::embedding).
    #[must_use]
    pub const fn with_embedding(mut self, embedding: usize) -> Self {
        self.embedding = embedding;
        self
    }

    /// Sets [`attention_layers`](Self::attention_layers).
    #[must_use]
    pub const fn with_attention_layers(mut self, layers: usize) -> Self {
        self.attention_layers = layers;
        self
    }

    /// Sets [`layers`](Self::layers).
    #[must_use]
    pub const fn with_layers(mut self, layers: usize) -> Self {
        self.layers = layers;
        self
    }

    /// Sets [`hidden`](Self::hidden).
    #[must_use]
    pub const fn with_hidden(mut self, hidden: usize) -> Self {
        self.hidden = hidden;
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
        for (name, value) in [("embedding", self.embedding), ("hidden", self.hidden)] {
            if value == 0 {
                return Err(TableNetConfigError::Zero { name });
            }
        }
        TableNetConfigError::check_dropout(self.dropout)
    }

    /// The numbers that [`InteractionNet::embed`] returns for a row.
    #[must_use]
    pub fn inputs(&self) -> usize {
        (self.features.class_counts.len() + self.features.numbers) * self.embedding
    }

    /// Multiply-adds of the forward pass of one row.
    #[must_use]
    pub fn multiply_adds(&self) -> u64 {
        let Self { embedding, attention_layers, layers, hidden, .. } = *self;
        let tokens = self.features.class_counts.len() + self.features.numbers;
        // Queries, keys, values and outputs; scores and weighted sums; the layers inside.
        let of_token = 4 * embedding * embedding + 2 * embedding * hidden;
        let attention = tokens * of_token + 2 * tokens * tokens * embedding;
        let flat = tokens * embedding;
        let deep = if layers == 0 { flat } else { hidden };
        let between = layers.saturating_sub(1) * hidden * hidden;
        let perceptron = if layers == 0 { 0 } else { flat * hidden } + between;
        let pairs = tokens * tokens.saturating_sub(1) / 2;
        let heads = self.heads.iter().map(|head| head.width()).sum::<usize>();
        let vectors = self.features.numbers * embedding;
        let products = tokens * tokens * embedding;
        (attention_layers * attention + perceptron + vectors + products + (deep + pairs) * heads)
            as u64
    }

    /// Creates a network with random parameters.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> InteractionNet {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let Self { embedding, hidden, dropout, .. } = *self;
        let numbers = self.features.numbers;
        let tokens = self.features.class_counts.len() + numbers;
        let attention_heads =
            [8, 4, 2, 1].into_iter().find(|heads| embedding.is_multiple_of(*heads)).unwrap_or(1);
        let attention = (self.attention_layers > 0).then(|| {
            TransformerEncoderConfig::new(embedding, hidden, attention_heads, self.attention_layers)
                .with_dropout(dropout)
                .with_activation(ActivationConfig::Relu)
                .with_layer_norm_eps(EPSILON)
                .init(device)
        });
        let vector = |std| {
            let normal = Initializer::Normal { mean: 0.0, std };
            (numbers > 0).then(|| normal.init([numbers, embedding], device))
        };
        let std = 1.0 / (embedding as f64).sqrt();
        let widths = std::iter::once(tokens * embedding).chain(std::iter::repeat(hidden));
        let layers = widths.take(self.layers);
        let layers: Vec<Linear> =
            layers.map(|width| LinearConfig::new(width, hidden).init(device)).collect();
        let deep = if layers.is_empty() { tokens * embedding } else { hidden };
        let pairs = tokens * (tokens - 1) / 2;
        InteractionNet {
            categories: Categories::new(&self.features.class_counts, |_| embedding, device),
            number_scales: vector(std),
            number_shifts: vector(std),
            attention,
            layers,
            dropout: DropoutConfig::new(dropout).init(),
            heads: Heads::new(deep + pairs, &self.heads, device),
        }
    }
}

/// A factorization machine in parallel with attention and a perceptron.
///
/// Each feature has an embedding; that of a number `x` is `x·w + v`. The embeddings pass through
/// attention layers (none, one or more), then all of them together through hidden layers with GELU
/// and dropout; in parallel, the scalar product of each pair of embeddings is a feature. A linear
/// layer for each target takes both.
///
/// # Source
/// Guo et al. 2017, arXiv:1703.04247, for the two branches; Song et al. 2019, arXiv:1810.11921, for
/// attention between features.
#[derive(Module, Debug)]
pub struct InteractionNet {
    categories: Categories,
    number_scales: Option<Param<Tensor<2>>>,
    number_shifts: Option<Param<Tensor<2>>>,
    attention: Option<TransformerEncoder>,
    layers: Vec<Linear>,
    dropout: Dropout,
    heads: Heads,
}

impl InteractionNet {
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
        self.forward_tokens(self.tokens(classes, numbers))
    }

    /// The embeddings of all features of each row, one after the other.
    ///
    /// # Shapes
    /// - `classes`, `numbers`: as of [`forward`](Self::forward)
    /// - returns: `[rows, inputs]`, see [`InteractionConfig::inputs`]
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    #[must_use]
    pub fn embed(&self, classes: Tensor<2, Int>, numbers: Tensor<2>) -> Tensor<2> {
        let tokens = self.tokens(classes, numbers);
        let [rows, count, size] = tokens.dims();
        tokens.reshape([rows, count * size])
    }

    /// The outputs for rows that [`embed`](Self::embed) returned.
    ///
    /// # Panics
    /// If the shape is another one.
    #[must_use]
    pub fn forward_embedded(&self, features: Tensor<2>) -> Vec<Tensor<2>> {
        let [rows, width] = features.dims();
        let of_numbers = self.number_scales.as_ref().map(|scales| scales.val().dims()[1]);
        let of_classes = self.categories.vectors().first().map(|vectors| vectors.dims()[1]);
        let size = of_numbers.or(of_classes).expect("a network has features");
        self.forward_tokens(features.reshape([rows, width / size, size]))
    }

    /// The outputs for the embeddings of all features, `[rows, features, embedding]`.
    fn forward_tokens(&self, tokens: Tensor<3>) -> Vec<Tensor<2>> {
        let [rows, count, size] = tokens.dims();
        let products = pair_products(&tokens);
        let attended = match &self.attention {
            Some(attention) => encode(attention, tokens),
            None => tokens,
        };
        let flat = attended.reshape([rows, count * size]);
        let deep = self.layers.iter().fold(flat, |features, layer| {
            dropout(&self.dropout, fused_linear_gelu(layer, features))
        });
        let features = match products {
            Some(products) => Tensor::cat(vec![deep, products], 1),
            None => deep,
        };
        self.heads.forward(&features)
    }

    /// The path of the layers that only one target has, all others being shared.
    #[must_use]
    pub fn head_path(&self) -> String {
        "heads".to_owned()
    }

    /// The embeddings of all features, `[rows, features, embedding]`.
    fn tokens(&self, classes: Tensor<2, Int>, numbers: Tensor<2>) -> Tensor<3> {
        let [rows, columns] = classes.dims();
        let vectors = self.categories.vectors();
        let mut tokens = Vec::with_capacity(2);
        if let Some(size) = vectors.first().map(|vectors| vectors.dims()[1]) {
            let no_number = Tensor::zeros([rows, 0], (&numbers.device(), numbers.dtype()));
            let of_classes = row_features(classes, no_number, vectors, None);
            tokens.push(of_classes.reshape([rows, columns, size]));
        }
        if let (Some(scales), Some(shifts)) = (&self.number_scales, &self.number_shifts) {
            let scaled = numbers.unsqueeze_dim::<3>(2) * scales.val().unsqueeze::<3>();
            tokens.push(scaled + shifts.val().unsqueeze::<3>());
        }
        Tensor::cat(tokens, 1)
    }
}

/// The scalar product of each pair of features, `[rows, pairs]`; `None` for a single feature.
fn pair_products(tokens: &Tensor<3>) -> Option<Tensor<2>> {
    let [rows, count, _] = tokens.dims();
    if count < 2 {
        return None;
    }
    let all = tokens.clone().matmul(tokens.clone().swap_dims(1, 2));
    let all = all.reshape([rows, count * count]);
    let pairs: Vec<i32> =
        (0..count).flat_map(|a| (a + 1..count).map(move |b| (a * count + b) as i32)).collect();
    let pairs = Tensor::<1, Int>::from_ints(pairs.as_slice(), &tokens.device());
    Some(all.select(1, pairs))
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, devices, tolerance};

    use super::*;

    #[test]
    fn products_are_those_of_each_pair() {
        for device in devices() {
            let tokens = Tensor::<3>::from_floats([[[1.0, 2.0], [3.0, -1.0], [0.5, 4.0]]], &device);
            let found = pair_products(&tokens).expect("three features");
            assert_close(&found, &[1.0, 8.5, -2.5], tolerance::F32);
            assert!(pair_products(&tokens.narrow(1, 0, 1)).is_none());
        }
    }

    #[test]
    fn the_published_sizes_have_the_published_number_of_parameters() {
        let _alone = updraft_testing::alone();
        let device = Device::flex();
        let features = RowFeatures { class_counts: vec![1000, 3000, 1500, 500], numbers: 0 };
        let heads = [Head::Labels(6), Head::Classes(4), Head::Classes(30)];
        let config = InteractionConfig::new(features, heads)
            .with_embedding(384)
            .with_layers(4)
            .with_hidden(1280)
            .with_dropout(0.391);
        // 10,819,483 with the three weights of its losses.
        assert_eq!(config.init(&device).num_params(), 10_819_480);
        let attention = 4 * (4 * 384 * 384 + 2 * 384 * 1280) + 2 * 16 * 384;
        let deep = 4 * 384 * 1280 + 3 * 1280 * 1280;
        let expected = attention + deep + 16 * 384 + (1280 + 6) * 40;
        assert_eq!(config.multiply_adds(), expected);
    }

    #[test]
    fn every_head_has_its_width_with_and_without_attention() {
        for device in devices() {
            for (class_counts, numbers, layers) in
                [(vec![5, 3], 2, 1), (vec![], 3, 0), (vec![7], 0, 2)]
            {
                let columns = class_counts.len();
                let features = RowFeatures { class_counts, numbers };
                let heads = [Head::Numbers(2), Head::Ordered(4)];
                let config = InteractionConfig::new(features, heads)
                    .with_embedding(6)
                    .with_hidden(10)
                    .with_attention_layers(layers);
                let network = config.init(&device);
                let classes = Tensor::<2, Int>::ones([4, columns], &device);
                let outputs = network.forward(classes, Tensor::ones([4, numbers], &device));
                assert_eq!(outputs.iter().map(Tensor::dims).collect::<Vec<_>>(), [[4, 2], [4, 3]]);
            }
        }
    }
}
