//! Cross-entropy of masks, and code shared by mask losses.

use burn::tensor::activation::{log_softmax, sigmoid, softmax};
use burn::tensor::{DType, FloatDType, Int, Tensor};
use serde::{Deserialize, Serialize};

use super::binary::binary_cross_entropy;

/// How the logits of a mask become probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MaskActivation {
    /// One channel for each class, at least two; the probabilities of a position sum to 1.
    #[default]
    Softmax,
    /// One channel: the logit of class 1, against class 0.
    Sigmoid,
}

/// Mean cross-entropy over all positions of all samples, from logits; of shape `[1]`.
///
/// With softmax it is `−ln p` of each position's class, with sigmoid
/// [`binary_cross_entropy`]. It is computed in at least f32 and returned in the dtype of the
/// logits.
///
/// # Shapes
/// - `logits`: `[batch, channels, positions]`
/// - `labels`: `[batch, positions]`, each below the number of channels; 0 or 1 with sigmoid
///
/// # Panics
/// If the shapes do not match, or the channels are not those of the activation.
#[must_use]
pub fn mask_cross_entropy(
    logits: Tensor<3>,
    labels: Tensor<2, Int>,
    activation: MaskActivation,
) -> Tensor<1> {
    let dtype = logits.dtype();
    let (logits, target) = compared(logits, labels, activation);
    cross_entropy(logits, target, activation).cast(dtype)
}

/// [`mask_cross_entropy`] of what [`compared`] returns, in its dtype.
pub(super) fn cross_entropy(
    logits: Tensor<3>,
    target: Tensor<3>,
    activation: MaskActivation,
) -> Tensor<1> {
    match activation {
        MaskActivation::Softmax => (target * log_softmax(logits, 1)).sum_dim(1).mean().neg(),
        MaskActivation::Sigmoid => binary_cross_entropy(logits, target),
    }
}

/// For each channel, over all positions of all samples: the sums of `p·t`, of `p` and of `t`, each
/// `[1, channels, 1]`, with the probability `p` and the target `t`.
pub(super) fn overlap(
    logits: Tensor<3>,
    target: Tensor<3>,
    activation: MaskActivation,
) -> [Tensor<3>; 3] {
    let p = match activation {
        MaskActivation::Softmax => softmax(logits, 1),
        MaskActivation::Sigmoid => sigmoid(logits),
    };
    [p.clone() * target.clone(), p, target].map(|each| each.sum_dim(2).sum_dim(0))
}

/// The logits in at least f32, and the target in the same dtype: 1 at the channel of a position's
/// class, otherwise 0; both `[batch, channels, positions]`.
///
/// # Panics
/// As [`mask_cross_entropy`].
pub(super) fn compared(
    logits: Tensor<3>,
    labels: Tensor<2, Int>,
    activation: MaskActivation,
) -> (Tensor<3>, Tensor<3>) {
    assert_belong(&logits, &labels, activation);
    let [_, channels, _] = logits.dims();
    let first = i64::from(activation == MaskActivation::Sigmoid);
    let options = (&labels.device(), labels.dtype());
    let classes = Tensor::<1, Int>::arange(first..first + channels as i64, options);
    let classes = classes.reshape([1, channels, 1]).expand(logits.dims());
    let labels = labels.unsqueeze_dim::<3>(1).expand(logits.dims());
    let logits = at_least_f32(logits);
    let target = labels.equal(classes).float().cast(logits.dtype());
    (logits, target)
}

/// Panics if logits and labels of a mask do not match.
///
/// # Panics
/// As [`mask_cross_entropy`].
#[track_caller]
pub(crate) fn assert_belong(
    logits: &Tensor<3>,
    labels: &Tensor<2, Int>,
    activation: MaskActivation,
) {
    let [batch, channels, positions] = logits.dims();
    assert_eq!(labels.dims(), [batch, positions], "one label for each position of the logits");
    match activation {
        MaskActivation::Softmax => {
            assert!(channels > 1, "softmax takes at least two channels, found {channels}");
        }
        MaskActivation::Sigmoid => {
            assert!(channels == 1, "sigmoid takes one channel, found {channels}");
        }
    }
}

