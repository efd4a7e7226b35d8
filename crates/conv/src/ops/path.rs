//! The implementation of a layer: our kernels, or burn's own operations.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::{DType, Device};

use crate::kernels::Isa;

/// Whether layers without a path of their own take burn's operations.
static PREFERS_PLAIN: AtomicBool = AtomicBool::new(false);

/// The implementation of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LayerPath {
    /// Our kernels, with this instruction set.
    Kernels(Isa),
    /// burn's own operations.
    Plain,
}

impl LayerPath {
    /// Makes [`Plain`](Self::Plain) the default of every device in this process, to compare our
    /// kernels with burn's operations. Layers that exist already may have chosen kernels.
    pub fn make_plain_default() {
        PREFERS_PLAIN.store(true, Ordering::Relaxed);
    }

    /// The default of a device.
    #[must_use]
    pub fn of(device: &Device) -> Self {
        #[cfg(feature = "flex")]
        if !PREFERS_PLAIN.load(Ordering::Relaxed) && super::listed::runs_our_kernels(device) {
            return Self::Kernels(Isa::detect().base());
        }
        let _ = device;
        Self::Plain
    }

    /// The implementation for a dtype on a device; a caller's choice takes precedence.
    ///
    /// # Panics
    /// If the requested kernels do not exist on the device or the processor.
    pub(crate) fn picked(forced: Option<Self>, device: &Device, dtype: DType) -> Self {
        match forced {
            None if matches!(dtype, DType::F32 | DType::BF16 | DType::F16) => Self::of(device),
            None | Some(Self::Plain) => Self::Plain,
            #[cfg(feature = "flex")]
            Some(Self::Kernels(isa)) => {
                assert!(
                    super::listed::runs_our_kernels(device),
                    "no kernels for the device {device:?}; use `LayerPath::Plain` there"
                );
                assert!(isa.is_available(), "this processor has no {isa}");
                Self::Kernels(isa)
            }
            #[cfg(not(feature = "flex"))]
            Some(Self::Kernels(_)) => panic!("the kernels need the cargo feature `flex`"),
        }
    }
}

impl fmt::Display for LayerPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernels(isa) => write!(formatter, "kernels ({isa})"),
            Self::Plain => formatter.write_str("plain"),
        }
    }
}
