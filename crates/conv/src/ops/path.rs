//! The implementation of a layer: our kernels, or burn's own operations.

use std::fmt;

use burn::tensor::{DType, Device};

use crate::kernels::Isa;

/// What computes a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LayerPath {
    /// Our kernels, with these instructions.
    Kernels(Isa),
    /// burn's own operations.
    Plain,
}

impl LayerPath {
    /// What a device takes if nothing else is said.
    #[must_use]
    pub fn of(device: &Device) -> Self {
        #[cfg(feature = "flex")]
        if super::listed::runs_our_kernels(device) {
            return Self::Kernels(Isa::detect().base());
        }
        let _ = device;
        Self::Plain
    }

    /// What computes numbers of a dtype on a device, by a caller's choice if there is one.
    ///
    /// # Panics
    /// If kernels are asked for that the device or the processor does not have.
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
