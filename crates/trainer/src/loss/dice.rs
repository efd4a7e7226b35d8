//! The Dice loss of masks, alone and with cross-entropy.

use burn::tensor::{Int, Tensor};

use super::mask::{MaskActivation, compared, cross_entropy, overlap};

/// Gives a class that is neither predicted nor true a Dice loss of 0; MONAI's default.
const SMOOTH: f64 = 1e-5;

/// Soft Dice loss; of shape `[1]`.
///
/// With `p` the probability and `t` the target, 0 or 1, of a class at a position, and `Σ` over the
/// positions of all samples together, it is `1 − mean over classes of (2·Σpt + ε)/(Σp + Σt + ε)`
/// with `ε = 10⁻⁵`. With softmax the classes include the background; with sigmoid there is class 1
/// alone. These are the numbers of MONAI's `DiceLoss(batch=True)`, with `softmax` or `sigmoid`.
/// It is computed in at least f32 and returned in the dtype of the logits.
///
/// # Shapes
/// - `logits`: `[batch, channels, positions]`
/// - `labels`: `[batch, positions]`, each below the number of channels; 0 or 1 with sigmoid
///
/// # Panics
/// If the shapes do not match, or the channels are not those of the activation.
///
/// # Source
/// Milletari, Navab and Ahmadi 2016, arXiv:1606.04797; without the squares in the denominator, as
/// Drozdzal et al. 2016, arXiv:1608.04117.
#[must_use]
pub fn dice_loss(
    logits: Tensor<3>,
    labels: Tensor<2, Int>,
    activation: MaskActivation,
) -> Tensor<1> {
    let dtype = logits.dtype();
    let (logits, target) = compared(logits, labels, activation);
    dice(logits, target, activation).cast(dtype)
}

/// [`dice_loss`] plus [`mask_cross_entropy`](crate::mask_cross_entropy), in equal parts; of shape
/// `[1]`.
///
/// The numbers of MONAI's `DiceCELoss(batch=True)`. It is computed in at least f32 and returned in
/// the dtype of the logits.
///
/// # Shapes
/// - `logits`: `[batch, channels, positions]`
/// - `labels`: `[batch, positions]`, each below the number of channels; 0 or 1 with sigmoid
///
/// # Panics
/// If the shapes do not match, or the channels are not those of the activation.
///
/// # Source
/// Isensee et al. 2018, arXiv:1809.10486.
#[must_use]
pub fn dice_cross_entropy(
    logits: Tensor<3>,
    labels: Tensor<2, Int>,
    activation: MaskActivation,
) -> Tensor<1> {
    let dtype = logits.dtype();
    let (logits, target) = compared(logits, labels, activation);
    let entropy = cross_entropy(logits.clone(), target.clone(), activation);
    (dice(logits, target, activation) + entropy).cast(dtype)
}

fn dice(logits: Tensor<3>, target: Tensor<3>, activation: MaskActivation) -> Tensor<1> {
    let [both, predicted, target] = overlap(logits, target, activation);
    let dice = both.mul_scalar(2.0).add_scalar(SMOOTH) / (predicted + target).add_scalar(SMOOTH);
    dice.mean().neg().add_scalar(1.0)
}

#[cfg(test)]
mod tests {
    use updraft_testing::{Tolerance, assert_close, devices, gradient_check};

    use super::MaskActivation::{Sigmoid, Softmax};
    use super::*;

    /// The smoothing term of Dice is part of neither hand-made value.
    const SMOOTHED: Tolerance = Tolerance::new(1e-4, 1e-4);

    #[test]
    fn values_known_by_hand() {
        for device in devices() {
            let labels = Tensor::<2, Int>::from_ints([[0, 1]], &device);
            // Equal logits: p = ½ everywhere, so Dice is 2·½/(1 + 1) = ½ for every class.
            for (activation, channels) in [(Softmax, 2), (Sigmoid, 1)] {
                let undecided = Tensor::zeros([1, channels, 2], &device);
                let found = dice_loss(undecided.clone(), labels.clone(), activation);
                assert_close(&found, &[0.5], SMOOTHED);
                let found = dice_cross_entropy(undecided, labels.clone(), activation);
                assert_close(&found, &[0.5 + std::f64::consts::LN_2], SMOOTHED);
            }
            let certain = Tensor::<3>::from_floats([[[40.0, -40.0], [-40.0, 40.0]]], &device);
            let found = dice_cross_entropy(certain.clone(), labels.clone(), Softmax);
            assert_close(&found, &[0.0], SMOOTHED);
            let found = dice_cross_entropy(certain.narrow(1, 1, 1), labels, Sigmoid);
            assert_close(&found, &[0.0], SMOOTHED);
        }
    }

    #[test]
    fn samples_are_summed_together() {
        for device in devices() {
            // One position of class 1, found, in the first sample; none, but one found, in the
            // second: 2·1/(2 + 1) over both, where the mean of the samples would be ½.
            let logits = Tensor::<3>::from_floats([[[40.0, -40.0]], [[40.0, -40.0]]], &device);
            let labels = Tensor::<2, Int>::from_ints([[1, 0], [0, 0]], &device);
            assert_close(&dice_loss(logits, labels, Sigmoid), &[1.0 / 3.0], SMOOTHED);
        }
    }

    #[test]
    fn the_gradients_are_those_of_the_formulae() {
        for device in devices() {
            let labels = Tensor::<2, Int>::from_ints([[0, 1]], &device);
            let logits = Tensor::<3>::from_floats([[[0.4, -0.3], [0.1, 0.9]]], &device);
            for (logits, activation) in
                [(logits.clone(), Softmax), (logits.narrow(1, 0, 1), Sigmoid)]
            {
                gradient_check(logits, |x| {
                    let labels = labels.clone().to_device(&x.device());
                    dice_cross_entropy(x, labels, activation)
                });
            }
        }
    }
}
