//! Whether kernels on a device multiply bf16 faster than f32.

use burn::backend::DispatchDevice;
use burn::tensor::Device;
use updraft_simd::Bf16Unit;

/// Whether the device is a CPU with a unit for bf16, on the backend that runs our kernels.
pub(crate) fn multiplies_bf16(device: &Device) -> bool {
    Bf16Unit::detect().is_fast() && runs_kernels(device.as_dispatch())
}

fn runs_kernels(device: &DispatchDevice) -> bool {
    match device {
        #[cfg(feature = "flex")]
        DispatchDevice::Flex(_) => true,
        DispatchDevice::Autodiff(inner) => runs_kernels(inner),
        #[allow(unreachable_patterns, reason = "burn's variants depend on its features")]
        _ => false,
    }
}
