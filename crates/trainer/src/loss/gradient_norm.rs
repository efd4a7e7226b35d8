//! Several losses weighted so that none of them dominates the gradient.

use burn::module::{Module, Param, ParamId};
use burn::tensor::{Device, Tensor, TensorData};

/// Weights of several losses that follow the norms of their gradients.
///
/// Each update moves the weights towards those at which the norm of `wᵢ·gᵢ` is the mean norm times
/// `rᵢ^pull`, where `rᵢ` is how much slower than the others a loss has fallen since the first
/// update: losses that fall slowly get higher weights. The weights stay positive, and one is their
/// mean. They are no parameters and have no gradient: put the module next to the model, so that
/// checkpoints contain them, and call [`update`](Self::update) in
/// [`Task::before_update`](crate::Task::before_update).
///
/// # Source
/// Chen et al. 2018, arXiv:1711.02257, equations 1 and 2, with a step towards the balance itself
/// instead of a gradient step on the distance to it.
#[derive(Module, Debug)]
pub struct GradientNormWeights {
    weights: Param<Tensor<1>>,
    /// The losses of the first update; zeros before it.
    first: Param<Tensor<1>>,
    pull: f64,
    rate: f64,
}

impl GradientNormWeights {
    /// Equal weights of `losses` losses; `pull` is the paper's `α`, 1.5 there, and `rate` the
    /// fraction of the way to the balance that one update takes.
    ///
    /// # Panics
    /// If there is no loss, `pull` is not a finite number of at least 0, or `rate` not above 0 and
    /// at most 1.
    #[must_use]
    pub fn new(losses: usize, pull: f64, rate: f64, device: &Device) -> Self {
        assert!(losses > 0, "weights of at least one loss");
        assert!(pull.is_finite() && pull >= 0.0, "`pull` is {pull}; expected at least 0");
        assert!(rate > 0.0 && rate <= 1.0, "`rate` is {rate}; expected above 0, at most 1");
        let weights = Param::initialized(ParamId::new(), Tensor::ones([losses], device));
        let first = Param::initialized(ParamId::new(), Tensor::zeros([losses], device));
        Self { weights, first, pull, rate }
    }

    /// The weights, one a loss.
    #[must_use]
    pub fn weights(&self) -> Vec<f64> {
        numbers(&self.weights)
    }

    /// The same as a tensor, `[losses]`.
    #[must_use]
    pub fn tensor(&self) -> Tensor<1> {
        self.weights.base()
    }

    /// Updates the weights from the losses of a batch and the norm of each one's unweighted
    /// gradient with respect to the shared parameters. Does nothing if one of the numbers is not
    /// finite and above 0. Reads the device.
    ///
    /// # Panics
    /// If there are not as many norms and losses as weights.
    #[must_use]
    pub fn update(mut self, norms: &[f64], losses: &[f64]) -> Self {
        let weights = self.weights();
        let count = weights.len();
        assert_eq!((norms.len(), losses.len()), (count, count), "a norm and a loss a weight");
        if !norms.iter().chain(losses).all(|number| number.is_finite() && *number > 0.0) {
            return self;
        }
        if numbers(&self.first).contains(&0.0) {
            self.first = with_numbers(self.first, losses);
        }
        // As stored: a resumed run divides by the same numbers.
        let first = numbers(&self.first);
        let left: Vec<f64> = losses.iter().zip(&first).map(|(loss, first)| loss / first).collect();
        let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / count as f64;
        let mean_left = mean(&left);
        let weighted: Vec<f64> =
            weights.iter().zip(norms).map(|(weight, norm)| weight * norm).collect();
        let mean_norm = mean(&weighted);
        let moved = weights.iter().zip(norms.iter().zip(&left)).map(|(weight, (norm, left))| {
            let balance = mean_norm * (left / mean_left).powf(self.pull) / norm;
            // In the logarithm, where doubling and halving are symmetric.
            (weight.ln() * (1.0 - self.rate) + balance.ln() * self.rate).exp()
        });
        let moved: Vec<f64> = moved.collect();
        let scale = mean(&moved);
        let moved: Vec<f64> = moved.iter().map(|weight| (weight / scale).max(LEAST)).collect();
        if moved.iter().all(|weight| weight.is_finite()) {
            self.weights = with_numbers(self.weights, &moved);
        }
        self
    }
}

/// The least weight: one that f32 rounds to 0 would stay there.
const LEAST: f64 = 1e-6;

fn numbers(param: &Param<Tensor<1>>) -> Vec<f64> {
    param.base().without_autodiff().into_data().iter().collect()
}

/// The same parameter with other numbers.
fn with_numbers(param: Param<Tensor<1>>, numbers: &[f64]) -> Param<Tensor<1>> {
    param.map(|old| {
        let (device, dtype) = (old.device(), old.dtype());
        let data = TensorData::new(numbers.to_vec(), [numbers.len()]).convert_dtype(dtype);
        Tensor::from_data(data, &device)
    })
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, autodiff_devices, tolerance};

    use super::*;

    #[test]
    fn weights_go_to_equal_norms_and_what_learns_slowly_gets_more() {
        for device in autodiff_devices() {
            let mut weights = GradientNormWeights::new(2, 0.0, 0.3, &device);
            for _ in 0..100 {
                weights = weights.update(&[9.0, 1.0], &[1.0, 1.0]);
            }
            // 9·0.2 = 1·1.8.
            assert_close(&weights.weights(), &[0.2, 1.8], tolerance::F32);
            let weights = GradientNormWeights::new(2, 1.0, 1.0, &device);
            let weights = weights.update(&[1.0, 1.0], &[4.0, 4.0]);
            assert_eq!(weights.weights(), [1.0, 1.0]);
            let weights = weights.update(&[1.0, 1.0], &[1.0, 3.0]);
            // Losses of ¼ and ¾ of the first ones: weights of 1 to 3.
            assert_close(&weights.weights(), &[0.5, 1.5], tolerance::F32);
            let before = weights.weights();
            let weights = weights.update(&[1.0, f64::NAN], &[1.0, 1.0]);
            assert_eq!(weights.weights(), before);
        }
    }

    #[test]
    fn weights_are_no_parameters_and_a_record_has_them() {
        for device in autodiff_devices() {
            let new = || GradientNormWeights::new(2, 1.5, 0.5, &device);
            let moved = new().update(&[3.0, 1.0], &[4.0, 2.0]);
            assert!(!moved.tensor().is_require_grad() && !moved.first.is_require_grad());
            let read = new().load_record(moved.clone().into_record());
            assert_eq!(read.weights(), moved.weights());
            assert!(!read.tensor().is_require_grad());
            let on = |weights: GradientNormWeights| weights.update(&[1.0, 1.0], &[2.0, 1.5]);
            assert_eq!(on(read).weights(), on(moved).weights());
        }
    }

    #[test]
    fn a_weight_never_becomes_zero() {
        for device in autodiff_devices() {
            let mut weights = GradientNormWeights::new(2, 0.0, 1.0, &device);
            for _ in 0..3 {
                weights = weights.update(&[1e30, 1e-30], &[1.0, 1.0]);
            }
            let found = weights.weights();
            assert!(found[0] > 0.0 && found[1].is_finite(), "{found:?}");
        }
    }
}
