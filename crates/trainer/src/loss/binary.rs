//! Binary cross-entropy from logits.

use burn::tensor::Tensor;
use burn::tensor::activation::log_sigmoid;

/// Binary cross-entropy from logits, the mean over all elements; of shape `[1]`.
///
/// `−t·ln σ(x) − (1 − t)·ln σ(−x)`, with both logarithms taken of logits, so that no probability
/// rounds to 0 or 1.
///
/// # Shapes
/// - `logits` and `targets`: any, the same; targets in `[0, 1]`
///
/// # Panics
/// If the shapes differ.
#[must_use]
pub fn binary_cross_entropy<const D: usize>(logits: Tensor<D>, targets: Tensor<D>) -> Tensor<1> {
    assert_eq!(logits.dims(), targets.dims(), "logits and targets have one shape");
    let yes = targets.clone() * log_sigmoid(logits.clone());
    let no = targets.neg().add_scalar(1.0) * log_sigmoid(logits.neg());
    (yes + no).mean().neg()
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, devices, gradient_check, tolerance};

    use super::*;

    #[test]
    fn values_follow_the_formula_and_stay_finite_far_out() {
        for device in devices() {
            let logits = Tensor::<1>::from_floats([0.3, -1.2, 80.0, -80.0], &device);
            let targets = Tensor::<1>::from_floats([1.0, 0.25, 0.0, 0.0], &device);
            let softplus = |x: f64| x.exp().ln_1p();
            let expected = (softplus(-0.3) + softplus(-1.2) + 0.25 * 1.2 + 80.0) / 4.0;
            assert_close(&binary_cross_entropy(logits, targets), &[expected], tolerance::F32);
        }
    }

    #[test]
    fn the_gradient_is_that_of_the_formula() {
        for device in devices() {
            let targets = Tensor::<1>::from_floats([1.0, 0.25], &device);
            gradient_check(Tensor::<1>::from_floats([0.3, -1.2], &device), |x| {
                let targets = targets.clone().to_device(&x.device()).cast(x.dtype());
                binary_cross_entropy(x, targets)
            });
        }
    }
}
