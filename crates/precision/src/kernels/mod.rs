//! Sums on slices, and on the buffers of a GPU.

#[cfg(feature = "cube")]
pub(crate) mod cube;
#[cfg(feature = "flex")]
mod square_sums;

#[cfg(feature = "flex")]
pub(crate) use square_sums::square_sums;
