//! Which of our kernels a device's backend runs.

use burn::backend::DispatchDevice;
use burn::tensor::Device;

use super::reason::PlainReason;

/// Our kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernels {
    /// Those on slices, with vector instructions.
    Cpu,
    /// Those of CubeCL.
    Gpu,
}

/// The kernels of a device, or why it has none: burn panics if an extension runs on a backend that
/// it was not declared for, so all other backends use the plain path.
pub(super) fn kernels_of(device: &Device) -> Result<Kernels, PlainReason> {
    listed(device.as_dispatch())
}

/// Whether CubeCL computes on a device, also on one that has none of our kernels.
#[cfg(feature = "cube")]
pub(super) fn is_on_gpu(device: &Device) -> bool {
    fn is_cube(device: &DispatchDevice) -> bool {
        match device {
            DispatchDevice::Cube(_) => true,
            #[cfg(feature = "autodiff")]
            DispatchDevice::Autodiff(inner) => is_cube(inner),
            #[allow(unreachable_patterns, reason = "burn's variants depend on its features")]
            _ => false,
        }
    }
    is_cube(device.as_dispatch())
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
        #[cfg(feature = "autodiff")]
        DispatchDevice::Autodiff(inner) => listed(inner),
        #[allow(unreachable_patterns, reason = "burn's variants depend on its features")]
        _ => Err(PlainReason::Backend),
    }
}
