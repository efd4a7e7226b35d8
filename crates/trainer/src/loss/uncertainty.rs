//! Several losses weighted by learned uncertainties.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};

/// The bound of `|sᵢ|`: otherwise a loss that goes to 0 would drive its weight to infinity and the
/// sum to minus infinity.
const REACH: f64 = 4.0;

/// Learned weights of several losses: `Σ ½·exp(−sᵢ)·Lᵢ + ½·sᵢ`, with `sᵢ = ln σᵢ²`.
///
/// The weights are parameters: put the module next to the model, so that the optimizer updates
/// them. For constant losses the sum is smallest at `sᵢ = ln Lᵢ`, where every term weighs the same.
/// The parameters are `pᵢ` with `sᵢ = 4·tanh(pᵢ/4)`: a weight is below `½·e⁴ ≈ 27` and above `½·e⁻⁴
/// ≈ 0.009`, and every parameter always has a gradient.
///
/// # Source
/// Kendall, Gal and Cipolla 2018, arXiv:1705.07115, equation 7, in the logarithm as the paper
/// advises.
#[derive(Module, Debug)]
pub struct UncertaintyWeights {
    log_variances: Param<Tensor<1>>,
}

impl UncertaintyWeights {
    /// Equal weights for `losses` losses.
    #[must_use]
    pub fn new(losses: usize, device: &Device) -> Self {
        Self { log_variances: Param::from_tensor(Tensor::zeros([losses], device)) }
    }

    /// The weighted sum, of shape `[1]`.
    ///
    /// # Shapes
    /// - `losses`: as many as given to [`new`](Self::new), each `[1]`
    ///
    /// # Panics
    /// If there are fewer or more.
    #[must_use]
    pub fn forward(&self, losses: Vec<Tensor<1>>) -> Tensor<1> {
        Self::weighed(self.log_variances(), losses)
    }

    /// The weighted sum if the losses are computed apart from the module, of shape `[1]`:
    /// `log_variances` are those of [`log_variances`](Self::log_variances).
    ///
    /// # Panics
    /// If there are not as many losses as logarithms.
    #[must_use]
    pub fn weighed(log_variances: Tensor<1>, losses: Vec<Tensor<1>>) -> Tensor<1> {
        assert_eq!(losses.len(), log_variances.dims()[0], "one loss for each weight");
        let losses = Tensor::cat(losses, 0);
        let s = log_variances.cast(losses.dtype());
        // burn's `sum` of a whole tensor adds with atomics on some GPUs, in an order that varies.
        (s.clone().neg().exp() * losses + s).sum_dim(0).mul_scalar(0.5)
    }

    /// The factors `½·exp(−sᵢ)` that the losses are multiplied with.
    #[must_use]
    pub fn weights(&self) -> Vec<f64> {
        self.log_variances().into_data().iter::<f64>().map(|s| 0.5 * (-s).exp()).collect()
    }

    /// The logarithms `sᵢ`, `[losses]`.
    #[must_use]
    pub fn log_variances(&self) -> Tensor<1> {
        self.log_variances.val().div_scalar(REACH).tanh().mul_scalar(REACH)
    }
}

#[cfg(test)]
mod tests {
    use burn::optim::{GradientsParams, SgdConfig};
    use updraft_testing::{Tolerance, assert_close, autodiff_devices, tolerance};

    use super::*;

    #[test]
    fn the_parameters_learn_to_the_optimum_that_is_known() {
        for device in autodiff_devices() {
            let mut weights = UncertaintyWeights::new(2, &device);
            let losses =
                || vec![Tensor::from_floats([4.0], &device), Tensor::from_floats([0.25], &device)];
            assert_close(&weights.forward(losses()), &[2.125], tolerance::F32);
            let mut optimizer = SgdConfig::new().init();
            for _ in 0..400 {
                let gradients = weights.forward(losses()).backward();
                let gradients = GradientsParams::from_grads(gradients, &weights);
                weights = optimizer.step(0.2, weights, gradients);
            }
            // ½·exp(−ln L) = ½/L.
            assert_close(&weights.weights(), &[0.125, 2.0], Tolerance::new(1e-3, 1e-3));
        }
    }

    #[test]
    fn a_loss_of_nothing_has_a_finite_weight_and_every_parameter_a_gradient() {
        for device in autodiff_devices() {
            let mut weights = UncertaintyWeights::new(2, &device);
            let losses = || vec![Tensor::zeros([1], &device), Tensor::ones([1], &device)];
            let gradients = weights.forward(losses()).backward();
            let found = weights.log_variances.val().grad(&gradients).expect("a parameter");
            // ½·(1 − L·exp(−s)) at s = 0.
            assert_close(&found, &[0.5, 0.0], tolerance::F32);
            let mut optimizer = SgdConfig::new().init();
            for _ in 0..100 {
                let gradients = weights.forward(losses()).backward();
                let gradients = GradientsParams::from_grads(gradients, &weights);
                weights = optimizer.step(1.0, weights, gradients);
            }
            let found = weights.weights();
            assert!(found[0] > 10.0 && found[0] < 0.5 * REACH.exp(), "{found:?}");
            assert!((found[1] - 0.5).abs() < 1e-6, "{found:?}");
            let gradients = weights.forward(losses()).backward();
            let found = weights.log_variances.val().grad(&gradients).expect("a parameter");
            let found: Vec<f32> = found.into_data().iter().collect();
            assert!(found[0] > 0.0, "{found:?}");
        }
    }
}
