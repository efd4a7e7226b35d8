//! Networks on the GPUs of burn's devices.

use burn::backend::DispatchDevice;
use burn::tensor::Device;
use cubecl::client::Client;

use super::tensors::{Tensors, on_tensors};
use crate::network::{DeviceError, DeviceInt8Network, QuantizedModel, Workspace};

impl DeviceInt8Network {
    /// Copies a model to a GPU, with every layer in int8 that has an int8 form.
    ///
    /// # Errors
    /// [`DeviceError::NoGpu`] for a device without kernels, [`DeviceError::Units`] for one that is too
    /// small, [`DeviceError::NoInt8Layer`] if all layers run in f32, and [`DeviceError::Layer`] for
    /// the first layer that the device cannot compute with the bits of the CPU.
    pub fn try_new(model: &QuantizedModel, device: &Device) -> Result<Self, DeviceError> {
        let client = client_of(device);
        let client = client.ok_or_else(|| DeviceError::NoGpu { device: format!("{device:?}") })?;
        Self::try_with(model, client)
    }

    /// Computes the outputs of samples on any device, as [`run_all`](Self::run_all) does on slices.
    ///
    /// The samples are copied to the CPU first, and the outputs to the device of the first input, in
    /// f32.
    ///
    /// # Shapes
    /// - `x`: a tensor `[batch, …]` for each of [the inputs](Self::inputs)
    /// - returns: a tensor `[batch, …]` for each of [the outputs](Self::outputs)
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if the device failed.
    ///
    /// # Panics
    /// If a tensor does not have the shape that the model has for it.
    pub fn forward<I: Tensors, O: Tensors>(
        &self,
        x: I,
        workspace: &mut Workspace,
        threads: usize,
    ) -> Result<O, DeviceError> {
        let outputs: Vec<_> = self.outputs().collect();
        on_tensors(self.inputs(), &outputs, x, |x, y| self.run_all(x, y, workspace, threads))
    }
}

/// The client of a device's runtime, if it is one of CubeCL's.
pub(crate) fn client_of(device: &Device) -> Option<Client> {
    match device.clone().without_autodiff().as_dispatch() {
        DispatchDevice::Cube(device) => Some(device.client()),
        #[allow(unreachable_patterns, reason = "burn's variants depend on its features")]
        _ => None,
    }
}
