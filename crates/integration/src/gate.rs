//! The integration: a learned convex combination of the streams plus a nonlinear mix.

use burn::module::{Module, Param};
use burn::nn::{BatchNormConfig, Linear, LinearConfig};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};
use updraft_conv::{Activation, BatchNorm, ConvNormActivation, join_channels, weighted_sum};
use updraft_transformer::timed_linear;

use crate::contribution::{Place, StageWeights};
use crate::residual::conv_norm;
use crate::wide::wide;

/// Whether a gate receives an integrated stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arriving {
    Stream,
    Nothing,
}

/// `α·color + β·brightness (+ γ·stream)`, the weights a softmax over the streams that exist.
#[derive(Module, Debug)]
pub(crate) struct Blend {
    logits: Param<Tensor<1>>,
}

impl Blend {
    /// Initial values as in the original: equal for both pathways, smaller for the stream.
    fn new(arriving: Arriving, device: &Device) -> Self {
        let logits = match arriving {
            Arriving::Stream => Tensor::from_floats([0.5, 0.5, 0.0], device),
            Arriving::Nothing => Tensor::from_floats([0.5, 0.5], device),
        };
        Self { logits: Param::from_tensor(logits) }
    }

    /// The weights as applied; they are computed only here.
    fn weights(&self) -> Tensor<1> {
        let logits = self.logits.val();
        let compute = wide(logits.dtype());
        softmax(logits.cast(compute), 0)
    }

    fn forward<const D: usize>(
        &self,
        color: Tensor<D>,
        brightness: Tensor<D>,
        stream: Option<Tensor<D>>,
    ) -> Tensor<D> {
        let weights = self.weights().cast(color.dtype());
        weighted_sum([color, brightness].into_iter().chain(stream).collect(), weights)
    }

    pub(crate) fn report(&self, place: Place) -> StageWeights {
        let weights: Vec<f64> = self.weights().into_data().convert::<f64>().iter().collect();
        StageWeights {
            stage: place,
            color: weights[0],
            brightness: weights[1],
            stream: weights.get(2).copied(),
        }
    }
}

/// Integrates the feature maps of one stage.
///
/// The blend plus `norm(conv(relu(norm(conv([color, brightness])))))`, both convolutions 1×1.
#[derive(Module, Debug)]
pub(crate) struct Gate {
    blend: Blend,
    mix: ConvNormActivation,
    project: ConvNormActivation,
}

impl Gate {
    pub(crate) fn new(channels: usize, arriving: Arriving, device: &Device) -> Self {
        Self {
            blend: Blend::new(arriving, device),
            mix: conv_norm([2 * channels, channels], 1, 1, Activation::Relu, device),
            project: conv_norm([channels, channels], 1, 1, Activation::Identity, device),
        }
    }

    pub(crate) fn forward(
        &self,
        color: Tensor<4>,
        brightness: Tensor<4>,
        stream: Option<Tensor<4>>,
    ) -> Tensor<4> {
        let both = join_channels(color.clone(), brightness.clone());
        let blend = self.blend.forward(color, brightness, stream);
        self.project.forward_residual(self.mix.forward(both), blend)
    }

    pub(crate) fn blend(&self) -> &Blend {
        &self.blend
    }
}

/// Integrates the pooled features before the classifier.
///
/// The blend plus `linear(relu(norm(linear([color, brightness]))))`, both without bias.
#[derive(Module, Debug)]
pub(crate) struct PooledGate {
    blend: Blend,
    mix: Linear,
    norm: BatchNorm,
    project: Linear,
}

impl PooledGate {
    pub(crate) fn new(channels: usize, arriving: Arriving, device: &Device) -> Self {
        let linear =
            |input: usize| LinearConfig::new(input, channels).with_bias(false).init(device);
        Self {
            blend: Blend::new(arriving, device),
            mix: linear(2 * channels),
            norm: BatchNorm::new(&BatchNormConfig::new(channels), device),
            project: linear(channels),
        }
    }

    pub(crate) fn forward(
        &self,
        color: Tensor<2>,
        brightness: Tensor<2>,
        stream: Option<Tensor<2>>,
    ) -> Tensor<2> {
        let both = Tensor::cat(vec![color.clone(), brightness.clone()], 1);
        let hidden = self.norm.forward_activated(timed_linear(&self.mix, both), Activation::Relu);
        self.blend.forward(color, brightness, stream) + timed_linear(&self.project, hidden)
    }

    pub(crate) fn blend(&self) -> &Blend {
        &self.blend
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::{Numbers, assert_close, devices, tolerance};

    use super::*;

    #[test]
    fn the_reported_weights_are_the_applied_ones() {
        for device in devices() {
            let one = || Tensor::<2>::ones([1, 1], &device);
            let zero = || Tensor::<2>::zeros([1, 1], &device);
            for arriving in [Arriving::Nothing, Arriving::Stream] {
                let mut blend = Blend::new(arriving, &device);
                let learned = [1.5, -0.5, 0.25_f64];
                let count = blend.logits.val().dims()[0];
                let learned = Tensor::from_data(&learned[..count], &device);
                blend.logits = Param::from_tensor(learned);
                let report = blend.report(Place::Pooled);
                let stream = |value: Tensor<2>| (arriving == Arriving::Stream).then_some(value);
                let applied = |color, brightness, value| {
                    blend.forward(color, brightness, stream(value)).numbers()
                };
                assert_close(&applied(one(), zero(), zero()), &[report.color], tolerance::F32);
                let brightness = applied(zero(), one(), zero());
                assert_close(&brightness, &[report.brightness], tolerance::F32);
                let third = report.stream.unwrap_or(0.0);
                assert_close(&applied(zero(), zero(), one()), &[third], tolerance::F32);
                // e^1.5 / (e^1.5 + e^-0.5 (+ e^0.25)), by hand.
                let expected = if count == 2 { 0.880_797_08 } else { 0.703_313_98 };
                assert_close(&report.color, &expected, tolerance::F32);
            }
        }
    }
}
