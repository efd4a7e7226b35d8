//! An update that may be skipped, by operations on tensors.

use burn::tensor::{Bool, FloatDType, Tensor};

/// A number in the dtype and the rank of a tensor.
pub(crate) fn spread<const D: usize>(number: Tensor<1>, like: &Tensor<D>) -> Tensor<D> {
    let dtype: FloatDType = like.dtype().into();
    number.cast(dtype).reshape([1_usize; D])
}

/// `after`, or `before` if the update is skipped.
pub(crate) fn unless<const D: usize>(
    after: Tensor<D>,
    before: Tensor<D>,
    is_skipped: &Tensor<1, Bool>,
) -> Tensor<D> {
    let mask: Tensor<D, Bool> = is_skipped.clone().reshape([1_usize; D]);
    let mask: Tensor<D, Bool> = mask.expand(after.shape());
    after.mask_where(mask, before)
}
