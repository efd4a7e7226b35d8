//! Layers of burn whose passes a timer records.

use burn::nn::Linear;
use burn::tensor::Tensor;
use updraft_simd::{add_operations, mark_plain, time_layer};

/// The outputs of burn's layer, by burn's operations.
///
/// While a [`LayerTimer`](updraft_simd::LayerTimer) records on a CPU, it has the times of both passes;
/// the numbers are the same, bit for bit.
///
/// # Panics
/// As the layer.
#[must_use]
pub fn timed_linear<const D: usize>(layer: &Linear, x: Tensor<D>) -> Tensor<D> {
    time_layer(layer.weight.id.val(), "linear", || {
        let products = x.shape().num_elements() * layer.weight.dims()[1];
        add_operations(2 * products as u64);
        mark_plain();
        #[cfg(feature = "flex")]
        if let Some(y) = recorded::linear(layer, &x) {
            return y;
        }
        layer.forward(x)
    })
}

/// The outputs of burn's layer, by our kernels where they run: [`linear`](crate::linear) with the
/// layer's parameters and its time.
///
/// # Panics
/// As [`linear`](crate::linear).
#[must_use]
pub fn fused_linear<const D: usize>(layer: &Linear, x: Tensor<D>) -> Tensor<D> {
    let bias = layer.bias.as_ref().map(|bias| bias.val());
    time_layer(layer.weight.id.val(), "linear", || super::linear(x, layer.weight.val(), bias))
}

/// The Gaussian error linear unit of the outputs of burn's layer, by our kernels where they run.
///
/// # Panics
/// As [`linear`](crate::linear), and if the layer has no bias.
#[must_use]
pub fn fused_linear_gelu<const D: usize>(layer: &Linear, x: Tensor<D>) -> Tensor<D> {
    let bias = layer.bias.as_ref().expect("a layer with a bias").val();
    time_layer(layer.weight.id.val(), "linear", || {
        super::bias_gelu(super::linear(x, layer.weight.val(), None), bias)
    })
}

/// Layers whose gradients are timed.
#[cfg(feature = "flex")]
mod recorded {
    use burn::backend::Dispatch;
    use burn::nn::Linear;
    use burn::tensor::Tensor;
    use updraft_simd::times_layers;

    use crate::ops::extension::TransformerBackend;
    use crate::ops::runs_kernels;

    pub(super) fn linear<const D: usize>(layer: &Linear, x: &Tensor<D>) -> Option<Tensor<D>> {
        let weight = layer.weight.val();
        let fits = D > 1 && x.dims()[D - 1] == weight.dims()[0];
        if !times_layers() || !fits || !runs_kernels(&x.device()) {
            return None;
        }
        let (x, weight) = (x.clone().into_dispatch(), weight.into_dispatch());
        Some(Tensor::from_dispatch(match &layer.bias {
            Some(bias) => Dispatch::burn_linear_with_bias(x, weight, bias.val().into_dispatch()),
            None => Dispatch::burn_linear(x, weight),
        }))
    }
}

#[cfg(all(test, feature = "flex", feature = "autodiff"))]
mod tests {
    use burn::nn::LinearConfig;
    use burn::tensor::{Device, TensorData};
    use updraft_simd::{LayerPass, LayerSpan, LayerTimer};
    use updraft_testing::scattered;

    use super::*;
    use crate::{attention, bias_gelu, layer_norm, linear, self_attention};

    fn leaf<const D: usize>(seed: u32, shape: [usize; D]) -> Tensor<D> {
        let numbers = scattered(seed, shape.iter().product());
        let device = Device::flex().autodiff();
        Tensor::from_data(TensorData::new(numbers, shape), &device).require_grad()
    }

    /// The spans of a forward and a backward pass.
    fn passes<const D: usize>(forward: impl FnOnce() -> Tensor<D>) -> [Vec<LayerSpan>; 2] {
        let mut timer = LayerTimer::start();
        let loss = forward().sum();
        let of_forward = timer.take();
        loss.backward();
        [of_forward, timer.take()]
    }

    #[test]
    fn burns_layers_have_the_same_bits_with_a_timer_and_the_times_of_both_passes() {
        let _alone = updraft_testing::alone();
        let device = Device::flex().autodiff();
        for has_bias in [true, false] {
            let layer = LinearConfig::new(5, 3).with_bias(has_bias).init(&device);
            let x = leaf(1, [4, 5]);
            let weights = leaf(2, [4, 3]).detach();
            let run = |y: Tensor<2>| {
                let gradients = (y.clone() * weights.clone()).sum().backward();
                let of_bias = layer.bias.as_ref().map(|it| it.val().grad(&gradients));
                let of_bias = of_bias.map(|it| it.expect("of the bias").into_data());
                let of_x = x.grad(&gradients).expect("of the input").into_data();
                let of_weight = layer.weight.val().grad(&gradients).expect("of the weights");
                (y.into_data(), of_x, of_weight.into_data(), of_bias)
            };
            let expected = run(layer.forward(x.clone()));
            assert_eq!(run(timed_linear(&layer, x.clone())), expected, "without a timer");
            let mut timer = LayerTimer::start();
            assert_eq!(run(timed_linear(&layer, x.clone())), expected, "with a timer");
            let found: Vec<_> = timer
                .take()
                .iter()
                .map(|it| (it.layer.kind, it.layer.parameter, it.pass, it.operations))
                .collect();
            let id = Some(layer.weight.id.val());
            let products = 2 * 4 * 5 * 3;
            let expected = [
                ("linear", id, LayerPass::Forward, products),
                ("linear", id, LayerPass::Backward, 2 * products),
            ];
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn the_operations_of_a_transformer_are_timed_in_both_passes() {
        let _alone = updraft_testing::alone();
        let tokens = || leaf(3, [2, 7, 12]);
        // Two products of 7 tokens with 7 and 12 numbers, in 2 samples.
        let of_attention = 2 * 2 * 2 * 7 * 7 * 12;
        let of_linear = 2 * 2 * 7 * 12 * 5;
        let cases = [
            ("attention", passes(|| attention(tokens(), tokens(), tokens(), 3)), of_attention),
            ("attention", passes(|| self_attention(leaf(4, [2, 7, 36]), 3)), of_attention),
            (
                "layer normalization",
                passes(|| layer_norm(tokens(), leaf(5, [12]), leaf(6, [12]), 1e-6)),
                0,
            ),
            ("GELU", passes(|| bias_gelu(tokens(), leaf(7, [12]))), 0),
            (
                "linear",
                passes(|| linear(tokens(), leaf(8, [12, 5]), Some(leaf(9, [5])))),
                of_linear,
            ),
        ];
        for (kind, [forward, backward], operations) in cases {
            for (spans, pass, factor) in
                [(forward, LayerPass::Forward, 1), (backward, LayerPass::Backward, 2)]
            {
                let [span] = &spans[..] else { panic!("{kind}: {spans:?}") };
                assert_eq!((span.layer.kind, span.layer.parameter), (kind, None));
                assert_eq!((span.pass, span.operations), (pass, factor * operations), "{kind}");
                assert!(!span.is_plain, "{kind}");
            }
        }
    }
}
