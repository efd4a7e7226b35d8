//! Devices as text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::DeviceError;

/// A backend of burn, in the order in which `auto` prefers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Backend {
    /// NVIDIA's CUDA.
    Cuda,
    /// AMD's `ROCm`.
    Rocm,
    /// Apple's Metal.
    Metal,
    /// Vulkan, through SPIR-V.
    Vulkan,
    /// WebGPU, through WGSL.
    Webgpu,
    /// The API that wgpu chooses.
    Wgpu,
    /// burn's native CPU backend.
    Flex,
    /// CubeCL's kernels compiled for the CPU.
    CubeclCpu,
}

impl Backend {
    /// All of them, in the order of preference.
    pub const ALL: [Self; 8] = [
        Self::Cuda,
        Self::Rocm,
        Self::Metal,
        Self::Vulkan,
        Self::Webgpu,
        Self::Wgpu,
        Self::Flex,
        Self::CubeclCpu,
    ];

    /// The name in a device's text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Rocm => "rocm",
            Self::Metal => "metal",
            Self::Vulkan => "vulkan",
            Self::Webgpu => "webgpu",
            Self::Wgpu => "wgpu",
            Self::Flex => "flex",
            Self::CubeclCpu => "cubecl-cpu",
        }
    }

    /// The cargo feature that compiles it in, named as in burn.
    #[must_use]
    pub const fn feature(self) -> &'static str {
        match self {
            Self::CubeclCpu => "cpu",
            other => other.name(),
        }
    }

    /// Whether it is part of this build.
    #[must_use]
    pub const fn is_compiled(self) -> bool {
        match self {
            Self::Cuda => cfg!(feature = "cuda"),
            Self::Rocm => cfg!(feature = "rocm"),
            Self::Metal => cfg!(feature = "metal"),
            Self::Vulkan => cfg!(feature = "vulkan"),
            Self::Webgpu => cfg!(feature = "webgpu"),
            Self::Wgpu => cfg!(feature = "wgpu"),
            Self::Flex => cfg!(feature = "flex"),
            Self::CubeclCpu => cfg!(feature = "cpu"),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One device of one backend; the order is that of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// Its backend.
    pub backend: Backend,
    /// Its index in the backend's list, from 0.
    pub index: usize,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.backend {
            Backend::Flex | Backend::CubeclCpu => self.backend.fmt(f),
            backend => write!(f, "{backend}:{}", self.index),
        }
    }
}

/// Which device a user wants.
///
/// # Example
/// ```
/// use updraft_device::{Backend, DeviceSpec};
///
/// let spec: DeviceSpec = "cuda:1".parse()?;
/// assert_eq!(spec, DeviceSpec::Exact { backend: Backend::Cuda, index: Some(1) });
/// assert_eq!(spec.to_string(), "cuda:1");
/// # Ok::<(), updraft_device::DeviceError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceSpec {
    /// The first usable one in the order of preference.
    Auto,
    /// The first usable backend that computes on the CPU.
    Cpu,
    /// This backend, and this device of it if an index is given.
    Exact {
        /// The backend.
        backend: Backend,
        /// The device's index in the backend's list; without it, the first usable device.
        index: Option<usize>,
    },
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Exact { backend, index: None } => backend.fmt(f),
            Self::Exact { backend, index: Some(index) } => write!(f, "{backend}:{index}"),
        }
    }
}

impl FromStr for DeviceSpec {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let unknown = || DeviceError::Unknown { text: text.to_owned() };
        match text {
            "auto" => return Ok(Self::Auto),
            "cpu" => return Ok(Self::Cpu),
            _ => {}
        }
        let (name, index) = match text.split_once(':') {
            None => (text, None),
            // `parse` alone would take `+1`.
            Some((name, index)) if index.bytes().all(|byte| byte.is_ascii_digit()) => {
                (name, Some(index.parse().map_err(|_| unknown())?))
            }
            Some(_) => return Err(unknown()),
        };
        let backend =
            Backend::ALL.into_iter().find(|backend| backend.name() == name).ok_or_else(unknown)?;
        Ok(Self::Exact { backend, index })
    }
}

impl Serialize for DeviceSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DeviceSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for DeviceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
