//! Cross-entropy with hard, smoothed or soft targets.

use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor};

/// Mean cross-entropy of hard labels, each smoothed over all classes; of shape `[1]`.
///
/// burn's `CrossEntropyLoss`: with smoothing `ε` and `C` classes the target of a sample is
/// `1 − ε + ε/C` at its label and `ε/C` elsewhere.
///
/// # Shapes
/// - `logits`: `[batch, classes]`
/// - `labels`: `[batch]`, each below the number of classes
///
/// # Source
/// Szegedy et al. 2015, arXiv:1512.00567, section 7.
#[must_use]
pub fn cross_entropy(logits: Tensor<2>, labels: Tensor<1, Int>, smoothing: f32) -> Tensor<1> {
    let smoothing = (smoothing > 0.0).then_some(smoothing);
    CrossEntropyLossConfig::new()
        .with_smoothing(smoothing)
        .init(&logits.device())
        .forward(logits, labels)
}

/// Cross-entropy of hard labels, each sample weighted by its class and the sum divided by the sum of
/// weights; of shape `[1]`.
///
/// PyTorch's `CrossEntropyLoss(weight, label_smoothing)` for no smoothing; with it, each sample's
/// smoothed loss is weighted by the sample's own class.
///
/// # Shapes
/// - `logits`: `[batch, classes]`
/// - `labels`: `[batch]`, each below the number of classes
/// - `weights`: `[classes]`, such as [`balanced_weights`](crate::balanced_weights)
///
/// # Panics
/// If there is not one weight for each class.
#[must_use]
pub fn weighted_cross_entropy(
    logits: Tensor<2>,
    labels: Tensor<1, Int>,
    weights: Tensor<1>,
    smoothing: f64,
) -> Tensor<1> {
    let classes = logits.dims()[1];
    assert_eq!(weights.dims(), [classes], "one weight for each class");
    let weights = weights.cast(logits.dtype()).select(0, labels.clone());
    let targets = soft_targets(labels, classes, smoothing).cast(logits.dtype());
    let each = (targets * log_softmax(logits, 1)).sum_dim(1).flatten::<1>(0, 1).neg();
    // burn's `sum` of a whole tensor adds with atomics on some GPUs, in an order that varies.
    (each * weights.clone()).sum_dim(0) / weights.sum_dim(0)
}

/// Mean cross-entropy of soft targets, `−Σ t·log softmax(x) / batch`; of shape `[1]`.
///
/// For targets that are distributions: mixed images, a teacher's outputs, smoothed labels.
///
/// # Shapes
/// - `logits` and `targets`: `[batch, classes]`, each row of `targets` summing to 1
///
/// # Panics
/// If the shapes differ.
#[must_use]
pub fn soft_cross_entropy(logits: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
    assert_eq!(logits.dims(), targets.dims(), "logits and soft targets have one shape");
    (targets * log_softmax(logits, 1)).sum_dim(1).mean().neg()
}

