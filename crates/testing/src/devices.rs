//! The devices a test should run on: every backend compiled into the test binary.

use burn::tensor::Device;

/// Every device compiled in, without autodiff; a device test runs on all of them.
///
/// flex, the CPU backend, is always among them.
pub fn devices() -> Vec<Device> {
    vec![Device::flex()]
}

/// The same devices with autodiff, for tests that train.
pub fn autodiff_devices() -> Vec<Device> {
    devices().into_iter().map(Device::autodiff).collect()
}
