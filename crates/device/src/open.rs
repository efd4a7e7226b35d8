//! From a chosen device to burn's.

use burn::tensor::Device;

use crate::error::DeviceError;
use crate::probe::enumerate;
use crate::select::Selection;

/// Opens a chosen device, without autodiff.
///
/// # Errors
/// [`DeviceError::Gone`] if it is not in its backend's list anymore.
pub fn open(selection: &Selection) -> Result<Device, DeviceError> {
    let id = selection.id;
    enumerate(id.backend)
        .into_iter()
        .nth(id.index)
        .ok_or(DeviceError::Gone { backend: id.backend, index: id.index })
}
