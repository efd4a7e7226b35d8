//! Several losses weighted so that none of them dominates the gradient.

use serde::{Deserialize, Serialize};

use crate::metric::Sum;

/// Weights of several losses that follow the norms of their gradients.
///
/// Each update moves the weights towards those at which the norm of `wᵢ·gᵢ` is the mean norm times
/// `rᵢ^pull`, where `rᵢ` is how much slower than the others a loss has fallen since the first
/// update: losses that fall slowly get higher weights. The weights stay positive, and their mean is
/// 1. They are plain numbers, so they serialize and need no optimizer.
///
/// # Source
/// Chen et al. 2018, arXiv:1711.02257, equations 1 and 2, with a step towards the balance itself
/// instead of a gradient step on the distance to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GradientNormWeights {
    weights: Vec<Sum>,
    first: Vec<Sum>,
    pull: Sum,
    rate: Sum,
}

impl GradientNormWeights {
    /// Equal weights of `losses` losses; `pull` is the paper's `α`, 1.5 there, and `rate` the
    /// fraction of the way to the balance that one update takes.
    ///
    /// # Panics
    /// If there is no loss, `pull` is not a finite number of at least 0, or `rate` not above 0 and
    /// at most 1.
    #[must_use]
    pub fn new(losses: usize, pull: f64, rate: f64) -> Self {
        assert!(losses > 0, "weights of at least one loss");
        assert!(pull.is_finite() && pull >= 0.0, "`pull` is {pull}; expected at least 0");
        assert!(rate > 0.0 && rate <= 1.0, "`rate` is {rate}; expected above 0, at most 1");
        let weights = vec![1.0.into(); losses];
        Self { weights, first: Vec::new(), pull: pull.into(), rate: rate.into() }
    }

    /// The weights, one a loss.
    #[must_use]
    pub fn weights(&self) -> Vec<f64> {
        self.weights.iter().map(|weight| weight.value()).collect()
    }

    /// Updates the weights from the losses of a batch and the norm of each one's unweighted
    /// gradient with respect to the shared parameters. Does nothing if one of the numbers is not
    /// finite and above 0.
    ///
    /// # Panics
    /// If there are not as many norms and losses as weights.
    pub fn update(&mut self, norms: &[f64], losses: &[f64]) {
        let count = self.weights.len();
        assert_eq!((norms.len(), losses.len()), (count, count), "a norm and a loss a weight");
        if !norms.iter().chain(losses).all(|number| number.is_finite() && *number > 0.0) {
            return;
        }
        if self.first.is_empty() {
            self.first = losses.iter().map(|&loss| loss.into()).collect();
        }
        let left = losses.iter().zip(&self.first).map(|(loss, first)| loss / first.value());
        let left: Vec<f64> = left.collect();
        let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / count as f64;
        let mean_left = mean(&left);
        let weighted: Vec<f64> =
            self.weights.iter().zip(norms).map(|(weight, norm)| weight.value() * norm).collect();
        let mean_norm = mean(&weighted);
        let rate = self.rate.value();
        let moved =
            self.weights.iter().zip(norms.iter().zip(&left)).map(|(weight, (norm, left))| {
                let balance = mean_norm * (left / mean_left).powf(self.pull.value()) / norm;
                // In the logarithm, where doubling and halving are symmetric.
                (weight.value().ln() * (1.0 - rate) + balance.ln() * rate).exp()
            });
        let moved: Vec<f64> = moved.collect();
        let scale = mean(&moved);
        self.weights = moved.iter().map(|weight| (weight / scale).into()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_go_to_equal_norms_and_what_learns_slowly_gets_more() {
        let mut weights = GradientNormWeights::new(2, 0.0, 0.3);
        for _ in 0..100 {
            weights.update(&[9.0, 1.0], &[1.0, 1.0]);
        }
        // 9·0.2 = 1·1.8.
        let found = weights.weights();
        assert!((found[0] - 0.2).abs() < 1e-9 && (found[1] - 1.8).abs() < 1e-9, "{found:?}");
        let mut weights = GradientNormWeights::new(2, 1.0, 1.0);
        weights.update(&[1.0, 1.0], &[4.0, 4.0]);
        assert_eq!(weights.weights(), [1.0, 1.0]);
        weights.update(&[1.0, 1.0], &[1.0, 3.0]);
        // Losses of ¼ and ¾ of the first ones: weights of 1 to 3.
        assert!((weights.weights()[1] - 1.5).abs() < 1e-12, "{:?}", weights.weights());
        let before = weights.clone();
        weights.update(&[1.0, f64::NAN], &[1.0, 1.0]);
        assert_eq!(weights, before);
        let text = serde_json::to_string(&weights).expect("JSON");
        assert_eq!(serde_json::from_str::<GradientNormWeights>(&text).expect("weights"), weights);
    }
}
