//! Batch normalization as an operation that a backend implements, on the CPU and on GPUs.

#[cfg(feature = "autodiff")]
mod autodiff;
#[cfg(feature = "cube")]
mod cube;
mod extension;
#[cfg(feature = "flex")]
mod flex;

pub(super) use extension::{NormSpec, NormalizationBackend};
