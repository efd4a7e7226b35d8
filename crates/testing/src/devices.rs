//! The devices a test should run on, one test at a time.

use std::ops::Deref;
use std::vec;

use burn::tensor::{Device, DeviceType};
use parking_lot::{ReentrantMutex, ReentrantMutexGuard};

static RANDOM_STATE: ReentrantMutex<()> = ReentrantMutex::new(());

/// Holds off every other test of this process that draws random numbers, until it is dropped.
#[must_use = "other tests are held off for as long as this lives"]
#[derive(Debug)]
pub struct Alone {
    _held: ReentrantMutexGuard<'static, ()>,
}

/// Waits until no other thread is [`Alone`].
///
/// flex has one random state for the whole process: another test that draws at the same time
/// changes the numbers of a seeded test. A test that takes its devices from [`devices`] or
/// [`autodiff_devices`] is alone already; one that names its device calls this first.
pub fn alone() -> Alone {
    Alone { _held: RANDOM_STATE.lock() }
}

/// Devices to run a test on, held by [`alone`].
#[derive(Debug)]
pub struct Devices {
    list: Vec<Device>,
    alone: Alone,
}

/// The devices of [`Devices`] one after the other.
#[derive(Debug)]
pub struct IntoDevices {
    list: vec::IntoIter<Device>,
    _alone: Alone,
}

/// Every device to test on, without autodiff: flex, and with the feature `on-gpus` those of [`gpus`].
pub fn devices() -> Devices {
    #[allow(unused_mut, reason = "flex alone without the feature")]
    let mut list = vec![Device::flex()];
    #[cfg(feature = "on-gpus")]
    list.extend(gpus().list);
    Devices { alone: alone(), list }
}

/// Set where a test without a GPU would prove nothing: then there has to be one.
const REQUIRED: &str = "UPDRAFT_TEST_NEEDS_GPU";

/// The devices of every GPU backend in this build, without autodiff, adapters that are emulated on
/// the processor included.
///
/// # Panics
/// If there is none although the variable `UPDRAFT_TEST_NEEDS_GPU` is set.
pub fn gpus() -> Devices {
    let types: [DeviceType; _] = [
        #[cfg(feature = "cuda")]
        DeviceType::Cuda,
        #[cfg(feature = "rocm")]
        DeviceType::Rocm,
        #[cfg(feature = "metal")]
        DeviceType::Metal,
        #[cfg(feature = "vulkan")]
        DeviceType::Vulkan,
        #[cfg(feature = "webgpu")]
        DeviceType::WebGpu,
        #[cfg(feature = "wgpu")]
        DeviceType::Wgpu,
    ];
    let list: Vec<Device> = types.into_iter().flat_map(Device::enumerate).collect();
    let is_required = std::env::var_os(REQUIRED).is_some();
    assert!(!list.is_empty() || !is_required, "no GPU is found, and {REQUIRED} is set");
    Devices { alone: alone(), list }
}

/// The same devices with autodiff, for tests that train.
pub fn autodiff_devices() -> Devices {
    let Devices { list, alone } = devices();
    Devices { list: list.into_iter().map(Device::autodiff).collect(), alone }
}

impl Deref for Devices {
    type Target = [Device];

    fn deref(&self) -> &[Device] {
        &self.list
    }
}

impl IntoIterator for Devices {
    type Item = Device;
    type IntoIter = IntoDevices;

    fn into_iter(self) -> IntoDevices {
        IntoDevices { list: self.list.into_iter(), _alone: self.alone }
    }
}

impl Iterator for IntoDevices {
    type Item = Device;

    fn next(&mut self) -> Option<Device> {
        self.list.next()
    }
}
