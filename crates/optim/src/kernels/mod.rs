//! Steps on slices, and on the buffers of a GPU.

#[cfg(feature = "flex")]
pub(crate) mod adamw;
#[cfg(feature = "cube")]
pub(crate) mod cube;
pub(crate) mod numbers;
#[cfg(feature = "flex")]
mod pieces;
#[cfg(feature = "flex")]
pub(crate) mod sgd;