/// The tensor in f64 if it already is, otherwise in f32.
pub(crate) fn at_least_f32<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    let is_wide = matches!(tensor.dtype(), DType::F32 | DType::F64);
    if is_wide { tensor } else { tensor.cast(FloatDType::F32) }
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, devices, gradient_check, tolerance};

    use super::*;
    use crate::loss::cross_entropy as of_rows;

    #[test]
    fn it_is_the_cross_entropy_of_each_position() {
        for device in devices() {
            let logits = Tensor::<3>::from_floats(
                [[[0.4, -0.3], [0.1, 0.9], [2.0, 0.0]], [[1.0, 0.5], [-1.0, 0.0], [0.3, 0.2]]],
                &device,
            );
            let labels = Tensor::<2, Int>::from_ints([[2, 0], [1, 1]], &device);
            let rows = logits.clone().swap_dims(1, 2).reshape([4, 3]);
            let expected = of_rows(rows, labels.clone().reshape([4]), 0.0);
            let found = mask_cross_entropy(logits, labels, MaskActivation::Softmax);
            assert_close(&found, &expected, tolerance::F32);

            let logits = Tensor::<3>::from_floats([[[0.3, -1.2, 80.0]]], &device);
            let labels = Tensor::<2, Int>::from_ints([[1, 0, 0]], &device);
            let softplus = |x: f64| x.exp().ln_1p();
            let expected = (softplus(-0.3) + softplus(-1.2) + 80.0) / 3.0;
            let found = mask_cross_entropy(logits, labels, MaskActivation::Sigmoid);
            assert_close(&found, &[expected], tolerance::F32);
        }
    }

    #[test]
    fn half_precision_logits_are_summed_in_f32() {
        for device in devices() {
            let logits = Tensor::<3>::zeros([1, 1, 70_000], &device).cast(FloatDType::F16);
            let labels = Tensor::<2, Int>::zeros([1, 70_000], &device);
            let found = mask_cross_entropy(logits, labels, MaskActivation::Sigmoid);
            assert_eq!(found.dtype(), DType::F16);
            assert_close(&found, &[std::f64::consts::LN_2], tolerance::F16);
        }
    }

    #[test]
    fn the_gradients_are_those_of_the_formulae() {
        for device in devices() {
            let labels = Tensor::<2, Int>::from_ints([[0, 1]], &device);
            let logits = Tensor::<3>::from_floats([[[0.4, -0.3], [0.1, 0.9]]], &device);
            gradient_check(logits.clone(), |x| {
                let labels = labels.clone().to_device(&x.device());
                mask_cross_entropy(x, labels, MaskActivation::Softmax)
            });
            gradient_check(logits.narrow(1, 0, 1), |x| {
                let labels = labels.clone().to_device(&x.device());
                mask_cross_entropy(x, labels, MaskActivation::Sigmoid)
            });
        }
    }

    #[test]
    #[should_panic(expected = "sigmoid takes one channel, found 2")]
    fn sigmoid_of_two_channels_is_refused() {
        let device = burn::tensor::Device::flex();
        let labels = Tensor::<2, Int>::zeros([1, 4], &device);
        let _ =
            mask_cross_entropy(Tensor::zeros([1, 2, 4], &device), labels, MaskActivation::Sigmoid);
    }

    #[test]
    #[should_panic(expected = "softmax takes at least two channels, found 1")]
    fn softmax_of_one_channel_is_refused() {
        let device = burn::tensor::Device::flex();
        let labels = Tensor::<2, Int>::zeros([1, 4], &device);
        let _ =
            mask_cross_entropy(Tensor::zeros([1, 1, 4], &device), labels, MaskActivation::Softmax);
    }

    #[test]
    #[should_panic(expected = "one label for each position of the logits")]
    fn labels_of_other_positions_are_refused() {
        let device = burn::tensor::Device::flex();
        let labels = Tensor::<2, Int>::zeros([1, 3], &device);
        let _ =
            mask_cross_entropy(Tensor::zeros([1, 2, 4], &device), labels, MaskActivation::Softmax);
    }
}
