//! Losses that grow with the absolute difference: its mean, Huber's, and that of quantiles.

use burn::nn::loss::{HuberLossConfig, Reduction};
use burn::tensor::Tensor;

/// The mean of `|prediction − target|` over all elements; of shape `[1]`.
///
/// # Shapes
/// - `predictions` and `targets`: any, the same
///
/// # Panics
/// If the shapes differ.
#[must_use]
pub fn mean_absolute_error<const D: usize>(
    predictions: Tensor<D>,
    targets: Tensor<D>,
) -> Tensor<1> {
    assert_eq!(predictions.dims(), targets.dims(), "predictions and targets have one shape");
    (predictions - targets).abs().mean()
}

/// The mean of `½d²` for differences up to `delta` and `delta·(|d| − ½·delta)` beyond; of shape
/// `[1]`.
///
/// # Shapes
/// - `predictions` and `targets`: any, the same
///
/// # Panics
/// If the shapes differ.
///
/// # Source
/// Huber 1964, doi:10.1214/aoms/1177703732.
#[must_use]
pub fn huber<const D: usize>(predictions: Tensor<D>, targets: Tensor<D>, delta: f32) -> Tensor<1> {
    assert_eq!(predictions.dims(), targets.dims(), "predictions and targets have one shape");
    HuberLossConfig::new(delta).init().forward(predictions, targets, Reduction::Mean)
}

/// The mean over samples and quantiles of `max(q·d, (q − 1)·d)` with `d = target − prediction`; of
/// shape `[1]`. The prediction that minimizes it is the `q`-quantile of the targets.
///
/// # Shapes
/// - `predictions`: `[batch, quantiles]`, one for each of `quantiles`
/// - `targets`: `[batch, 1]`
///
/// # Panics
/// If the shapes are others.
///
/// # Source
/// Koenker and Bassett 1978, doi:10.2307/1913643.
#[must_use]
pub fn quantile_loss(predictions: Tensor<2>, targets: Tensor<2>, quantiles: &[f32]) -> Tensor<1> {
    let [batch, count] = predictions.dims();
    assert_eq!(count, quantiles.len(), "one prediction for each quantile");
    assert_eq!(targets.dims(), [batch, 1], "one target a sample");
    let q = Tensor::<1>::from_floats(quantiles, &predictions.device());
    let q = q.cast(predictions.dtype()).unsqueeze::<2>();
    let above = targets - predictions;
    // q·d where the target is above the prediction, (q − 1)·d below it.
    (above.clone() * q + above.neg().clamp_min(0.0)).mean()
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, devices, gradient_check, tolerance};

    use super::*;

    #[test]
    fn values_known_by_hand() {
        for device in devices() {
            let predictions = Tensor::<2>::from_floats([[0.5], [3.0]], &device);
            let targets = Tensor::<2>::zeros([2, 1], &device);
            let expected = (0.125 + 2.5) / 2.0;
            assert_close(&huber(predictions, targets, 1.0), &[expected], tolerance::F32);
            // sklearn.metrics.mean_pinball_loss of [1, 2, 4] and [2, 2, 1]: (0.9 + 0 + 0.3) / 3
            // at 0.1, and (0.1 + 0 + 2.7) / 3 at 0.9.
            let targets = Tensor::<2>::from_floats([[1.0], [2.0], [4.0]], &device);
            let both = Tensor::<2>::from_floats([[2.0, 2.0], [2.0, 2.0], [1.0, 1.0]], &device);
            let expected = (0.4 + 2.8 / 3.0) / 2.0;
            let found = quantile_loss(both, targets, &[0.1, 0.9]);
            assert_close(&found, &[expected], tolerance::F32);
        }
    }

    #[test]
    fn the_gradients_are_those_of_the_formulae() {
        for device in devices() {
            let targets = Tensor::<2>::from_floats([[0.0], [1.0]], &device);
            gradient_check(Tensor::<2>::from_floats([[0.3, 0.8], [0.2, 2.5]], &device), |x| {
                let targets = targets.clone().to_device(&x.device()).cast(x.dtype());
                quantile_loss(x, targets, &[0.25, 0.75])
            });
            gradient_check(Tensor::<2>::from_floats([[0.3], [2.7]], &device), |x| {
                let targets = targets.clone().to_device(&x.device()).cast(x.dtype());
                huber(x, targets, 1.0)
            });
        }
    }

    #[test]
    fn absolute_errors_by_hand() {
        for device in devices() {
            let predictions = Tensor::<2>::from_floats([[0.5], [3.0]], &device);
            let found = mean_absolute_error(predictions, Tensor::zeros([2, 1], &device));
            assert_close(&found, &[1.75], tolerance::F32);
        }
    }

    #[test]
    #[should_panic(expected = "one shape")]
    fn shapes_that_would_broadcast_are_refused() {
        let device = burn::tensor::Device::flex();
        let _ =
            mean_absolute_error(Tensor::<2>::ones([3, 1], &device), Tensor::ones([1, 3], &device));
    }
}