/// Labels as rows of `1 − smoothing` at the label plus `smoothing / classes` everywhere.
///
/// # Shapes
/// - `labels`: `[batch]`, each below `classes`
/// - returns: `[batch, classes]`
#[must_use]
pub fn soft_targets(labels: Tensor<1, Int>, classes: usize, smoothing: f64) -> Tensor<2> {
    let hard: Tensor<2> = labels.one_hot::<2>(classes).float();
    hard.mul_scalar(1.0 - smoothing).add_scalar(smoothing / classes as f64)
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, devices, gradient_check, tolerance};

    use super::*;

    #[test]
    fn soft_targets_give_the_formula_and_smoothed_labels_burns_value() {
        for device in devices() {
            let logits = Tensor::<2>::from_floats([[1.0, -0.5, 0.25], [0.0, 2.0, 1.0]], &device);
            let labels = Tensor::<1, Int>::from_ints([2, 1], &device);
            for smoothing in [0.0_f32, 0.1, 0.4] {
                let targets = soft_targets(labels.clone(), 3, f64::from(smoothing));
                let soft = soft_cross_entropy(logits.clone(), targets.clone());
                let hard = cross_entropy(logits.clone(), labels.clone(), smoothing);
                assert_close(&soft, &hard, tolerance::F32);
                let rows = [[1.0_f64, -0.5, 0.25], [0.0, 2.0, 1.0]];
                let targets: Vec<f64> = targets.into_data().iter::<f64>().collect();
                let expected: f64 = rows.iter().zip(targets.chunks(3)).fold(0.0, |sum, (x, t)| {
                    let norm = x.iter().map(|x| x.exp()).sum::<f64>().ln();
                    sum - x.iter().zip(t).map(|(x, t)| t * (x - norm)).sum::<f64>() / 2.0
                });
                assert_close(&soft, &[expected], tolerance::F32);
            }
        }
    }

    #[test]
    fn weights_of_classes_are_those_of_their_samples() {
        for device in devices() {
            let logits = Tensor::<2>::from_floats([[1.0, -0.5, 0.25], [0.0, 2.0, 1.0]], &device);
            let labels = Tensor::<1, Int>::from_ints([2, 1], &device);
            let each = [0, 1].map(|row: i32| {
                let one = |tensor: &Tensor<2>| tensor.clone().slice([row..row + 1, 0..3]);
                let label = labels.clone().slice(row..row + 1);
                let loss: Vec<f64> =
                    cross_entropy(one(&logits), label, 0.0).into_data().iter().collect();
                loss[0]
            });
            let weights = Tensor::<1>::from_floats([9.0, 3.0, 1.0], &device);
            let found = weighted_cross_entropy(logits.clone(), labels.clone(), weights, 0.0);
            assert_close(&found, &[(each[0] + 3.0 * each[1]) / 4.0], tolerance::F32);
            let equal = Tensor::<1>::ones([3], &device);
            let found = weighted_cross_entropy(logits.clone(), labels.clone(), equal, 0.1);
            assert_close(&found, &cross_entropy(logits, labels, 0.1), tolerance::F32);
        }
    }

    /// The order that does not vary on GPUs must not change results on the CPU.
    #[test]
    fn weighted_losses_have_the_bits_of_burns_whole_sums_on_flex() {
        let device = burn::tensor::Device::flex();
        let weights = Tensor::<1>::from_floats([0.3, 1.7, 0.9], &device);
        for rows in [1_usize, 7, 64, 1001] {
            let logits: Vec<f32> = (0..3 * rows).map(|at| (at as f32 * 0.7).sin() * 3.0).collect();
            let logits = Tensor::<1>::from_floats(logits.as_slice(), &device);
            let logits = logits.reshape::<2, _>([rows, 3]);
            let labels: Vec<i32> = (0..rows as i32).map(|row| row * row % 3).collect();
            let labels = Tensor::<1, Int>::from_ints(labels.as_slice(), &device);
            let of_rows = weights.clone().select(0, labels.clone());
            let targets = soft_targets(labels.clone(), 3, 0.1);
            let each = (targets * log_softmax(logits.clone(), 1)).sum_dim(1).flatten::<1>(0, 1);
            let expected = (each.neg() * of_rows.clone()).sum() / of_rows.sum();
            let found = weighted_cross_entropy(logits, labels, weights.clone(), 0.1);
            let bits = |x: Tensor<1>| -> Vec<u32> {
                x.into_data().iter::<f32>().map(f32::to_bits).collect()
            };
            assert_eq!(bits(found), bits(expected), "{rows} rows");
        }
    }

    #[test]
    fn the_gradient_is_that_of_the_formula() {
        for device in devices() {
            let logits = Tensor::<2>::from_floats([[1.0, -0.5, 0.25]], &device);
            let targets = Tensor::<2>::from_floats([[0.2, 0.3, 0.5]], &device);
            gradient_check(logits, |x| {
                let targets = targets.clone().to_device(&x.device()).cast(x.dtype());
                soft_cross_entropy(x, targets)
            });
        }
    }
}
