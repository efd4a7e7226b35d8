//! Sums on slices, and on the buffers of a GPU.

#[cfg(any(feature = "cube", feature = "every-kernel"))]
#[cfg_attr(
    not(feature = "cube"),
    allow(dead_code, unused_imports, reason = "only the operations on GPUs use all of it")
)]
pub(crate) mod cube;
#[cfg(feature = "flex")]
mod square_sums;

#[cfg(feature = "every-kernel")]
pub use cube::every_kernel;
#[cfg(feature = "flex")]
pub(crate) use square_sums::square_sums;
