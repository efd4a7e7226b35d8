//! The sums of squares on the CPU.

use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Backend, BackendTensor, Dispatch, DispatchAutodiffContext, DispatchDevice, DispatchTensor,
    DispatchTensorKind, ExtensionType, Flex, backend_extension,
};
use burn::tensor::{DType, Tensor, TensorData};

use crate::kernels;

/// Any number of float tensors as one argument.
#[derive(Debug, Clone)]
pub(crate) struct All<B: Backend>(Vec<FloatTensor<B>>);

impl<B: Backend> ExtensionType<B> for All<B> {
    type Target = All<Dispatch>;

    fn map_to_dispatch<F>(self, map_kind: F, autodiff: DispatchAutodiffContext) -> Self::Target
    where
        F: Fn(BackendTensor<B>) -> DispatchTensorKind,
    {
        let tensors = self.0.into_iter().map(BackendTensor::Float);
        let mapped = tensors.map(|one| DispatchTensor { kind: map_kind(one), autodiff });
        All(mapped.collect())
    }

    fn map_from_dispatch<F>(target: Self::Target, unwrap_kind: F) -> Self
    where
        F: Fn(DispatchTensor) -> BackendTensor<B>,
    {
        Self(target.0.into_iter().map(|one| unwrap_kind(one).float()).collect())
    }

    fn routing_tensor(target: &Self::Target) -> Option<&DispatchTensor> {
        target.0.first()
    }

    fn routing_float_tensor(target: &Self::Target) -> Option<&DispatchTensor> {
        target.0.first()
    }

    fn autodiff_context(target: &Self::Target) -> DispatchAutodiffContext {
        let none = DispatchAutodiffContext::Disabled;
        target.0.iter().fold(none, |context, one| context.merge(one.autodiff))
    }
}

/// Our operation, on f32 tensors.
#[backend_extension(Flex)]
pub(crate) trait SquareSums: Backend {
    /// The sum of squares of each tensor, `[tensors]`.
    fn square_sums(#[extension_type] tensors: All<Self>) -> FloatTensor<Self>;
}

impl SquareSums for Flex {
    fn square_sums(All(tensors): All<Self>) -> FlexTensor {
        let tensors: Vec<_> = tensors.into_iter().map(|tensor| tensor.to_contiguous()).collect();
        let slices: Vec<&[f32]> = tensors.iter().map(FlexTensor::storage).collect();
        let sums = kernels::square_sums(&slices);
        FlexTensor::from_data(TensorData::new(sums, [slices.len()]))
    }
}

/// Gradients of one module for the kernel, which takes them only all together.
#[derive(Default)]
pub(crate) struct Taken(Vec<DispatchTensor>);

impl Taken {
    /// The same with one more; `None` if the kernel does not take it.
    pub(crate) fn with<const D: usize>(mut self, tensor: Tensor<D>) -> Option<Self> {
        let device = tensor.device();
        let is_flex = matches!(device.as_dispatch(), DispatchDevice::Flex(_));
        if !is_flex || tensor.dtype() != DType::F32 {
            return None;
        }
        self.0.push(tensor.into_dispatch());
        Some(self)
    }

    /// The sum of squares of each, `[tensors]`; `None` if there is none.
    pub(crate) fn square_sums(self) -> Option<Tensor<1>> {
        if self.0.is_empty() {
            return None;
        }
        Some(Tensor::from_dispatch(<Dispatch as SquareSums>::square_sums(All(self.0))))
    }
}
