//! The logits of an adaptive gate: two linear layers on the means of the feature maps.

use burn::module::{Initializer, Module};
use burn::nn::{BatchNormConfig, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use updraft_conv::{Activation, BatchNorm};
use updraft_transformer::timed_linear;

/// The part of the logits that depends on the sample:
/// `linear(relu(norm(linear([color, brightness, stream]))))` of pooled features.
///
/// The bias of the last layer is [`Blend`](crate::blend::Blend)'s logits. The first layer has none,
/// because the norm would cancel it.
#[derive(Module, Debug)]
pub(crate) struct AdaptiveLogits {
    hidden: Linear,
    norm: BatchNorm,
    output: Linear,
}

impl AdaptiveLogits {
    /// The weights of the last layer are zero: in a new network no sample differs from another.
    pub(crate) fn new(channels: usize, streams: usize, device: &Device) -> Self {
        Self {
            hidden: LinearConfig::new(streams * channels, channels).with_bias(false).init(device),
            norm: BatchNorm::new(&BatchNormConfig::new(channels), device),
            output: LinearConfig::new(channels, streams)
                .with_bias(false)
                .with_initializer(Initializer::Zeros)
                .init(device),
        }
    }

    /// `[batch, streams]` of the means of the streams, each `[batch, channels]`.
    pub(crate) fn forward(&self, pooled: Vec<Tensor<2>>) -> Tensor<2> {
        let hidden = timed_linear(&self.hidden, Tensor::cat(pooled, 1));
        let hidden = self.norm.forward_activated(hidden, Activation::Relu);
        timed_linear(&self.output, hidden)
    }
}

#[cfg(test)]
mod tests {
    use burn::module::Param;
    use burn::tensor::Distribution;
    use updraft_testing::{Numbers, assert_close, devices, tolerance};

    use super::*;

    #[test]
    fn the_logits_are_those_of_the_formula() {
        const BATCH: usize = 3;
        const CHANNELS: usize = 4;
        for device in devices() {
            device.seed(3);
            for streams in [2, 3] {
                let random = |shape: [usize; 2]| {
                    Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), &device)
                };
                let mut gate = AdaptiveLogits::new(CHANNELS, streams, &device);
                assert_eq!(gate.output.weight.val().numbers(), vec![0.0; CHANNELS * streams]);
                gate.output.weight = Param::from_tensor(random([CHANNELS, streams]));
                let pooled: Vec<Tensor<2>> =
                    (0..streams).map(|_| random([BATCH, CHANNELS])).collect();
                let values: Vec<Vec<f64>> = pooled.iter().map(Numbers::numbers).collect();
                let [first, last] =
                    [&gate.hidden, &gate.output].map(|layer| layer.weight.val().numbers());
                let logits = gate.forward(pooled);

                let mut expected = Vec::new();
                for sample in 0..BATCH {
                    let input =
                        |at: usize| values[at / CHANNELS][sample * CHANNELS + at % CHANNELS];
                    let hidden: Vec<f64> = (0..CHANNELS)
                        .map(|unit| {
                            let sum: f64 = (0..streams * CHANNELS)
                                .map(|at| input(at) * first[at * CHANNELS + unit])
                                .sum();
                            // A new norm that is not trained: mean 0, variance 1, and burn's ε.
                            (sum / (1.0_f64 + 1e-5).sqrt()).max(0.0)
                        })
                        .collect();
                    for stream in 0..streams {
                        let products = hidden.iter().enumerate();
                        expected.push(
                            products
                                .map(|(unit, x)| x * last[unit * streams + stream])
                                .sum::<f64>(),
                        );
                    }
                }
                assert_eq!(logits.dims(), [BATCH, streams]);
                assert_close(&logits, &expected, tolerance::F32);
            }
        }
    }
}
