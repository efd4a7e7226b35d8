//! How much each term adds to an integration, for each sample.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::blend::Weights;
use crate::network::DualPathwayNet;
use crate::weights::Place;
use crate::wide::wide;

/// A number of each stream of an integration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StreamValues {
    /// The color pathway's.
    pub color: f64,
    /// The brightness pathway's.
    pub brightness: f64,
    /// The carried stream's, or `None` without a stream.
    pub stream: Option<f64>,
}

/// What one integration did with one sample, or the mean of it.
///
/// The integration adds the weighted streams and the nonlinear mix. The share of a term is its
/// Euclidean norm over all features of the sample, divided by the sum of these norms: `‖w_k·x_k‖`
/// for a stream, `‖mix‖` for the mix. All shares are 0 where every term is zero, and NaN where a
/// term is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Contribution {
    /// The weights as applied, before their rounding to the dtype of the activations; they sum to
    /// one.
    pub weights: StreamValues,
    /// The shares of the weighted streams; with [`mix`](Self::mix) they sum to one.
    pub shares: StreamValues,
    /// The share of the nonlinear mix.
    pub mix: f64,
    /// The Shannon entropy of the weights, in nats: 0 if one stream has all of the weight, ln 2 or
    /// ln 3 if all weights are equal.
    pub entropy: f64,
}

/// The contributions at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlaceContributions {
    /// Where the streams were integrated.
    pub place: Place,
    /// One for each sample, in the order of the batch.
    pub samples: Vec<Contribution>,
}

impl DualPathwayNet {
    /// What each integration does with each image, in the order of the integrations.
    ///
    /// Of the network as evaluated: without dropout, with the running statistics of norms, which do
    /// not change, and without a graph.
    ///
    /// # Shapes
    /// - `rgb`: `[batch, 3, height, width]`
    ///
    /// # Panics
    /// If the second axis of `rgb` is not 3, or its dtype is not that of the parameters.
    ///
    /// # Accuracy
    /// Norms are sums in f32, or in f64 for parameters in f64.
    pub fn contributions(&self, rgb: Tensor<4>) -> Vec<PlaceContributions> {
        self.forward_with_contributions(rgb).1
    }

    /// The logits of the same pass, and its contributions.
    ///
    /// # Shapes
    /// - `rgb`: `[batch, 3, height, width]`
    /// - returns: `[batch, classes]`, not normalized, and one entry for each integration
    ///
    /// # Panics
    /// As [`contributions`](Self::contributions).
    pub fn forward_with_contributions(
        &self,
        rgb: Tensor<4>,
    ) -> (Tensor<2>, Vec<PlaceContributions>) {
        let (logits, terms) = self.logits_and_terms(rgb);
        (logits, terms.into_iter().map(|(place, terms)| terms.read(place)).collect())
    }
}

/// The norms of the terms of one integration.
#[derive(Debug)]
pub(crate) struct Terms {
    /// `[batch, streams]`
    weights: Tensor<2>,
    /// `[batch]` of each stream, unweighted, and of the mix.
    norms: Vec<Tensor<1>>,
}

impl Terms {
    pub(crate) fn new<const D: usize>(
        streams: &[Tensor<D>],
        weights: &Weights,
        mix: Tensor<D>,
    ) -> Self {
        let weights = weights.per_sample(mix.dims()[0]);
        Self { weights, norms: streams.iter().cloned().chain([mix]).map(norms).collect() }
    }

    fn read(self, place: Place) -> PlaceContributions {
        let [batch, streams] = self.weights.dims();
        let weights: Vec<f64> = self.weights.into_data().convert::<f64>().iter().collect();
        let read =
            |norms: Tensor<1>| -> Vec<f64> { norms.into_data().convert::<f64>().iter().collect() };
        let norms: Vec<_> = self.norms.into_iter().map(read).collect();
        let sample = |sample: usize| {
            let weights = &weights[sample * streams..][..streams];
            // Weights are not negative: the norm of the product is the product.
            let norm = |term: usize| weights.get(term).unwrap_or(&1.0) * norms[term][sample];
            contribution(weights, &(0..=streams).map(norm).collect::<Vec<f64>>())
        };
        PlaceContributions { place, samples: (0..batch).map(sample).collect() }
    }
}

/// The norm of each sample.
fn norms<const D: usize>(features: Tensor<D>) -> Tensor<1> {
    let batch = features.dims()[0];
    let count = features.shape().num_elements() / batch.max(1);
    let compute = wide(features.dtype());
    features.cast(compute).reshape([batch, count]).square().sum_dim(1).sqrt().reshape([batch])
}

