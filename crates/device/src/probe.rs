//! Every device this build can reach, usable or not, and why.

use serde::Serialize;

use crate::spec::{Backend, DeviceId};

/// The version of [`Inventory`]'s JSON form.
const VERSION: u32 = 1;

/// What a look at the machine found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// The version of this value's JSON form: a field that changes meaning raises it.
    pub version: u32,
    /// At least one entry a backend, in the order of preference.
    pub entries: Vec<InventoryEntry>,
}

/// One device, or one backend without any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InventoryEntry {
    /// What it is called.
    pub id: DeviceId,
    /// The part's own name, where the backend tells it.
    pub name: Option<String>,
    /// Whether it emulates a GPU on the CPU, as Mesa's lavapipe does.
    pub is_software: bool,
    /// Whether it can be used.
    pub state: State,
}

/// Whether a device can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum State {
    /// It can.
    Usable,
    /// Its backend is not part of this build.
    NotCompiled {
        /// The cargo feature that brings it.
        feature: String,
    },
    /// Its backend is here and finds nothing to run on.
    Absent {
        /// Why not.
        reason: String,
    },
}

impl Inventory {
    /// An inventory of these entries.
    #[must_use]
    pub fn new(entries: Vec<InventoryEntry>) -> Self {
        Self { version: VERSION, entries }
    }
}

/// Looks for devices; a missing driver is an entry, never a panic.
///
/// Asking a backend for its list opens no device. Naming the ones found opens each of them.
#[must_use]
pub fn probe() -> Inventory {
    let mut entries = Vec::new();
    for backend in Backend::ALL {
        let entry = |state| InventoryEntry {
            id: DeviceId { backend, index: 0 },
            name: None,
            is_software: false,
            state,
        };
        if !backend.is_compiled() {
            entries.push(entry(State::NotCompiled { feature: backend.feature().to_owned() }));
            continue;
        }
        let devices = enumerate(backend);
        if devices.is_empty() {
            let reason = format!("no {backend} driver or device was found");
            entries.push(entry(State::Absent { reason }));
        }
        for (index, device) in devices.iter().enumerate() {
            let name = name(device);
            let is_software = name.as_deref().is_some_and(is_software);
            let id = DeviceId { backend, index };
            entries.push(InventoryEntry { id, name, is_software, state: State::Usable });
        }
    }
    Inventory::new(entries)
}

/// The devices of a compiled backend; none where its driver is missing.
pub(crate) fn enumerate(backend: Backend) -> Vec<burn::tensor::Device> {
    // burn's list of device types has a variant only where its feature is on.
    #[allow(unused_imports, reason = "no backend compiled in, none named")]
    use burn::tensor::{Device, DeviceType};
    match backend {
        #[cfg(feature = "cuda")]
        Backend::Cuda => Device::enumerate(DeviceType::Cuda).to_vec(),
        #[cfg(feature = "rocm")]
        Backend::Rocm => Device::enumerate(DeviceType::Rocm).to_vec(),
        #[cfg(feature = "metal")]
        Backend::Metal => Device::enumerate(DeviceType::Metal).to_vec(),
        #[cfg(feature = "vulkan")]
        Backend::Vulkan => Device::enumerate(DeviceType::Vulkan).to_vec(),
        #[cfg(feature = "webgpu")]
        Backend::Webgpu => Device::enumerate(DeviceType::WebGpu).to_vec(),
        #[cfg(feature = "wgpu")]
        Backend::Wgpu => Device::enumerate(DeviceType::Wgpu).to_vec(),
        #[cfg(feature = "flex")]
        Backend::Flex => vec![Device::flex()],
        #[cfg(feature = "cpu")]
        Backend::CubeclCpu => vec![Device::cpu()],
        #[allow(unreachable_patterns, reason = "every backend compiled in")]
        _ => Vec::new(),
    }
}

#[cfg(any(feature = "cuda", feature = "rocm", feature = "wgpu", feature = "cpu"))]
fn name(device: &burn::tensor::Device) -> Option<String> {
    device.identity().map(|identity| identity.name.to_string())
}

#[cfg(not(any(feature = "cuda", feature = "rocm", feature = "wgpu", feature = "cpu")))]
fn name(_device: &burn::tensor::Device) -> Option<String> {
    None
}

/// Whether a part's name is that of a known rasterizer in software.
fn is_software(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["llvmpipe", "lavapipe", "swiftshader", "softpipe"].iter().any(|known| name.contains(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_rasterizers_are_known_by_name() {
        assert!(is_software("llvmpipe (LLVM 15.0.6, 512 bits)"));
        assert!(!is_software("NVIDIA H100 80GB HBM3"));
    }
}
