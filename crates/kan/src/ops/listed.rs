//! Whether a device's backend runs our kernels.

use burn::backend::DispatchDevice;
use burn::tensor::Device;

/// Whether our operations exist there: burn panics if an extension runs on a backend that it was
/// not declared for, so all other backends use the plain path.
pub(super) fn runs_our_kernels(device: &Device) -> bool {
    listed(device.as_dispatch())
}

fn listed(device: &DispatchDevice) -> bool {
    match device {
        DispatchDevice::Flex(_) => true,
        #[cfg(feature = "autodiff")]
        DispatchDevice::Autodiff(inner) => listed(inner),
        #[allow(unreachable_patterns, reason = "burn's variants depend on its features")]
        _ => false,
    }
}
