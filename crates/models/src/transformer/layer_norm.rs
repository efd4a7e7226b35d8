//! Layer normalization.

use burn::nn::LayerNorm;
use burn::tensor::Tensor;

/// Added to the variance, as in the published vision transformers.
pub(super) const EPSILON: f64 = 1e-6;

/// `γ·(x − mean) / √(variance + ε) + β` over the last axis.
///
/// Computes in at least f32.
pub(super) fn layer_norm(norm: &LayerNorm, x: Tensor<3>) -> Tensor<3> {
    norm.forward(x)
}
