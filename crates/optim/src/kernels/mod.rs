//! Steps on slices, and on the buffers of a GPU.

#[cfg(feature = "flex")]
pub(crate) mod adamw;
#[cfg(any(feature = "cube", feature = "every-kernel"))]
#[cfg_attr(
    not(feature = "cube"),
    allow(dead_code, unused_imports, reason = "only the operations on GPUs use all of it")
)]
pub(crate) mod cube;
pub(crate) mod numbers;
#[cfg(feature = "flex")]
mod pieces;
#[cfg(feature = "flex")]
pub(crate) mod sgd;

#[cfg(feature = "every-kernel")]
pub use cube::every_kernel;
