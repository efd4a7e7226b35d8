//! Which of our kernels a device's backend runs.

use burn::backend::DispatchDevice;
use burn::tensor::Device;

/// Our kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernels {
    /// Those on slices, with vector instructions.
    Cpu,
    /// Those of CubeCL.
    Gpu,
}

/// The kernels of a device: burn panics if an extension runs on a backend that it was not declared
/// for, so all other backends use the plain path.
pub(super) fn kernels_of(device: &Device) -> Option<Kernels> {
    listed(device.as_dispatch())
}

fn listed(device: &DispatchDevice) -> Option<Kernels> {
    match device {
        #[cfg(feature = "flex")]
        DispatchDevice::Flex(_) => Some(Kernels::Cpu),
        #[cfg(feature = "cube")]
        DispatchDevice::Cube(_) => Some(Kernels::Gpu),
        #[cfg(feature = "autodiff")]
        DispatchDevice::Autodiff(inner) => listed(inner),
        #[allow(unreachable_patterns, reason = "burn's variants depend on its features")]
        _ => None,
    }
}
