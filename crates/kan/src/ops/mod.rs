//! The kernels as a differentiable operation on burn's tensors.

mod basis;
mod basis_conv;
mod basis_memory;
mod conv;
mod conv_plain;
mod expansion;
mod fixed_order_sum;
mod layer;
mod one_operation;
mod packed_cache;
mod plain;
mod plain_memory;
mod reason;
mod report;

#[cfg(all(any(feature = "flex", feature = "cube"), feature = "autodiff"))]
mod autodiff;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod basis_autodiff;
#[cfg(feature = "flex")]
mod basis_extension;
#[cfg(feature = "flex")]
mod basis_flex;
#[cfg(feature = "flex")]
mod basis_fused;
#[cfg(feature = "cube")]
mod cube;
#[cfg(any(feature = "flex", feature = "cube"))]
mod extension;
#[cfg(feature = "flex")]
mod flex;
#[cfg(any(feature = "flex", feature = "cube"))]
mod fused;
#[cfg(all(feature = "cube", feature = "fusion", feature = "autodiff"))]
mod fusion;
#[cfg(any(feature = "flex", feature = "cube"))]
mod listed;

pub(crate) use basis::{BasisParameters, basis_layer};
pub(crate) use basis_conv::basis_conv;
pub(crate) use basis_memory::memory as plain_basis_memory;
pub(crate) use conv::conv;
pub(crate) use fixed_order_sum::fixed_order_sum;
#[cfg(feature = "flex")]
pub(crate) use fused::packed;
pub use layer::LayerPath;
pub(crate) use layer::{Parameters, layer};
pub(crate) use packed_cache::PackedCache;
pub(crate) use plain_memory::memory as plain_memory;
pub use reason::PlainReason;
