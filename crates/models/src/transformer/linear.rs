//! Linear layers and layer normalizations as transformers have them.

use burn::module::Initializer;
use burn::nn::{LayerNorm, LayerNormConfig, Linear};
use burn::tensor::{Device, Tensor};

use crate::layer_norm::layer_norm;

/// Added to the variance, as in the published vision transformers.
const EPSILON: f64 = 1e-6;

/// A linear layer with Xavier-uniform weights and a bias of 0.
///
/// # Source
/// He et al. 2022, arXiv:2111.06377, appendix A.1.
pub(super) fn linear([input, output]: [usize; 2], device: &Device) -> Linear {
    let weights = Initializer::XavierUniform { gain: 1.0 };
    Linear {
        weight: weights.init_with([input, output], Some(input), Some(output), device),
        bias: Some(Initializer::Zeros.init([output], device)),
    }
}

/// A layer normalization that starts as the identity of normalized features.
pub(super) fn norm(features: usize, device: &Device) -> LayerNorm {
    LayerNormConfig::new(features).with_epsilon(EPSILON).init(device)
}

/// The features of each token by the normalization.
pub(super) fn normalize(norm: &LayerNorm, x: Tensor<3>) -> Tensor<3> {
    layer_norm(norm, EPSILON, x)
}
