//! Several losses weighed by learned uncertainties.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};

/// Learned weights of several losses: `Σ ½·exp(−sᵢ)·Lᵢ + ½·sᵢ`, with `sᵢ = ln σᵢ²`.
///
/// The `sᵢ` are parameters: put the module beside the model, so that the optimizer moves them.
/// For constant losses the sum is smallest at `sᵢ = ln Lᵢ`, where every term weighs the same.
///
/// # Source
/// Kendall, Gal and Cipolla 2018, arXiv:1705.07115, equation 7, in the logarithm as the paper
/// advises.
#[derive(Module, Debug)]
pub struct UncertaintyWeights {
    log_variances: Param<Tensor<1>>,
}

impl UncertaintyWeights {
    /// Equal weights for so many losses.
    #[must_use]
    pub fn new(losses: usize, device: &Device) -> Self {
        Self { log_variances: Param::from_tensor(Tensor::zeros([losses], device)) }
    }

    /// The weighed sum, of shape `[1]`.
    ///
    /// # Shapes
    /// - `losses`: as many as given to [`new`](Self::new), each `[1]`
    ///
    /// # Panics
    /// If there are fewer or more.
    #[must_use]
    pub fn forward(&self, losses: Vec<Tensor<1>>) -> Tensor<1> {
        let s = self.log_variances.val();
        assert_eq!(losses.len(), s.dims()[0], "one loss for each weight");
        let losses = Tensor::cat(losses, 0);
        (s.clone().neg().exp() * losses + s).sum().mul_scalar(0.5)
    }

    /// The factors `½·exp(−sᵢ)` that the losses are multiplied with.
    #[must_use]
    pub fn weights(&self) -> Vec<f64> {
        self.log_variances.val().into_data().iter::<f64>().map(|s| 0.5 * (-s).exp()).collect()
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
}
