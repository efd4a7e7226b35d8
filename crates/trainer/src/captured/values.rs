//! What capturing does with the tensors of an input or an output.

use std::any::Any;
use std::collections::VecDeque;

use burn::tensor::kind::Basic;
use burn::tensor::{DType, Device, Tensor};

use super::reason::TensorForm;
use crate::tensors::{TensorMap, Tensors};

/// Dtype and shape of every tensor.
pub(super) fn forms<T: Tensors>(values: &T) -> Vec<TensorForm> {
    let mut forms = Forms(Vec::new());
    let _ = values.clone().map_tensors(&mut forms);
    forms.0
}

/// Whether a tensor is quantized.
pub(super) fn is_quantized(forms: &[TensorForm]) -> bool {
    forms.iter().any(|form| matches!(form.dtype, DType::QFloat(_)))
}

/// The first device on which a tensor is and `expected` is not.
pub(super) fn other_device<T: Tensors>(values: &T, expected: &Device) -> Option<Device> {
    let mut other = OtherDevice { expected, found: None };
    let _ = values.clone().map_tensors(&mut other);
    other.found
}

/// The same numbers in memory of their own.
pub(super) fn copied<T: Tensors>(values: &T) -> T {
    values.clone().map_tensors(&mut Copied)
}

/// `target` with the numbers of `source`, which has the same forms, written into its own memory.
///
/// # Errors
/// The unchanged `target` if its memory is shared.
pub(super) fn overwritten<T: Tensors>(target: T, source: &T) -> Result<T, T> {
    let mut owned = Owned(true);
    let target = target.map_tensors(&mut owned);
    if !owned.0 {
        return Err(target);
    }
    let mut sources = Sources(VecDeque::new());
    let _ = source.clone().map_tensors(&mut sources);
    Ok(target.map_tensors(&mut Overwrite(sources.0)))
}

/// The bytes of every tensor.
///
/// # Errors
/// What burn reports for a tensor that cannot be read.
pub(super) fn bytes<T: Tensors>(values: &T) -> Result<Vec<Vec<u8>>, String> {
    let mut read = Read(Ok(Vec::new()));
    let _ = values.clone().map_tensors(&mut read);
    read.0
}

struct Forms(Vec<TensorForm>);

impl TensorMap for Forms {
    fn map<const D: usize, K: Basic + 'static>(&mut self, tensor: Tensor<D, K>) -> Tensor<D, K> {
        self.0.push(TensorForm { dtype: tensor.dtype(), shape: tensor.dims().to_vec() });
        tensor
    }
}

struct OtherDevice<'a> {
    expected: &'a Device,
    found: Option<Device>,
}

impl TensorMap for OtherDevice<'_> {
    fn map<const D: usize, K: Basic + 'static>(&mut self, tensor: Tensor<D, K>) -> Tensor<D, K> {
        let device = tensor.device();
        // The comparison of devices ignores autodiff.
        let is_same =
            device == *self.expected && device.is_autodiff() == self.expected.is_autodiff();
        if !is_same && self.found.is_none() {
            self.found = Some(device);
        }
        tensor
    }
}

struct Copied;

impl TensorMap for Copied {
    fn map<const D: usize, K: Basic + 'static>(&mut self, tensor: Tensor<D, K>) -> Tensor<D, K> {
        let (shape, device, dtype) = (tensor.shape(), tensor.device(), tensor.dtype());
        let empty = Tensor::<D, K>::empty(shape, (&device, dtype));
        empty.slice_assign(tensor.dims().map(|side| 0..side), tensor)
    }
}

struct Owned(bool);

impl TensorMap for Owned {
    fn map<const D: usize, K: Basic + 'static>(&mut self, tensor: Tensor<D, K>) -> Tensor<D, K> {
        self.0 &= tensor.can_mut();
        tensor
    }
}

struct Sources(VecDeque<Box<dyn Any>>);

impl TensorMap for Sources {
    fn map<const D: usize, K: Basic + 'static>(&mut self, tensor: Tensor<D, K>) -> Tensor<D, K> {
        self.0.push_back(Box::new(tensor.clone()));
        tensor
    }
}

struct Overwrite(VecDeque<Box<dyn Any>>);

impl TensorMap for Overwrite {
    fn map<const D: usize, K: Basic + 'static>(&mut self, tensor: Tensor<D, K>) -> Tensor<D, K> {
        let source = self.0.pop_front().expect("the input has the forms of the captured one");
        let source = source.downcast::<Tensor<D, K>>().expect("a value of the same type");
        tensor.slice_assign(source.dims().map(|side| 0..side), *source)
    }
}

struct Read(Result<Vec<Vec<u8>>, String>);

impl TensorMap for Read {
    fn map<const D: usize, K: Basic + 'static>(&mut self, tensor: Tensor<D, K>) -> Tensor<D, K> {
        if let Ok(all) = &mut self.0 {
            match tensor.try_to_data() {
                Ok(data) => all.push(data.as_bytes().to_vec()),
                Err(error) => self.0 = Err(error.to_string()),
            }
        }
        tensor
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Bool, Int};

    use super::*;

    #[test]
    fn a_copy_has_the_forms_and_bits_of_every_kind_of_tensor() {
        let device = Device::flex();
        let floats = Tensor::<2>::from_floats([[f32::NAN, -0.0], [1.5, f32::INFINITY]], &device);
        let ints = Tensor::<1, Int>::from_ints([7, -3, 0], &device);
        let flags = Tensor::<3, Bool>::from_bool([[[true, false]]], &device);
        let empty = Tensor::<2>::zeros([0, 3], &device);
        let values = ((floats, ints), Some(flags), vec![empty]);
        let copy = copied(&values);
        assert_eq!(forms(&copy), forms(&values));
        assert_eq!(bytes(&copy), bytes(&values));
        assert_eq!(forms(&values).len(), 4);
        assert_eq!(bytes(&values).expect("read")[0].len(), 16);
    }

    #[test]
    fn numbers_are_written_over_those_of_the_target() {
        let device = Device::flex();
        let zeros = (Tensor::<2>::zeros([2, 1], &device), Tensor::<1, Int>::zeros([2], &device));
        let source = (
            Tensor::<2>::from_floats([[1.0], [2.0]], &device),
            Tensor::<1, Int>::from_ints([5, 6], &device),
        );
        let mut sources = Sources(VecDeque::new());
        let _ = source.clone().map_tensors(&mut sources);
        let written = zeros.map_tensors(&mut Overwrite(sources.0));
        assert_eq!(written.to_numbers(), [1.0, 2.0, 5.0, 6.0]);
        assert_eq!(source.to_numbers(), [1.0, 2.0, 5.0, 6.0]);
    }

    #[test]
    fn the_device_with_autodiff_is_another_one() {
        let device = Device::flex();
        let values = (Tensor::<1>::zeros([1], &device), Tensor::<1>::zeros([1], &device));
        assert!(other_device(&values, &device).is_none());
        let tracked = Tensor::<1>::zeros([1], &device.clone().autodiff());
        let found = other_device(&(values.0, tracked), &device).expect("the second tensor's");
        assert!(found.is_autodiff());
    }
}
