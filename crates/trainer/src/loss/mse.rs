//! The mean squared error.

use burn::tensor::Tensor;

/// The mean of `(prediction − target)²` over all elements; of shape `[1]`.
///
/// # Shapes
/// - `predictions` and `targets`: any, the same
///
/// # Panics
/// If the shapes differ: burn would broadcast `[n, 1]` against `[1, n]` to `n²` differences.
#[must_use]
pub fn mean_squared_error<const D: usize>(predictions: Tensor<D>, targets: Tensor<D>) -> Tensor<1> {
    assert_eq!(predictions.dims(), targets.dims(), "predictions and targets have one shape");
    (predictions - targets).powi_scalar(2).mean()
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, devices, tolerance};

    use super::*;

    #[test]
    fn it_is_the_mean_of_squares() {
        for device in devices() {
            let predictions = Tensor::<1>::from_floats([1.0, -2.0, 0.5], &device);
            let targets = Tensor::<1>::from_floats([0.0, 1.0, 0.5], &device);
            assert_close(&mean_squared_error(predictions, targets), &[10.0 / 3.0], tolerance::F32);
        }
    }

    #[test]
    #[should_panic(expected = "one shape")]
    fn shapes_that_would_broadcast_are_refused() {
        let device = burn::tensor::Device::flex();
        let _ =
            mean_squared_error(Tensor::<2>::ones([3, 1], &device), Tensor::ones([1, 3], &device));
    }
}