/// Of the weights of the streams, and of the norms of the weighted streams and the mix.
fn contribution(weights: &[f64], norms: &[f64]) -> Contribution {
    let sum: f64 = norms.iter().sum();
    // NaN stays visible.
    let share = |norm: &f64| if sum == 0.0 { 0.0 } else { norm / sum };
    let (streams, mix) = norms.split_at(weights.len());
    let shares: Vec<f64> = streams.iter().map(share).collect();
    let information = |&weight: &f64| if weight == 0.0 { 0.0 } else { -weight * weight.ln() };
    Contribution {
        weights: StreamValues::of(weights),
        shares: StreamValues::of(&shares),
        mix: share(&mix[0]),
        entropy: weights.iter().map(information).sum(),
    }
}

impl StreamValues {
    fn of(values: &[f64]) -> Self {
        Self { color: values[0], brightness: values[1], stream: values.get(2).copied() }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            color: self.color + other.color,
            brightness: self.brightness + other.brightness,
            stream: self.stream.zip(other.stream).map(|(left, right)| left + right),
        }
    }

    fn over(self, count: f64) -> Self {
        Self {
            color: self.color / count,
            brightness: self.brightness / count,
            stream: self.stream.map(|value| value / count),
        }
    }
}

impl Contribution {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            weights: self.weights.plus(other.weights),
            shares: self.shares.plus(other.shares),
            mix: self.mix + other.mix,
            entropy: self.entropy + other.entropy,
        }
    }

    pub(crate) fn over(self, count: f64) -> Self {
        Self {
            weights: self.weights.over(count),
            shares: self.shares.over(count),
            mix: self.mix / count,
            entropy: self.entropy / count,
        }
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, devices, tolerance};

    use super::*;

    #[test]
    fn shares_and_entropy_are_those_by_hand() {
        for device in devices() {
            let features =
                |values: [f32; 4]| Tensor::<1>::from_floats(values, &device).reshape([2, 2, 1, 1]);
            // Norms 5 and 0, 10 and 2, 3 and 0.
            let streams = [features([3.0, 4.0, 0.0, 0.0]), features([6.0, 8.0, 0.0, 2.0])];
            let mix = features([0.0, -3.0, 0.0, 0.0]);
            let weights = Tensor::from_floats([[0.8, 0.2], [1.0, 0.0]], &device);
            let terms = Terms::new(&streams, &Weights::PerSample(weights), mix);
            let PlaceContributions { place, samples } = terms.read(Place::Stage(2));
            assert_eq!((place, samples.len()), (Place::Stage(2), 2));
            // 0.8·5 = 4, 0.2·10 = 2 and 3 of 9.
            let first = samples[0];
            let shares = [first.shares.color, first.shares.brightness, first.mix];
            assert_close(&shares, &[4.0 / 9.0, 2.0 / 9.0, 3.0 / 9.0], tolerance::F32);
            assert_eq!(first.shares.stream, None);
            let entropy = -(0.8_f64 * 0.8_f64.ln() + 0.2 * 0.2_f64.ln());
            assert_close(&first.entropy, &entropy, tolerance::F32);
            // Every term of the second sample is zero.
            let second = samples[1];
            let shares = [second.shares.color, second.shares.brightness, second.mix];
            assert_eq!((shares, second.entropy), ([0.0; 3], 0.0));
            assert_eq!((second.weights.color, second.weights.brightness), (1.0, 0.0));
        }
    }

    #[test]
    fn what_is_not_finite_is_no_share_of_zero() {
        for device in devices() {
            let feature = |value: f32| Tensor::<2>::from_floats([[value]], &device);
            for value in [f32::NAN, f32::INFINITY] {
                let streams = [feature(value), feature(1.0)];
                let weights = Weights::PerSample(Tensor::from_floats([[0.5, 0.5]], &device));
                let terms = Terms::new(&streams, &weights, feature(1.0));
                let sample = terms.read(Place::Pooled).samples[0];
                assert!(sample.shares.color.is_nan(), "{sample:?}");
            }
            let weights = Weights::PerSample(Tensor::from_floats([[f32::NAN; 2]], &device));
            let terms = Terms::new(&[feature(1.0), feature(1.0)], &weights, feature(1.0));
            let sample = terms.read(Place::Pooled).samples[0];
            assert!(sample.entropy.is_nan() && sample.mix.is_nan(), "{sample:?}");
        }
    }
}
