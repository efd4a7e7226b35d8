//! Cross-entropy as one differentiable operation.

use burn::tensor::{Int, Tensor};
#[cfg(feature = "flex")]
use burn::{backend::Dispatch, tensor::DType};
use updraft_simd::time_operation;

#[cfg(feature = "flex")]
use super::extension::TableBackend;
#[cfg(feature = "flex")]
use super::is_ours;
use super::plain;

/// The mean cross-entropy of classes, of shape `[1]`, each label smoothed over all classes.
///
/// With smoothing `ε` and `C` classes the target of a row is `1 − ε + ε/C` at its label and `ε/C`
/// elsewhere, as in burn's `CrossEntropyLoss`. On flex in f32 one pass over the logits computes the
/// loss and its gradient; elsewhere burn's operations compute the same.
///
/// # Shapes
/// - `logits`: `[rows, classes]`
/// - `labels`: `[rows]`, each below the number of classes
///
/// # Panics
/// If the shapes do not match, or a label is not below the number of classes.
///
/// # Source
/// Szegedy et al. 2015, arXiv:1512.00567, section 7.
#[must_use]
pub fn cross_entropy(logits: Tensor<2>, labels: Tensor<1, Int>, smoothing: f32) -> Tensor<1> {
    let [rows, _] = logits.dims();
    assert_eq!(labels.dims(), [rows], "a label for each row");
    time_operation("cross-entropy", || {
        #[cfg(feature = "flex")]
        if logits.shape().num_elements() > 0
            && is_ours(&logits)
            && matches!(labels.dtype(), DType::I32 | DType::I64)
        {
            let (logits, labels) = (logits.into_dispatch(), labels.into_dispatch());
            let (loss, _) = Dispatch::cross_entropy(logits, labels, smoothing);
            return Tensor::from_dispatch(loss);
        }
        plain::cross_entropy(logits, labels, smoothing)
    })
}
