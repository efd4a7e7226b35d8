//! The kernels as a differentiable operation on burn's tensors.

mod conv;
mod conv_plain;
mod expansion;
mod layer;
mod plain;
mod plain_memory;

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
#[cfg(feature = "flex")]
mod extension;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod fused;
#[cfg(feature = "flex")]
mod listed;

pub(crate) use conv::conv;
pub(crate) use conv_plain::{Pixels, convolve};
pub(crate) use expansion::expand;
#[cfg(feature = "flex")]
pub(crate) use fused::packed;
pub use layer::LayerPath;
pub(crate) use layer::{Parameters, layer};
pub(crate) use plain::activate;
pub(crate) use plain_memory::memory as plain_memory;
