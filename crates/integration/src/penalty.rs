//! Penalties on the weights of the integrations, which are added to the loss of training.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::weights::PlaceWeights;

/// How much the weights of the integrations cost.
///
/// `entropy·mean H(w) + balance·mean Σ_k (w̄_k − 1/S)²`: the means are over the places, `H` is the
/// mean entropy of a sample's weights in nats, `w̄` the mean of the samples' weights, and `S` the
/// number of streams of the place. Positive values of the two pull in opposite directions for
/// weights that are the same for every sample.
///
/// # Source
/// The regularizer and the balance loss of the MWNN project: it pushes each weight to 0 or 1 by
/// `w·(1 − w)`, for which the entropy stands here, and pathways to equal shares.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WeightPenalty {
    /// The cost of a nat of entropy, at least 0: makes each sample's weights decisive, with one
    /// near 1.
    pub entropy: f64,
    /// The cost of the squared distance between the mean weights of a batch and equal weights, at
    /// least 0: no stream is unused.
    pub balance: f64,
}

impl WeightPenalty {
    /// Whether both costs are finite and at least 0.
    pub fn is_valid(&self) -> bool {
        [self.entropy, self.balance].iter().all(|cost| cost.is_finite() && *cost >= 0.0)
    }

    /// Whether the weights cost nothing.
    pub fn is_zero(&self) -> bool {
        self.entropy == 0.0 && self.balance == 0.0
    }

    /// The penalty on the weights of one forward pass, with gradients for what they depend on.
    ///
    /// # Shapes
    /// - returns: `[1]`, in the dtype of the weights
    ///
    /// # Panics
    /// If there are no places, or no samples.
    pub fn forward(&self, weights: &[PlaceWeights]) -> Tensor<1> {
        let weights: Vec<_> = weights.iter().map(|place| place.weights.clone()).collect();
        self.of(&weights)
    }

    /// As [`forward`](Self::forward), of the weights of each place, which does not matter itself.
    ///
    /// # Shapes
    /// - `weights`: each `[batch, streams]`
    /// - returns: `[1]`, in the dtype of the weights
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    pub fn of(&self, weights: &[Tensor<2>]) -> Tensor<1> {
        assert!(!weights.is_empty(), "a penalty on weights needs a place");
        let places = weights.len() as f64;
        let penalty = |weights: &Tensor<2>| {
            let entropy = entropy(weights.clone()).mul_scalar(self.entropy / places);
            entropy + imbalance(weights.clone()).mul_scalar(self.balance / places)
        };
        weights.iter().map(penalty).reduce(|sum, place| sum + place).expect("a place")
    }
}

/// The mean entropy of the rows, in nats.
fn entropy(weights: Tensor<2>) -> Tensor<1> {
    // Below any weight that matters, so that a weight of 0 has neither an infinite logarithm nor an
    // infinite gradient.
    const LEAST: f64 = 1e-30;
    let [batch, _] = weights.dims();
    assert!(batch > 0, "a penalty on weights needs a sample");
    let logarithms = weights.clone().clamp_min(LEAST).log();
    fixed_order_sum(weights * logarithms).div_scalar(-(batch as f64))
}

/// The squared distance of the mean row from equal weights.
fn imbalance(weights: Tensor<2>) -> Tensor<1> {
    let [_, streams] = weights.dims();
    fixed_order_sum(weights.mean_dim(0).sub_scalar(1.0 / streams as f64).square())
}

/// The sum of a matrix, as of one axis: burn's `sum` of a whole tensor adds with atomics on some
/// GPUs, in an order that varies. On flex both have the same bits.
fn fixed_order_sum(x: Tensor<2>) -> Tensor<1> {
    x.flatten::<1>(0, 1).sum_dim(0)
}

#[cfg(test)]
mod tests {
    use burn::tensor::activation::softmax;
    use updraft_testing::{Numbers, assert_close, devices, gradient_check, tolerance};

    use super::*;
    use crate::weights::Place;

    fn at(place: Place, weights: Tensor<2>) -> PlaceWeights {
        PlaceWeights { place, weights }
    }

    #[test]
    fn the_penalty_is_that_by_hand() {
        for device in devices() {
            // Entropies 0 and ln 2, mean weights 0.75 and 0.25; entropy ln 3, equal weights.
            let two = Tensor::<2>::from_floats([[1.0, 0.0], [0.5, 0.5]], &device);
            let three = Tensor::<2>::from_floats([[1.0 / 3.0; 3]], &device);
            let weights = [at(Place::Stage(0), two), at(Place::Pooled, three)];
            let entropy = (2.0_f64.ln() / 2.0 + 3.0_f64.ln()) / 2.0;
            let balance = (2.0 * 0.25 * 0.25) / 2.0;
            for (costs, expected) in [
                ([1.0, 0.0], entropy),
                ([0.0, 1.0], balance),
                ([0.5, 3.0], 0.5 * entropy + 3.0 * balance),
                ([0.0, 0.0], 0.0),
            ] {
                let penalty = WeightPenalty { entropy: costs[0], balance: costs[1] };
                let actual = penalty.forward(&weights);
                assert_eq!(actual.dims(), [1]);
                assert_close(&actual, &[expected], tolerance::F32);
            }
        }
    }

    #[test]
    fn the_gradients_are_those_of_the_formula() {
        for device in devices() {
            let logits = [[0.3, -0.7, 1.1], [0.9, 0.2, -0.4]];
            for (entropy, balance) in [(1.0, 0.0), (0.0, 1.0), (0.3, 2.0)] {
                let penalty = WeightPenalty { entropy, balance };
                gradient_check(Tensor::<2>::from_floats(logits, &device), |logits| {
                    let three = at(Place::Stage(1), softmax(logits.clone(), 1));
                    let two = at(Place::Pooled, softmax(logits.narrow(1, 0, 2), 1));
                    penalty.forward(&[three, two])
                });
            }
        }
    }

    #[test]
    fn a_weight_of_zero_has_a_finite_gradient() {
        for device in devices() {
            let weights = Tensor::<2>::from_floats([[1.0, 0.0]], &device).autodiff().require_grad();
            let penalty = WeightPenalty { entropy: 1.0, balance: 1.0 };
            let penalty = penalty.forward(&[at(Place::Pooled, weights.clone())]);
            assert_close(&penalty, &[0.5], tolerance::F32);
            let gradient = weights.grad(&penalty.backward()).expect("a leaf").numbers();
            assert!(gradient.iter().all(|value| value.is_finite()), "{gradient:?}");
        }
    }

    #[test]
    fn costs_are_finite_and_not_negative() {
        let valid = |entropy, balance| WeightPenalty { entropy, balance }.is_valid();
        assert!(valid(0.0, 0.0) && valid(0.01, 2.0));
        assert!(!valid(-0.01, 0.0) && !valid(0.0, f64::NAN) && !valid(f64::INFINITY, 0.0));
        assert!(WeightPenalty::default().is_zero());
        assert!(!WeightPenalty { balance: 0.1, ..WeightPenalty::default() }.is_zero());
        let read = serde_json::from_str::<WeightPenalty>;
        assert_eq!(read("{}").expect("the defaults"), WeightPenalty::default());
        assert!(read(r#"{ "entropie": 1.0 }"#).is_err());
    }
}
