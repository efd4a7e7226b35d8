//! The kernels as operations on burn's tensors.

#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "cube")]
mod cube_parts;
#[cfg(feature = "flex")]
mod square_sums;

#[cfg(feature = "cube")]
pub(crate) use cube_parts::Parts;
#[cfg(feature = "flex")]
pub(crate) use square_sums::Taken;
