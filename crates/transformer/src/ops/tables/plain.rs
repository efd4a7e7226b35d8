//! The same operations by burn's own: for other backends, and as the reference in tests.

use std::f64::consts::TAU;

use burn::tensor::activation::relu;
use burn::tensor::{Distribution, Int, Tensor, module};

use super::{DenseLayer, PeriodicEmbedding};

/// [`row_features`](crate::row_features) by burn's operations.
#[must_use]
pub fn row_features(
    classes: Tensor<2, Int>,
    numbers: Tensor<2>,
    embeddings: Vec<Tensor<2>>,
    periodic: Option<PeriodicEmbedding>,
) -> Tensor<2> {
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

/// [`perceptron`](crate::perceptron) by burn's operations.
#[must_use]
pub fn perceptron(
    x: Tensor<2>,
    layers: Vec<DenseLayer>,
    heads: Vec<DenseLayer>,
    dropout: f64,
) -> Vec<Tensor<2>> {
    let features = layers.into_iter().fold(x, |x, DenseLayer { weight, bias }| {
        let y = relu(module::linear(x, weight, Some(bias)));
        if dropout == 0.0 {
            return y;
        }
        let kept = 1.0 - dropout;
        let mask = y.random_like(Distribution::Bernoulli(kept));
        y * mask * (1.0 / kept)
    });
    let heads = heads.into_iter();
    heads
        .map(|DenseLayer { weight, bias }| module::linear(features.clone(), weight, Some(bias)))
        .collect()
}
