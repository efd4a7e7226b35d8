//! The Tversky loss of masks.

use burn::tensor::{Int, Tensor};

use super::mask::{MaskActivation, compared, overlap};

/// Gives a class that is neither predicted nor true a loss of 0; MONAI's default.
const SMOOTH: f64 = 1e-5;

/// The Tversky loss: a Dice loss that weighs false positives and false negatives; of shape `[1]`.
///
/// With `p` the probability and `t` the target, 0 or 1, of a class at a position, and `Σ` over the
/// positions of all samples together, it is `1 − mean over classes of
/// (Σpt + ε)/(Σpt + α·Σp(1 − t) + β·Σ(1 − p)t + ε)` with `ε = 10⁻⁵`. `alpha` weighs false
/// positives, `beta` false negatives; with ½ and ½ it is [`dice_loss`](crate::dice_loss) but for
/// `ε`. The classes are those of that loss. These are the numbers of MONAI's
/// `TverskyLoss(alpha, beta, batch=True)`.
/// It is computed in at least f32 and returned in the dtype of the logits.
///
/// # Shapes
/// - `logits`: `[batch, channels, positions]`
/// - `labels`: `[batch, positions]`, each below the number of channels; 0 or 1 with sigmoid
///
/// # Panics
/// If the shapes do not match, the channels are not those of the activation, or `alpha` or `beta`
/// is not a finite number of at least 0.
///
/// # Source
/// Salehi, Erdogmus and Gholipour 2017, arXiv:1706.05721, equation 3.
#[must_use]
pub fn tversky_loss(
    logits: Tensor<3>,
    labels: Tensor<2, Int>,
    activation: MaskActivation,
    alpha: f64,
    beta: f64,
) -> Tensor<1> {
    let is_weight = |weight: f64| weight.is_finite() && weight >= 0.0;
    assert!(is_weight(alpha), "`alpha` is {alpha}; expected at least 0");
    assert!(is_weight(beta), "`beta` is {beta}; expected at least 0");
    let dtype = logits.dtype();
    let (logits, target) = compared(logits, labels, activation);
    let [both, predicted, target] = overlap(logits, target, activation);
    let too_many = (predicted - both.clone()).mul_scalar(alpha);
    let missed = (target - both.clone()).mul_scalar(beta);
    let both = both.add_scalar(SMOOTH);
    let index = both.clone() / (both + too_many + missed);
    index.mean().neg().add_scalar(1.0).cast(dtype)
}

#[cfg(test)]
mod tests {
    use updraft_testing::{Tolerance, assert_close, devices, gradient_check};

    use super::MaskActivation::{Sigmoid, Softmax};
    use super::*;
    use crate::loss::dice_loss;

    /// The smoothing term has another weight than in the compared values.
    const SMOOTHED: Tolerance = Tolerance::new(1e-4, 1e-4);

    #[test]
    fn values_known_by_hand() {
        for device in devices() {
            // One true positive, one false positive, one false negative.
            let logits = Tensor::<3>::from_floats([[[40.0, 40.0, -40.0, -40.0]]], &device);
            let labels = Tensor::<2, Int>::from_ints([[1, 0, 1, 0]], &device);
            let found = tversky_loss(logits.clone(), labels.clone(), Sigmoid, 0.3, 0.7);
            assert_close(&found, &[0.5], SMOOTHED);
            let found = tversky_loss(logits, labels, Sigmoid, 0.0, 3.0);
            assert_close(&found, &[0.75], SMOOTHED);
        }
    }

    #[test]
    fn with_halves_it_is_the_dice_loss() {
        for device in devices() {
            let logits = Tensor::<3>::from_floats([[[0.4, -0.3], [0.1, 0.9]]], &device);
            let labels = Tensor::<2, Int>::from_ints([[0, 1]], &device);
            let expected = dice_loss(logits.clone(), labels.clone(), Softmax);
            let found = tversky_loss(logits, labels, Softmax, 0.5, 0.5);
            assert_close(&found, &expected, SMOOTHED);
        }
    }

    #[test]
    fn the_gradient_is_that_of_the_formula() {
        for device in devices() {
            let labels = Tensor::<2, Int>::from_ints([[0, 1]], &device);
            let logits = Tensor::<3>::from_floats([[[0.4, -0.3], [0.1, 0.9]]], &device);
            gradient_check(logits, |x| {
                let labels = labels.clone().to_device(&x.device());
                tversky_loss(x, labels, Softmax, 0.3, 0.7)
            });
        }
    }

    #[test]
    #[should_panic(expected = "`beta` is -1; expected at least 0")]
    fn a_negative_weight_is_refused() {
        let device = burn::tensor::Device::flex();
        let labels = Tensor::<2, Int>::zeros([1, 4], &device);
        let _ = tversky_loss(Tensor::zeros([1, 1, 4], &device), labels, Sigmoid, 0.5, -1.0);
    }
}
