//! The same operations by burn's own: for other backends, and as the reference in tests.

use std::f64::consts::TAU;

use burn::nn::loss::CrossEntropyLossConfig;
#[cfg(feature = "flex")]
use burn::tensor::TensorData;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Distribution, Int, Tensor, module};
use updraft_simd::mark_plain;

use super::{DenseLayer, PeriodicEmbedding};
#[cfg(feature = "flex")]
use crate::kernels::Dropout;
#[cfg(feature = "flex")]
use crate::ops::{dropout::key, runs_kernels};

/// [`row_features`](crate::row_features) by burn's operations.
#[must_use]
pub fn row_features(
    classes: Tensor<2, Int>,
    numbers: Tensor<2>,
    embeddings: Vec<Tensor<2>>,
    periodic: Option<PeriodicEmbedding>,
) -> Tensor<2> {
    mark_plain();
    let [rows, count] = numbers.dims();
    let mut features = Vec::with_capacity(embeddings.len() + 1);
    for (column, vectors) in embeddings.into_iter().enumerate() {
        let size = vectors.dims()[1];
        let own = module::embedding(vectors, classes.clone().narrow(1, column, 1));
        features.push(own.reshape([rows, size]));
    }
    match periodic {
        Some(PeriodicEmbedding { frequencies, weight, bias }) => {
            let size = bias.dims()[0];
            let frequencies = frequencies.unsqueeze::<3>().mul_scalar(TAU);
            let angles = numbers.unsqueeze_dim::<3>(2) * frequencies;
            let waves = Tensor::cat(vec![angles.clone().sin(), angles.cos()], 2);
            let own = relu(module::linear(waves, weight, Some(bias)));
            features.push(own.reshape([rows, count * size]));
        }
        None if count > 0 => features.push(numbers),
        None => {}
    }
    Tensor::cat(features, 1)
}

/// [`cross_entropy`](crate::cross_entropy) by burn's operations.
#[must_use]
pub fn cross_entropy(logits: Tensor<2>, labels: Tensor<1, Int>, smoothing: f32) -> Tensor<1> {
    mark_plain();
    let smoothing = (smoothing > 0.0).then_some(smoothing);
    let loss = CrossEntropyLossConfig::new().with_smoothing(smoothing);
    loss.init(&logits.device()).forward(logits, labels)
}

/// [`perceptron`](crate::perceptron) by burn's operations.
#[must_use]
pub fn perceptron(
    x: Tensor<2>,
    layers: Vec<DenseLayer>,
    heads: Vec<DenseLayer>,
    dropout: f64,
) -> Vec<Tensor<2>> {
    mark_plain();
    let masks = Masks::new(&x.device(), dropout);
    let layers = layers.into_iter().enumerate();
    let features = layers.fold(x, |x, (index, DenseLayer { weight, bias })| {
        masks.drop(index, relu(module::linear(x, weight, Some(bias))))
    });
    let heads = heads.into_iter();
    heads
        .map(|DenseLayer { weight, bias }| module::linear(features.clone(), weight, Some(bias)))
        .collect()
}

/// The masks of dropout.
enum Masks {
    None,
    /// Those of the kernels, so that both paths have the same result.
    #[cfg(feature = "flex")]
    OfKernels(Dropout),
    /// Drawn by the device: the key of the others has to be read from it.
    Drawn(f64),
}

impl Masks {
    fn new(device: &Device, dropout: f64) -> Self {
        if dropout == 0.0 {
            return Self::None;
        }
        #[cfg(feature = "flex")]
        if runs_kernels(device) {
            return Self::OfKernels(Dropout::new(key(device), dropout));
        }
        let _ = device;
        Self::Drawn(dropout)
    }

    fn drop(&self, layer: usize, y: Tensor<2>) -> Tensor<2> {
        match *self {
            Self::None => y,
            #[cfg(feature = "flex")]
            Self::OfKernels(dropout) => {
                let mask = TensorData::new(dropout.mask(layer, y.dims()), y.dims());
                let mask = Tensor::from_data(mask, (&y.device(), y.dtype()));
                y * mask
            }
            Self::Drawn(dropout) => {
                let _ = layer;
                let kept = 1.0 - dropout;
                let mask = y.random_like(Distribution::Bernoulli(kept));
                y * mask * (1.0 / kept)
            }
        }
    }
}
