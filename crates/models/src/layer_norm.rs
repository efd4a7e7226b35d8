//! Layer normalization.

use burn::nn::LayerNorm;
use burn::tensor::{DType, FloatDType, Tensor};
use updraft_simd::time_layer;

/// Added to the variance unless a network has another value, as in burn.
pub(crate) const EPSILON: f64 = 1e-5;

/// `γ·(x − mean) / √(variance + ε) + β` over the last axis.
///
/// Computes in at least f32, whatever the dtypes of `x` and the parameters are, and returns the
/// dtype of `x`.
pub(crate) fn layer_norm<const D: usize>(
    norm: &LayerNorm,
    epsilon: f64,
    x: Tensor<D>,
) -> Tensor<D> {
    time_layer(norm.gamma.id.val(), "layer normalization", || normalize(norm, epsilon, x))
}

fn normalize<const D: usize>(norm: &LayerNorm, epsilon: f64, x: Tensor<D>) -> Tensor<D> {
    let beta = norm.beta.as_ref().expect("the norms of all networks have a bias").val();
    let dtype = x.dtype();
    let wide = match dtype {
        DType::F16 | DType::BF16 => FloatDType::F32,
        other => FloatDType::from(other),
    };
    let [gamma, beta] = [norm.gamma.val(), beta].map(|parameter| parameter.cast(wide));
    updraft_transformer::layer_norm(x.cast(wide), gamma, beta, epsilon).cast(dtype)
}

#[cfg(test)]
mod tests {
    use burn::nn::LayerNormConfig;
    use burn::tensor::TensorData;
    use updraft_testing::{assert_close, devices, scattered, tolerance};

    use super::*;

    #[test]
    fn narrow_features_are_normalized_in_f32_by_parameters_of_f32() {
        for device in devices() {
            if !device.supports_dtype(FloatDType::BF16) {
                continue;
            }
            let norm = LayerNormConfig::new(8).init(&device);
            let x = Tensor::<3>::from_data(TensorData::new(scattered(1, 48), [2, 3, 8]), &device);
            let narrow = x.cast(FloatDType::BF16);
            let found = layer_norm(&norm, EPSILON, narrow.clone());
            assert_eq!(found.dtype(), DType::BF16);
            let wide = layer_norm(&norm, EPSILON, narrow.cast(FloatDType::F32));
            assert_close(&found.cast(FloatDType::F32), &wide, tolerance::BF16);
        }
    }
}
