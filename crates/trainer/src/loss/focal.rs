//! The focal loss: cross-entropy with lower weights for easy samples.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor};

/// Mean focal loss `−(1 − p)^γ · ln p` with `p` the softmax at the label; of shape `[1]`.
///
/// `gamma` 0 is cross-entropy. `1 − p` is bounded from below by 10⁻⁷, because the gradient of a
/// power below 1 is infinite at 0.
///
/// # Shapes
/// - `logits`: `[batch, classes]`
/// - `labels`: `[batch]`, each below the number of classes
///
/// # Source
/// Lin et al. 2017, arXiv:1708.02002, equation 4.
#[must_use]
pub fn focal(logits: Tensor<2>, labels: Tensor<1, Int>, gamma: f64) -> Tensor<1> {
    each(logits, labels, gamma).mean()
}

/// The focal loss with each sample weighted by its class, the sum divided by the sum of weights; of
/// shape `[1]`.
///
/// # Shapes
/// - `logits`: `[batch, classes]`
/// - `labels`: `[batch]`, each below the number of classes
/// - `weights`: `[classes]`
///
/// # Panics
/// If there is not one weight for each class.
///
/// # Source
/// Lin et al. 2017, arXiv:1708.02002, equation 5, divided by the weights so that they do not change
/// the learning rate.
#[must_use]
pub fn weighted_focal(
    logits: Tensor<2>,
    labels: Tensor<1, Int>,
    weights: Tensor<1>,
    gamma: f64,
) -> Tensor<1> {
    assert_eq!(weights.dims(), [logits.dims()[1]], "one weight for each class");
    let weights = weights.cast(logits.dtype()).select(0, labels.clone());
    // As in `weighted_cross_entropy`, in an order that does not vary.
    (each(logits, labels, gamma) * weights.clone()).sum_dim(0) / weights.sum_dim(0)
}

/// The loss of each sample.
fn each(logits: Tensor<2>, labels: Tensor<1, Int>, gamma: f64) -> Tensor<1> {
    let log_p = log_softmax(logits, 1).gather(1, labels.unsqueeze_dim(1)).flatten::<1>(0, 1);
    if gamma == 0.0 {
        return log_p.neg();
    }
    let missed = log_p.clone().exp().neg().add_scalar(1.0).clamp_min(1e-7);
    (missed.powf_scalar(gamma) * log_p).neg()
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, devices, gradient_check, tolerance};

    use super::*;
    use crate::loss::{cross_entropy, weighted_cross_entropy};

    #[test]
    fn two_equal_logits_give_a_value_known_by_hand() {
        for device in devices() {
            let logits = Tensor::<2>::zeros([3, 2], &device);
            let labels = Tensor::<1, Int>::from_ints([0, 1, 1], &device);
            // p is one half: 0.5² · ln 2.
            let expected = 0.25 * std::f64::consts::LN_2;
            assert_close(&focal(logits, labels, 2.0), &[expected], tolerance::F32);
        }
    }

    #[test]
    fn without_focus_it_is_cross_entropy() {
        for device in devices() {
            let logits = Tensor::<2>::from_floats([[1.0, -0.5, 0.25], [0.0, 2.0, 1.0]], &device);
            let labels = Tensor::<1, Int>::from_ints([2, 1], &device);
            let expected = cross_entropy(logits.clone(), labels.clone(), 0.0);
            assert_close(&focal(logits.clone(), labels.clone(), 0.0), &expected, tolerance::F32);
            let weights = Tensor::<1>::from_floats([5.0, 2.0, 3.0], &device);
            let expected =
                weighted_cross_entropy(logits.clone(), labels.clone(), weights.clone(), 0.0);
            assert_close(&weighted_focal(logits, labels, weights, 0.0), &expected, tolerance::F32);
        }
    }

    #[test]
    fn its_gradient_is_right_and_finite_where_a_sample_is_certain() {
        for device in devices() {
            let labels = Tensor::<1, Int>::from_ints([1], &device);
            gradient_check(Tensor::<2>::from_floats([[0.4, -0.3]], &device), |x| {
                focal(x.clone(), labels.clone().to_device(&x.device()), 2.0)
            });
            let certain = Tensor::<2>::from_floats([[-90.0, 90.0]], &device.clone().autodiff());
            let certain = certain.require_grad();
            let labels = labels.to_device(&certain.device());
            let gradients = focal(certain.clone(), labels, 0.5).backward();
            let found: Vec<f32> =
                certain.grad(&gradients).expect("a leaf").into_data().iter().collect();
            assert!(found.iter().all(|value| value.is_finite()), "{found:?}");
        }
    }
}
