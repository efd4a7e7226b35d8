//! Why the norm of gradients is computed by burn's own operations.

use std::fmt;

use burn::backend::DispatchDevice;
use burn::tensor::{DType, Device};

/// Why the norm of gradients is computed by burn's own operations, several launches or passes over
/// the memory of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NormReason {
    /// This build has no kernels for the device's backend.
    Backend,
    /// The device's cubes are smaller than those of the kernels for GPUs, 256 units and 16 KiB of
    /// shared memory; CubeCL's backend for CPUs is such a device.
    Device,
    /// The kernels do not take gradients of this dtype.
    Dtype {
        /// The dtype of a gradient.
        dtype: DType,
    },
}

impl fmt::Display for NormReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend => formatter.write_str(
                "this build has no kernels for the backend of the device; the features of \
                 updraft-precision that bear the names of backends compile them",
            ),
            Self::Device => formatter.write_str(
                "the kernels for GPUs need cubes of 256 units and 16 KiB of shared memory, which \
                 the device does not have",
            ),
            Self::Dtype { dtype } => write!(
                formatter,
                "the kernels add the squares of gradients in f32, on GPUs also of f16 and bf16, \
                 and this is in {dtype:?}"
            ),
        }
    }
}

/// Why burn's operations compute the norm of gradients on a device if one of them has this dtype;
/// `None` if our kernels do.
///
/// Ask once, before the first step.
///
/// # Example
/// ```
/// use burn::tensor::{DType, Device};
/// use updraft_precision::{NormReason, norm_reason};
///
/// assert_eq!(norm_reason(&Device::flex(), DType::F32), None);
/// let reason = norm_reason(&Device::flex(), DType::F64);
/// assert_eq!(reason, Some(NormReason::Dtype { dtype: DType::F64 }));
/// ```
#[must_use]
pub fn norm_reason(device: &Device, dtype: DType) -> Option<NormReason> {
    of_backend(device.clone().without_autodiff().as_dispatch(), dtype)
}

#[cfg_attr(
    not(any(feature = "flex", feature = "cube")),
    allow(unused_variables, reason = "without kernels there is one reason")
)]
fn of_backend(device: &DispatchDevice, dtype: DType) -> Option<NormReason> {
    match device {
        #[cfg(feature = "flex")]
        DispatchDevice::Flex(_) => (dtype != DType::F32).then_some(NormReason::Dtype { dtype }),
        #[cfg(feature = "cube")]
        DispatchDevice::Cube(device) if !crate::kernels::cube::run_on(&device.client()) => {
            Some(NormReason::Device)
        }
        #[cfg(feature = "cube")]
        DispatchDevice::Cube(_) => (dtype == DType::F64).then_some(NormReason::Dtype { dtype }),
        #[allow(unreachable_patterns, reason = "burn's variants depend on its features")]
        _ => Some(NormReason::Backend),
    }
}
