//! Opens a chosen device.

use burn::tensor::Device;

use crate::error::DeviceError;
use crate::probe::enumerate;
use crate::select::Selection;
use crate::spec::DeviceId;

/// Opens a chosen device, without autodiff.
///
/// # Errors
/// [`DeviceError::Gone`] if it is not in its backend's list anymore.
pub fn open(selection: &Selection) -> Result<Device, DeviceError> {
    open_id(selection.id)
}

/// The device of this id.
pub(crate) fn open_id(id: DeviceId) -> Result<Device, DeviceError> {
    enumerate(id.backend)
        .into_iter()
        .nth(id.index)
        .ok_or(DeviceError::Gone { backend: id.backend, index: id.index })
}
