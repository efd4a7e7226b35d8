//! The norm of gradients on GPUs, from the sums of squares of their parts.

use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Backend, Dispatch, DispatchDevice, DispatchTensor, ExtensionType, backend_extension,
};
use burn::tensor::{DType, Device, FloatDType, Tensor};

use crate::device_norm::DeviceNorm;
use crate::kernels::cube::{PARTS, run_on};

/// A norm, and what follows from it; `[1]` each.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Norm<B: Backend> {
    pub(crate) norm: FloatTensor<B>,
    pub(crate) is_finite: FloatTensor<B>,
    pub(crate) factor: FloatTensor<B>,
}

/// Our operations, on f32 tensors.
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(crate) trait NormBackend: Backend {
    /// `parts`, `[gradients, PARTS]` and zeros at first, with the sums of squares of a gradient in
    /// a row.
    #[fusion(dtype = parts, shape = parts)]
    fn square_parts(
        parts: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        row: usize,
    ) -> FloatTensor<Self>;

    /// The sum of squares of each gradient, `[gradients]`.
    #[fusion(dtype = parts, shape = burn::tensor::Shape::new([parts[0]]))]
    fn sums_of_parts(parts: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The norm of all gradients divided by `scale`, clipped to `most`.
    #[fusion(meta = |_parts, scale, _most| NormMetadata {
        norm: scale.clone(),
        is_finite: scale.clone(),
        factor: scale.clone(),
    })]
    fn norm_of_parts(parts: FloatTensor<Self>, scale: FloatTensor<Self>, most: f32) -> Norm<Self>;
}

/// Whether a device runs our kernels for GPUs.
fn runs_kernels(device: &Device) -> bool {
    match device.as_dispatch() {
        DispatchDevice::Cube(device) => run_on(&device.client()),
        #[allow(unreachable_patterns, reason = "burn's variants depend on its features")]
        _ => false,
    }
}

/// Gradients of one module for the kernels, which take them only all together.
#[derive(Default)]
pub(crate) struct Parts {
    gradients: Vec<DispatchTensor>,
    device: Option<Device>,
}

impl Parts {
    /// The same with one more; `None` if the kernels do not take it.
    pub(crate) fn with<const D: usize>(mut self, gradient: Tensor<D>) -> Option<Self> {
        let device = gradient.device();
        let is_taken = match &self.device {
            Some(other) => *other == device && !device.is_autodiff(),
            None => runs_kernels(&device),
        };
        if !is_taken || gradient.dtype() == DType::F64 {
            return None;
        }
        self.device = Some(device);
        self.gradients.push(gradient.cast(FloatDType::F32).into_dispatch());
        Some(self)
    }

    /// The sums of squares of the parts of all gradients; `None` if there is no gradient.
    fn squares(self) -> Option<DispatchTensor> {
        let Self { gradients, device } = self;
        let shape = [gradients.len(), PARTS];
        let zeros = Tensor::<2>::zeros(shape, (&device?, DType::F32)).into_dispatch();
        let gradients = gradients.into_iter().enumerate();
        Some(gradients.fold(zeros, |parts, (row, gradient)| {
            <Dispatch as NormBackend>::square_parts(parts, gradient, row)
        }))
    }

    /// The sum of squares of each gradient, `[gradients]`; `None` if there is none.
    pub(crate) fn square_sums(self) -> Option<Tensor<1>> {
        let squares = self.squares()?;
        Some(Tensor::from_dispatch(<Dispatch as NormBackend>::sums_of_parts(squares)))
    }

    /// The norm of all gradients divided by `scale`; `None` if there is no gradient.
    pub(crate) fn norm(self, scale: Tensor<1>, max_norm: Option<f64>) -> Option<DeviceNorm> {
        let squares = self.squares()?;
        // No finite norm is above it.
        let most = max_norm.map_or(f32::MAX, |most| most as f32);
        let Norm { norm, is_finite, factor } =
            <Dispatch as NormBackend>::norm_of_parts(squares, scale.into_dispatch(), most);
        let [norm, is_finite, factor] = [norm, is_finite, factor].map(Tensor::from_dispatch);
        Some(DeviceNorm { norm, is_finite, factor })
    }
}
