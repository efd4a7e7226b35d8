//! Which of our kernels a device's backend runs.

use burn::backend::DispatchDevice;
use burn::tensor::Device;

use crate::reason::PlainReason;

/// Our kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernels {
    /// Those on slices, with vector instructions.
    #[cfg(feature = "flex")]
    Cpu,
    /// Those of CubeCL.
    #[cfg(feature = "cube")]
    Gpu,
}

/// The kernels of a device, or why it has none: burn panics if an extension runs on a backend that
/// it was not declared for, so all other backends use burn's operations.
pub(crate) fn kernels_of(device: &Device) -> Result<Kernels, PlainReason> {
    listed(device.as_dispatch())
}

fn listed(device: &DispatchDevice) -> Result<Kernels, PlainReason> {
    match device {
        #[cfg(feature = "flex")]
        DispatchDevice::Flex(_) => Ok(Kernels::Cpu),
        #[cfg(feature = "cube")]
        DispatchDevice::Cube(device) => match crate::kernels::cube::run_on(&device.client()) {
            true => Ok(Kernels::Gpu),
            false => Err(PlainReason::Device),
        },
        #[allow(unreachable_patterns, reason = "burn's variants depend on its features")]
        _ => Err(PlainReason::Backend),
    }
}
