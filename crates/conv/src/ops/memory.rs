//! Memory of consumed tensors, kept for later results.

use std::sync::Arc;

use burn::backend::flex::FlexTensor;
use updraft_simd::keep_memory;
#[cfg(feature = "autodiff")]
use updraft_simd::take_memory;

/// Keeps the memory of tensors without other owners.
pub(super) fn keep<const N: usize>(tensors: [FlexTensor; N]) {
    tensors.into_iter().filter_map(|tensor| own_memory(tensor).ok()).for_each(keep_memory);
}

/// The numbers of a contiguous tensor: its memory if it has no other owner, else a copy.
#[cfg(feature = "autodiff")]
pub(super) fn into_vector(tensor: FlexTensor) -> Vec<f32> {
    own_memory(tensor).unwrap_or_else(|shared| {
        let numbers = shared.storage::<f32>();
        let mut copy = take_memory(numbers.len());
        copy.clear();
        copy.extend_from_slice(numbers);
        copy
    })
}

/// The memory of a tensor, or the tensor if something else owns it too.
pub(super) fn own_memory(tensor: FlexTensor) -> Result<Vec<f32>, FlexTensor> {
    let (layout, dtype) = (tensor.layout().clone(), tensor.dtype());
    let data = tensor.data_arc();
    drop(tensor);
    match Arc::try_unwrap(data) {
        Ok(bytes) => bytes.try_into_vec().map_err(|bytes| FlexTensor::new(bytes, layout, dtype)),
        Err(shared) => Err(FlexTensor::from_arc(shared, layout, dtype)),
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::TensorData;
    use updraft_simd::{release_memory, take_memory};

    use super::*;

    #[test]
    fn only_memory_without_other_owners_is_kept() {
        // A length that no other test uses: the list is shared by the process.
        let len = (1 << 14) + 54_321;
        let tensor = FlexTensor::from_data(TensorData::new(vec![1.0_f32; len], [len]));
        assert!(take_memory(len).is_empty());
        keep([tensor.clone()]);
        assert!(take_memory(len).is_empty(), "somebody holds it still");
        let at = tensor.storage::<f32>().as_ptr();
        keep([tensor]);
        let again = take_memory(len);
        assert_eq!(again.as_ptr(), at);
        release_memory();
    }
}
