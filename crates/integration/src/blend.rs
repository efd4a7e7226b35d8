//! The convex combination of the streams, with one weight of each stream or one for each sample.

use burn::module::{Module, Param};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};
use updraft_conv::weighted_sum;

use crate::adaptive::AdaptiveLogits;
use crate::config::GateKind;
use crate::weights::{Place, StageWeights};
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
    /// Also the bias of the last layer of an adaptive gate.
    logits: Param<Tensor<1>>,
    adaptive: Option<AdaptiveLogits>,
}

impl Blend {
    /// Initial values as in the original: equal for both pathways, smaller for the stream.
    pub(crate) fn new(
        channels: usize,
        arriving: Arriving,
        kind: GateKind,
        device: &Device,
    ) -> Self {
        let (logits, streams) = match arriving {
            Arriving::Stream => (Tensor::from_floats([0.5, 0.5, 0.0], device), 3),
            Arriving::Nothing => (Tensor::from_floats([0.5, 0.5], device), 2),
        };
        let adaptive = || AdaptiveLogits::new(channels, streams, device);
        Self {
            logits: Param::from_tensor(logits),
            adaptive: (kind == GateKind::Adaptive).then(adaptive),
        }
    }

    /// The weights as applied to these streams; they are computed only here. `pool` takes the mean
    /// of each feature map.
    pub(crate) fn weights<const D: usize>(
        &self,
        streams: &[Tensor<D>],
        pool: impl Fn(Tensor<D>) -> Tensor<2>,
    ) -> Weights {
        let Some(adaptive) = &self.adaptive else { return Weights::Shared(self.shared()) };
        let learned = adaptive.forward(streams.iter().cloned().map(pool).collect());
        let logits = self.logits.val();
        let compute = wide(logits.dtype());
        let logits = learned.cast(compute) + logits.cast(compute).unsqueeze::<2>();
        Weights::PerSample(softmax(logits, 1))
    }

    /// The weights of every sample; `None` if they depend on the sample.
    pub(crate) fn report(&self, place: Place) -> Option<StageWeights> {
        if self.adaptive.is_some() {
            return None;
        }
        let weights: Vec<f64> = self.shared().into_data().convert::<f64>().iter().collect();
        Some(StageWeights {
            stage: place,
            color: weights[0],
            brightness: weights[1],
            stream: weights.get(2).copied(),
        })
    }

    fn shared(&self) -> Tensor<1> {
        let logits = self.logits.val();
        let compute = wide(logits.dtype());
        softmax(logits.cast(compute), 0)
    }
}

/// The weights of one integration, in at least f32; those of a sample sum to one.
#[derive(Debug, Clone)]
pub(crate) enum Weights {
    /// `[streams]`
    Shared(Tensor<1>),
    /// `[batch, streams]`
    PerSample(Tensor<2>),
}

impl Weights {
    /// The weighted sum, in the dtype of the streams.
    pub(crate) fn blend<const D: usize>(&self, streams: Vec<Tensor<D>>) -> Tensor<D> {
        let dtype = streams[0].dtype();
        match self {
            Self::Shared(weights) => weighted_sum(streams, weights.clone().cast(dtype)),
            Self::PerSample(weights) => {
                let mut shape = [1; D];
                shape[0] = weights.dims()[0];
                let weights = weights.clone().cast(dtype);
                let weight = |at: usize| weights.clone().narrow(1, at, 1).reshape(shape);
                let terms = streams.into_iter().enumerate();
                let terms = terms.map(|(at, stream)| stream * weight(at));
                terms.reduce(|sum, term| sum + term).expect("there are two pathways")
            }
        }
    }

    /// `[batch, streams]`
    pub(crate) fn per_sample(&self, batch: usize) -> Tensor<2> {
        match self {
            Self::Shared(weights) => {
                let streams = weights.dims()[0];
                weights.clone().unsqueeze::<2>().expand([batch, streams])
            }
            Self::PerSample(weights) => weights.clone(),
        }
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
                let mut blend = Blend::new(1, arriving, GateKind::Static, &device);
                let learned = [1.5, -0.5, 0.25_f64];
                let count = blend.logits.val().dims()[0];
                let learned = Tensor::from_data(&learned[..count], &device);
                blend.logits = Param::from_tensor(learned);
                let report = blend.report(Place::Pooled).expect("a static gate");
                let applied = |streams: [Tensor<2>; 3]| {
                    let streams: Vec<Tensor<2>> = streams.into_iter().take(count).collect();
                    blend.weights(&streams, |x| x).blend(streams).numbers()
                };
                assert_close(&applied([one(), zero(), zero()]), &[report.color], tolerance::F32);
                let brightness = applied([zero(), one(), zero()]);
                assert_close(&brightness, &[report.brightness], tolerance::F32);
                let third = report.stream.unwrap_or(0.0);
                assert_close(&applied([zero(), zero(), one()]), &[third], tolerance::F32);
                // e^1.5 / (e^1.5 + e^-0.5 (+ e^0.25)), by hand.
                let expected = if count == 2 { 0.880_797_08 } else { 0.703_313_98 };
                assert_close(&report.color, &expected, tolerance::F32);
                let rows = blend.weights(&[zero()], |x| x).per_sample(2);
                assert_eq!(rows.dims(), [2, count]);
                let [first, second] = [0, 1].map(|row| rows.clone().narrow(0, row, 1).numbers());
                assert_eq!(first, second);
                assert_close(&first[..2], &[report.color, report.brightness], tolerance::F32);
            }
        }
    }

    #[test]
    fn weights_of_samples_are_applied_to_their_samples() {
        for device in devices() {
            let weights = Weights::PerSample(Tensor::from_floats(
                [[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]],
                &device,
            ));
            let stream =
                |values: [f32; 4]| Tensor::<1>::from_floats(values, &device).reshape([2, 2, 1, 1]);
            let streams = vec![
                stream([2.0, 4.0, 1.0, 1.0]),
                stream([4.0, 0.0, 3.0, -5.0]),
                stream([0.0, 8.0, 9.0, 9.0]),
            ];
            assert_eq!(weights.blend(streams).numbers(), [2.0, 4.0, 3.0, -5.0]);
            assert_eq!(weights.per_sample(2).dims(), [2, 3]);
        }
    }

    #[test]
    fn a_new_adaptive_gate_applies_the_weights_of_a_static_one_to_every_sample() {
        for device in devices() {
            for (arriving, count) in [(Arriving::Nothing, 2), (Arriving::Stream, 3)] {
                let streams: Vec<Tensor<2>> = (0..count)
                    .map(|_| Tensor::random([3, 4], Default::default(), &device))
                    .collect();
                let [fixed, adaptive] = [GateKind::Static, GateKind::Adaptive].map(|kind| {
                    let blend = Blend::new(4, arriving, kind, &device);
                    blend.weights(&streams, |x| x).per_sample(3)
                });
                assert_eq!(adaptive.dims(), [3, count]);
                assert_close(&adaptive, &fixed, tolerance::F32);
                let adaptive = Blend::new(4, arriving, GateKind::Adaptive, &device);
                assert_eq!(adaptive.report(Place::Pooled), None);
            }
        }
    }
}
