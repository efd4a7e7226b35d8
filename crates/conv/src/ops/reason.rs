//! Why a batch norm is computed by burn's own operations.

use std::fmt;

/// Why a batch norm is computed by burn's own operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PlainReason {
    /// It was chosen by `with_path` or `LayerPath::make_plain_default`.
    Forced,
    /// This build has no kernels for the device's backend.
    Backend,
    /// The device's cubes are smaller than those of the kernels for GPUs, 256 units and 16 KiB of
    /// shared memory, or its kernels have fewer than 9 buffers; CubeCL's backend for CPUs is such a
    /// device.
    Device,
}

impl fmt::Display for PlainReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Forced => "it was chosen by `with_path` or `LayerPath::make_plain_default`",
            Self::Backend => {
                "this build has no kernels for the backend of the device; the features of \
                 updraft-conv that bear the names of backends compile them"
            }
            Self::Device => {
                "the kernels for GPUs need cubes of 256 units, 16 KiB of shared memory and 9 \
                 buffers, which the device does not have"
            }
        })
    }
}
