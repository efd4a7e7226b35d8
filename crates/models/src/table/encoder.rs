//! The layers of burn's transformer encoder, each with its time.

use burn::nn::attention::MultiHeadAttention;
use burn::nn::transformer::{PositionWiseFeedForward, TransformerEncoder, TransformerEncoderLayer};
use burn::tensor::Tensor;
use updraft_simd::time_part;
use updraft_transformer::{attention_with_dropout, dropout, fused_linear};

use crate::layer_norm::{EPSILON, layer_norm};

/// The tokens `[batch, tokens, embedding]` behind all layers of an encoder that normalizes after each
/// of their halves, with an epsilon of [`EPSILON`].
pub(super) fn encode(encoder: &TransformerEncoder, tokens: Tensor<3>) -> Tensor<3> {
    encoder.layers.iter().fold(tokens, encode_layer)
}

fn encode_layer(x: Tensor<3>, layer: &TransformerEncoderLayer) -> Tensor<3> {
    let attended = dropout(&layer.dropout, attend(&layer.mha, &x));
    let x = layer_norm(&layer.norm_1, EPSILON, x + attended);
    let hidden = dropout(&layer.dropout, perceive(&layer.pwff, x.clone()));
    layer_norm(&layer.norm_2, EPSILON, x + hidden)
}

fn attend(attention: &MultiHeadAttention, x: &Tensor<3>) -> Tensor<3> {
    let [q, k, v] = [&attention.query, &attention.key, &attention.value]
        .map(|layer| fused_linear(layer, x.clone()));
    let attended = time_part(attention.output.weight.id.val(), "attention", || {
        attention_with_dropout(q, k, v, attention.n_heads, &attention.dropout)
    });
    fused_linear(&attention.output, attended)
}

fn perceive(perceptron: &PositionWiseFeedForward, x: Tensor<3>) -> Tensor<3> {
    let hidden = perceptron.activation.forward(fused_linear(&perceptron.linear_inner, x));
    fused_linear(&perceptron.linear_outer, dropout(&perceptron.dropout, hidden))
}

#[cfg(test)]
mod tests {
    use burn::nn::transformer::{TransformerEncoderConfig, TransformerEncoderInput};
    use burn::tensor::{FloatDType, TensorData};
    use updraft_testing::{
        assert_close, autodiff_devices, devices, in_dtype, parameter_gradients, scattered,
        tolerance,
    };

    use super::*;

    const SHAPE: [usize; 3] = [2, 5, 12];

    fn tokens(seed: u32, device: &burn::tensor::Device) -> Tensor<3> {
        let numbers = scattered(seed, SHAPE.iter().product());
        Tensor::from_data(TensorData::new(numbers, SHAPE), device)
    }

    fn config(dropout: f64) -> TransformerEncoderConfig {
        TransformerEncoderConfig::new(12, 20, 3, 2)
            .with_dropout(dropout)
            .with_layer_norm_eps(EPSILON)
    }

    #[test]
    fn tokens_are_those_of_burns_encoder_in_f64() {
        for device in devices() {
            let encoder = config(0.3).init(&device);
            let x = tokens(1, &device);
            let wide = in_dtype(encoder.clone(), FloatDType::F64);
            let input = TransformerEncoderInput::new(x.clone().cast(FloatDType::F64));
            assert_close(&encode(&encoder, x), &wide.forward(input), tolerance::F32_DEEP);
        }
    }

    #[test]
    fn gradients_are_those_of_burns_encoder_in_f64() {
        for device in autodiff_devices() {
            let encoder = config(0.0).init(&device);
            let (x, weights) = (tokens(1, &device), tokens(2, &device));
            let narrow = (encode(&encoder, x.clone()) * weights.clone()).sum().backward();
            let wide = in_dtype(encoder.clone(), FloatDType::F64);
            let of = |tensor: Tensor<3>| tensor.cast(FloatDType::F64);
            let expected = wide.forward(TransformerEncoderInput::new(of(x))) * of(weights);
            let expected = parameter_gradients(&wide, &expected.sum().backward());
            for (found, expected) in parameter_gradients(&encoder, &narrow).iter().zip(&expected) {
                let [found, expected] =
                    [found, expected].map(|it| it.values.as_ref().expect("a gradient"));
                assert_close(found, expected, tolerance::F32_DEEP);
            }
        }
    }
}
