//! Losses that grow with the distance itself: of single values that are far off, less than squares.

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

/// Huber's loss, the mean over all elements: half the square of differences up to `delta`, and
/// `delta · (|difference| − delta/2)` beyond; of shape `[1]`.
///
/// # Shapes
/// - `predictions` and `targets`: any, the same
///
/// # Panics
/// If the shapes differ, or `delta` is not above 0.
///
/// # Source
/// Huber 1964, Robust estimation of a location parameter, doi:10.1214/aoms/1177703732.
#[must_use]
pub fn huber<const D: usize>(predictions: Tensor<D>, targets: Tensor<D>, delta: f32) -> Tensor<1> {
    assert_eq!(predictions.dims(), targets.dims(), "predictions and targets have one shape");
    HuberLossConfig::new(delta).init().forward(predictions, targets, Reduction::Mean)
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, devices, tolerance};

    use super::*;

    #[test]
    fn both_have_their_values_by_hand() {
        for device in devices() {
            let predictions = Tensor::<2>::from_floats([[0.5], [3.0]], &device);
            let targets = Tensor::<2>::zeros([2, 1], &device);
            let absolute = mean_absolute_error(predictions.clone(), targets.clone());
            assert_close(&absolute, &[(0.5 + 3.0) / 2.0], tolerance::F32);
            // ½·0.5² and 2·(3 − 1).
            let found = huber(predictions, targets, 2.0);
            assert_close(&found, &[(0.125 + 4.0) / 2.0], tolerance::F32);
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
