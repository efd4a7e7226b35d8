//! The device on which a network without trained weights is captured.

use burn::tensor::Device;

/// The processor: it computes little, and no kernel is compiled for that.
#[cfg(feature = "flex")]
pub(super) fn capture_device() -> Device {
    Device::flex()
}

/// The default of the backends that are compiled in.
#[cfg(not(feature = "flex"))]
pub(super) fn capture_device() -> Device {
    Device::default()
}
