//! Why parameters are updated by burn's own operations.

use std::fmt;

use burn::tensor::{DType, Device};

use crate::ops::kernels_of;
use crate::plain;

/// Why a parameter is updated by burn's own operations, some fifteen launches or passes over its
/// memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PlainReason {
    /// It was chosen by [`make_plain_default`](crate::make_plain_default).
    Forced,
    /// This build has no kernels for the device's backend.
    Backend,
    /// The device's cubes are smaller than those of the kernels for GPUs, 256 units and 16 KiB of
    /// shared memory; CubeCL's backend for CPUs is such a device.
    Device,
    /// The kernels update parameters in f32 only.
    Dtype {
        /// The dtype of the parameter.
        dtype: DType,
    },
}

impl fmt::Display for PlainReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forced => formatter.write_str("it was chosen by `make_plain_default`"),
            Self::Backend => formatter.write_str(
                "this build has no kernels for the backend of the device; the features of \
                 updraft-optim that bear the names of backends compile them",
            ),
            Self::Device => formatter.write_str(
                "the kernels for GPUs need cubes of 256 units and 16 KiB of shared memory, which \
                 the device does not have",
            ),
            Self::Dtype { dtype } => {
                write!(formatter, "the kernels update parameters in f32, and this is in {dtype:?}")
            }
        }
    }
}

/// Why burn's operations update parameters of a dtype on a device; `None` if our kernels do.
///
/// The answer is the same for all parameters of a dtype: ask once, before the first step.
///
/// # Example
/// ```
/// use burn::tensor::{DType, Device};
/// use updraft_optim::{PlainReason, plain_reason};
///
/// assert_eq!(plain_reason(&Device::flex(), DType::F32), None);
/// let reason = plain_reason(&Device::flex(), DType::F64);
/// assert_eq!(reason, Some(PlainReason::Dtype { dtype: DType::F64 }));
/// ```
#[must_use]
pub fn plain_reason(device: &Device, dtype: DType) -> Option<PlainReason> {
    if plain::is_default() {
        return Some(PlainReason::Forced);
    }
    match kernels_of(&device.clone().without_autodiff()) {
        Err(reason) => Some(reason),
        Ok(_) if dtype != DType::F32 => Some(PlainReason::Dtype { dtype }),
        Ok(_) => None,
    }
}
