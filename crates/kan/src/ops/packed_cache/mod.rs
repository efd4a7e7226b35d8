//! The packed weights that a layer keeps for inference while its parameters do not change.

#[cfg(not(feature = "flex"))]
mod disabled;
#[cfg(feature = "flex")]
mod enabled;

#[cfg(not(feature = "flex"))]
pub(crate) use disabled::PackedCache;
#[cfg(feature = "flex")]
pub(crate) use enabled::PackedCache;
