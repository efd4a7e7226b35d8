//! The loss of ordered classes.

use burn::tensor::{Int, Tensor};

use crate::loss::binary_cross_entropy;

/// The mean binary cross-entropy of the questions "is the class above `k`?"; of shape `[1]`.
///
/// A prediction that is off by two classes has two wrong answers, one that is off by one has one.
///
/// # Shapes
/// - `logits`: `[batch, classes − 1]`, one for each question
/// - `labels`: `[batch]`, each below the number of classes
///
/// # Source
/// Frank and Hall 2001, doi:10.1007/3-540-44795-4_13; Cao, Mirjalili and Raschka 2020,
/// arXiv:1901.07884, equation 5.
#[must_use]
pub fn ordinal_cross_entropy(logits: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
    let targets = is_above(labels, logits.dims()[1]).cast(logits.dtype());
    binary_cross_entropy(logits, targets)
}

/// The most probable class of each sample: the number of questions answered with yes, `[batch]`.
///
/// # Shapes
/// - `logits`: `[batch, classes − 1]`
#[must_use]
pub fn ordinal_classes(logits: &Tensor<2>) -> Tensor<1, Int> {
    logits.clone().greater_elem(0.0).int().sum_dim(1).flatten(0, 1)
}

/// 1 where a label is above the question's number.
fn is_above(labels: Tensor<1, Int>, questions: usize) -> Tensor<2> {
    let batch = labels.dims()[0];
    let device = labels.device();
    let numbers = Tensor::<1, Int>::arange(0..questions as i64, &device).unsqueeze::<2>();
    let labels = labels.reshape([batch, 1]).expand([batch, questions]);
    labels.greater(numbers.expand([batch, questions])).float()
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, devices, tolerance};

    use super::*;

    #[test]
    fn values_and_classes_known_by_hand() {
        for device in devices() {
            let logits =
                Tensor::<2>::from_floats([[2.0, -1.0], [0.5, 0.25], [-3.0, -4.0]], &device);
            let labels = Tensor::<1, Int>::from_ints([1, 2, 0], &device);
            let softplus = |x: f64| x.exp().ln_1p();
            // Yes to 2, no to −1; yes to both; no to both.
            let expected = (softplus(-2.0)
                + softplus(-1.0)
                + softplus(-0.5)
                + softplus(-0.25)
                + softplus(-3.0)
                + softplus(-4.0))
                / 6.0;
            let found = ordinal_cross_entropy(logits.clone(), labels.clone());
            assert_close(&found, &[expected], tolerance::F32);
            let classes: Vec<i64> = ordinal_classes(&logits).into_data().iter().collect();
            assert_eq!(classes, [1, 2, 0]);
        }
    }
}
