//! Facts about a device that need no measurement.

use burn::backend::{Backend as _, DTypeUsage, Dispatch};
use burn::tensor::{DType, Device};
use serde::Serialize;
use sysinfo::{CpuRefreshKind, RefreshKind, System};

use crate::memory::memory;
use crate::nvidia;
use crate::spec::Backend;

/// Facts about a usable device; `None` where a fact is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Facts {
    /// The version of the driver.
    pub driver: Option<String>,
    /// What kernels are compiled for, such as `ptx_sm90`.
    pub target: Option<String>,
    /// The PCI address of the card behind it: two devices with one address are one card.
    pub card: Option<String>,
    /// Whose memory the next two numbers are about.
    pub memory_owner: MemoryOwner,
    /// Total memory in bytes; of a CPU, at most the limit of the control group.
    pub memory_total_bytes: Option<u64>,
    /// Free memory in bytes.
    pub memory_free_bytes: Option<u64>,
    /// The float dtypes that the device can at least store.
    pub dtypes: Vec<DtypeFacts>,
    /// How a captured graph is replayed.
    pub graph_capture: GraphCapture,
}

/// Whose memory a device computes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryOwner {
    /// The machine's: of a CPU, and of an adapter that emulates a GPU on it.
    Machine,
    /// The device's own, which [`clean_up`](crate::clean_up) and
    /// [`PeakSampler`](crate::PeakSampler) report on; a GPU that shares memory with the processor
    /// counts as well.
    Device,
}

/// What a device supports for a dtype; burn reports the three separately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DtypeFacts {
    /// The dtype's name, such as `bf16`.
    pub dtype: String,
    /// It can be stored and converted.
    pub stored: bool,
    /// It can be computed in.
    pub computed: bool,
    /// Its matrix products run on tensor cores or similar units.
    pub tensor_cores: bool,
}

/// How a graph captured with `burn::tensor::capture` is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GraphCapture {
    /// The driver replays it as one launch.
    Hardware,
    /// The runtime launches the recorded kernels again, without the host's work before each launch.
    Software,
    /// burn runs the recorded closure again.
    Replayed,
}

/// Every float dtype of burn, widest first.
pub(crate) const FLOATS: [DType; 5] =
    [DType::F64, DType::F32, DType::Flex32, DType::F16, DType::BF16];

/// The name of a dtype in tables and JSON.
pub(crate) fn dtype_name(dtype: DType) -> String {
    format!("{dtype:?}").to_lowercase()
}

/// Describes a device: its name, whether it emulates a GPU in software, and its facts.
///
/// Opens the device.
pub(crate) fn describe(backend: Backend, device: &Device) -> (Option<String>, bool, Facts) {
    let identity = Identity::of(device);
    let is_cpu = matches!(backend, Backend::Flex | Backend::CubeclCpu);
    let is_adapter =
        matches!(backend, Backend::Metal | Backend::Vulkan | Backend::Webgpu | Backend::Wgpu);
    // burn names a card for every adapter but those of kind CPU.
    let is_named = identity.name.as_deref().is_some_and(is_rasterizer);
    let is_software = is_adapter && (is_named || !identity.is_card);
    let mut facts = Facts {
        driver: None,
        target: identity.target,
        card: identity.address,
        memory_owner: match is_cpu || is_software {
            true => MemoryOwner::Machine,
            false => MemoryOwner::Device,
        },
        memory_total_bytes: None,
        memory_free_bytes: None,
        dtypes: dtypes(device),
        graph_capture: match backend {
            // What CubeCL 0.11.3 implements: `begin_capture` of its servers.
            Backend::Cuda | Backend::Rocm => GraphCapture::Hardware,
            Backend::Metal | Backend::Vulkan | Backend::Webgpu | Backend::Wgpu => {
                GraphCapture::Software
            }
            _ => GraphCapture::Replayed,
        },
    };
    if facts.memory_owner == MemoryOwner::Machine {
        let memory = memory();
        facts.memory_total_bytes = memory.total_bytes;
        facts.memory_free_bytes = memory.available_bytes;
    } else if let Some(card) = facts.card.as_deref().and_then(nvidia::card) {
        facts.driver = card.driver;
        facts.memory_total_bytes = card.memory_total_bytes;
        facts.memory_free_bytes = card.memory_free_bytes;
    }
    let name = if is_cpu { processor() } else { identity.name };
    (name, is_software, facts)
}

/// Which dtypes a device stores, computes, and multiplies on tensor cores.
fn dtypes(device: &Device) -> Vec<DtypeFacts> {
    let facts = |dtype| {
        let usage = Dispatch::dtype_usage(device.as_dispatch(), dtype);
        DtypeFacts {
            dtype: dtype_name(dtype),
            stored: usage.contains(DTypeUsage::Storage),
            computed: usage.is_superset(DTypeUsage::general()),
            tensor_cores: usage.contains(DTypeUsage::Accelerated),
        }
    };
    FLOATS.into_iter().map(facts).filter(|facts| facts.stored).collect()
}

/// The processor's own name.
fn processor() -> Option<String> {
    let cpu = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let system = System::new_with_specifics(cpu).ok()?;
    let brand = system.cpus().first()?.brand().trim().to_owned();
    (!brand.is_empty()).then_some(brand)
}

/// How burn names a device.
struct Identity {
    name: Option<String>,
    target: Option<String>,
    address: Option<String>,
    is_card: bool,
}

impl Identity {
    #[cfg(any(
        feature = "cuda",
        feature = "rocm",
        feature = "metal",
        feature = "vulkan",
        feature = "webgpu",
        feature = "wgpu",
        feature = "cpu"
    ))]
    fn of(device: &Device) -> Self {
        let Some(identity) = device.identity() else { return Self::unknown() };
        let address = identity.physical.as_ref().and_then(|card| card.pci_address);
        Self {
            name: Some(identity.name),
            target: Some(identity.fingerprint),
            address: address.map(|address| address.to_string()),
            is_card: identity.physical.is_some(),
        }
    }

    #[cfg(not(any(
        feature = "cuda",
        feature = "rocm",
        feature = "metal",
        feature = "vulkan",
        feature = "webgpu",
        feature = "wgpu",
        feature = "cpu"
    )))]
    fn of(_device: &Device) -> Self {
        Self::unknown()
    }

    fn unknown() -> Self {
        Self { name: None, target: None, address: None, is_card: false }
    }
}

/// Whether a name is that of a known software rasterizer.
fn is_rasterizer(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["llvmpipe", "lavapipe", "swiftshader", "softpipe"].iter().any(|known| name.contains(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_rasterizers_are_known_by_name() {
        assert!(is_rasterizer("llvmpipe (LLVM 15.0.6, 512 bits)"));
        assert!(!is_rasterizer("NVIDIA H100 80GB HBM3"));
    }

    #[test]
    fn dtypes_are_named_as_policies_name_them() {
        let names = FLOATS.map(dtype_name);
        assert_eq!(names, ["f64", "f32", "flex32", "f16", "bf16"]);
    }
}
