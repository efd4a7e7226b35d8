//! Errors about devices.

use std::path::{Path, PathBuf};

use crate::spec::{Backend, DeviceSpec};

/// Errors of parsing, selecting or using a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The text names no device.
    #[error(
        "`{text}` is not a device; expected `auto`, `cpu`, or one of flex, cuda, rocm, metal, \
         vulkan, webgpu, wgpu, cubecl-cpu, with an index such as `cuda:1` where there are several"
    )]
    Unknown {
        /// The given value.
        text: String,
    },
    /// The backend is not part of this build.
    #[error("device `{spec}` needs the cargo feature `{feature}`")]
    NotCompiled {
        /// The requested value.
        spec: DeviceSpec,
        /// The feature that compiles it in.
        feature: &'static str,
    },
    /// The backend is compiled in, and the device cannot be used.
    #[error(
        "device `{spec}` is not usable: {reason}; install or update its driver, or choose another \
         device: `probe` lists them"
    )]
    NotUsable {
        /// The requested value.
        spec: DeviceSpec,
        /// The reason.
        reason: String,
    },
    /// No device at all can be used.
    #[error("this build has no usable device; build it with the cargo feature `flex`")]
    Nothing,
    /// A device disappeared after it was chosen.
    #[error("device `{backend}:{index}` was available when it was selected and no longer is")]
    Gone {
        /// Its backend.
        backend: Backend,
        /// Its index.
        index: usize,
    },
    /// A device was opened and stopped computing.
    #[error("device `{device}` failed while it computed: {reason}")]
    Failed {
        /// burn's own description of the device.
        device: String,
        /// What burn reported.
        reason: String,
    },
    /// The cache of measured and compiled kernels cannot be used.
    #[error("cannot {action} the cache of kernels `{path}`: {cause}")]
    KernelCache {
        /// What was tried.
        action: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// The reason.
        cause: String,
    },
    /// This process already has a cache of kernels of its own.
    #[error("this process has a cache of kernels for another run; finish that run first")]
    KernelCacheInUse,
    /// The peak of memory could not be sampled.
    #[error("peak memory could not be sampled: {reason}")]
    Sampler {
        /// The reason.
        reason: String,
    },
}

impl DeviceError {
    pub(crate) fn kernel_cache(action: &'static str, path: &Path, cause: String) -> Self {
        Self::KernelCache { action, path: path.to_owned(), cause }
    }
}
