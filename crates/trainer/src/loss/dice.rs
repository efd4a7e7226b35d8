//! Dice plus cross-entropy, for segmentation.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor};

/// Gives a class that is neither predicted nor true a Dice loss of 0.
const SMOOTH: f64 = 1e-5;

/// Soft Dice loss plus cross-entropy, in equal parts; of shape `[1]`.
///
/// With `p` the softmax over classes, `t` the one-hot truth and sums over batch and pixels, the
/// Dice loss is `1 − mean over classes of (2·Σpt + ε)/(Σp + Σt + ε)`. The cross-entropy is the
/// mean over pixels.
///
/// # Shapes
/// - `logits`: `[batch, classes, height, width]`
/// - `labels`: `[batch, height, width]`, each below the number of classes
///
/// # Panics
/// If the shapes do not belong together.
///
/// # Source
/// Milletari, Navab and Ahmadi 2016, arXiv:1606.04797, for Dice; Isensee et al. 2018,
/// arXiv:1809.10486, for the sum of both.
#[must_use]
pub fn dice_cross_entropy(logits: Tensor<4>, labels: Tensor<3, Int>) -> Tensor<1> {
    let [batch, classes, height, width] = logits.dims();
    assert_eq!(labels.dims(), [batch, height, width], "one label for each pixel of the logits");
    let pixels = batch * height * width;
    let rows = logits.permute([0, 2, 3, 1]).reshape([pixels, classes]);
    let log_p = log_softmax(rows, 1);
    let truth = labels.reshape([pixels]).one_hot::<2>(classes).float().cast(log_p.dtype());
    let cross_entropy = (truth.clone() * log_p.clone()).sum_dim(1).mean().neg();
    let p = log_p.exp();
    let both = (p.clone() * truth.clone()).sum_dim(0);
    let either = p.sum_dim(0) + truth.sum_dim(0);
    let dice = both.mul_scalar(2.0).add_scalar(SMOOTH) / either.add_scalar(SMOOTH);
    dice.mean().neg().add_scalar(1.0) + cross_entropy
}

#[cfg(test)]
mod tests {
    use updraft_testing::{Tolerance, assert_close, devices, gradient_check};

    use super::*;

    /// The smoothing term of Dice is part of neither hand-made value.
    const SMOOTHED: Tolerance = Tolerance::new(1e-4, 1e-4);

    #[test]
    fn values_known_by_hand() {
        for device in devices() {
            let labels = Tensor::<3, Int>::from_ints([[[0, 1]]], &device);
            // Equal logits: p = ½ everywhere, so Dice is 2·½/(1 + 1) = ½ for both classes.
            let undecided =
                dice_cross_entropy(Tensor::zeros([1, 2, 1, 2], &device), labels.clone());
            assert_close(&undecided, &[0.5 + std::f64::consts::LN_2], SMOOTHED);
            let certain = Tensor::<4>::from_floats([[[[40.0, -40.0]], [[-40.0, 40.0]]]], &device);
            assert_close(&dice_cross_entropy(certain, labels), &[0.0], SMOOTHED);
        }
    }

    #[test]
    fn the_gradient_is_that_of_the_formula() {
        for device in devices() {
            let labels = Tensor::<3, Int>::from_ints([[[0, 1]]], &device);
            let logits = Tensor::<4>::from_floats([[[[0.4, -0.3]], [[0.1, 0.9]]]], &device);
            gradient_check(logits, |x| {
                dice_cross_entropy(x.clone(), labels.clone().to_device(&x.device()))
            });
        }
    }
}
