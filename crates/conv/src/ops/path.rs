//! The implementation of a layer: our kernels, or burn's own operations.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::{DType, Device};

#[cfg(any(feature = "flex", feature = "cube"))]
use super::listed::{Kernels, kernels_of};
use super::reason::PlainReason;
use crate::kernels::Isa;

/// Whether layers without a path of their own take burn's operations.
static PREFERS_PLAIN: AtomicBool = AtomicBool::new(false);

/// The implementation of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LayerPath {
    /// Our kernels on the CPU, with this instruction set.
    Kernels(Isa),
    /// Our kernels for GPUs, which CubeCL compiles for the device; batch norms have them.
    Cube,
    /// burn's own operations.
    Plain,
}

impl LayerPath {
    /// Makes [`Plain`](Self::Plain) the default of every device in this process, to compare our
    /// kernels with burn's operations. Layers that exist already may have chosen kernels.
    pub fn make_plain_default() {
        PREFERS_PLAIN.store(true, Ordering::Relaxed);
    }

    /// The default of a device for all layers but batch norms, which on GPUs have kernels of their
    /// own: [`BatchNorm::path`](crate::BatchNorm::path).
    #[must_use]
    pub fn of(device: &Device) -> Self {
        match Self::of_batch_norms(device) {
            Ok(path @ Self::Kernels(_)) => path,
            _ => Self::Plain,
        }
    }

    /// The default of a device for batch norms, or why it is burn's operations.
    #[cfg(any(feature = "flex", feature = "cube"))]
    fn of_batch_norms(device: &Device) -> Result<Self, PlainReason> {
        if PREFERS_PLAIN.load(Ordering::Relaxed) {
            return Err(PlainReason::Forced);
        }
        kernels_of(device).map(|kernels| match kernels {
            #[cfg(feature = "flex")]
            Kernels::Cpu => Self::Kernels(Isa::detect().base()),
            #[cfg(feature = "cube")]
            Kernels::Gpu => Self::Cube,
        })
    }

    #[cfg(not(any(feature = "flex", feature = "cube")))]
    fn of_batch_norms(_: &Device) -> Result<Self, PlainReason> {
        Err(PlainReason::Backend)
    }

    /// The kernels that compute a batch norm in f32, or why burn's operations do; a caller's choice
    /// takes precedence.
    pub(crate) fn of_batch_norm(
        forced: Option<Self>,
        device: &Device,
    ) -> Result<Self, PlainReason> {
        match forced {
            Some(Self::Plain) => Err(PlainReason::Forced),
            Some(forced) => Ok(forced),
            None => Self::of_batch_norms(device),
        }
    }

    /// The implementation of a batch norm for a dtype on a device; a caller's choice takes
    /// precedence.
    ///
    /// # Panics
    /// If the requested kernels do not exist on the device or the processor.
    pub(crate) fn picked_for_batch_norm(
        forced: Option<Self>,
        device: &Device,
        dtype: DType,
    ) -> Self {
        match forced {
            None if is_for_kernels(dtype) => Self::of_batch_norms(device).unwrap_or(Self::Plain),
            #[cfg(feature = "cube")]
            Some(Self::Cube) => {
                let is_there = kernels_of(device) == Ok(Kernels::Gpu);
                assert!(is_there, "no kernels for GPUs for the device {device:?}; {USE_PLAIN}");
                assert!(is_for_kernels(dtype), "the kernels sum in f32, not in {dtype:?}");
                Self::Cube
            }
            #[cfg(not(feature = "cube"))]
            Some(Self::Cube) => {
                panic!("the kernels for GPUs need the cargo feature of the device's backend")
            }
            _ => Self::picked(forced, device, dtype),
        }
    }

    /// The implementation for a dtype on a device, of all layers but batch norms; a caller's choice
    /// takes precedence.
    ///
    /// # Panics
    /// If the requested kernels do not exist for the layer, on the device or the processor.
    pub(crate) fn picked(forced: Option<Self>, device: &Device, dtype: DType) -> Self {
        match forced {
            None if is_for_kernels(dtype) => Self::of(device),
            None | Some(Self::Plain) => Self::Plain,
            #[cfg(feature = "flex")]
            Some(Self::Kernels(isa)) => {
                assert!(
                    super::listed::runs_on_slices(device),
                    "no kernels for the device {device:?}; {USE_PLAIN}"
                );
                assert!(isa.is_available(), "this processor has no {isa}");
                Self::Kernels(isa)
            }
            #[cfg(not(feature = "flex"))]
            Some(Self::Kernels(_)) => panic!("the kernels need the cargo feature `flex`"),
            Some(Self::Cube) => {
                panic!("the kernels for GPUs compute batch norms only; {USE_PLAIN}")
            }
        }
    }
}

/// What to do about kernels that do not exist.
const USE_PLAIN: &str = "use `LayerPath::Plain` there";

/// Whether our kernels take a dtype; they compute in f32.
fn is_for_kernels(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::BF16 | DType::F16)
}

impl fmt::Display for LayerPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernels(isa) => write!(formatter, "kernels ({isa})"),
            Self::Cube => formatter.write_str("kernels (CubeCL)"),
            Self::Plain => formatter.write_str("plain"),
        }
    }
}
