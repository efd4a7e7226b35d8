//! The norm of gradients as kernels for GPUs, in CubeCL, which compiles them for the device.
//!
//! Units add their numbers in f32 in a fixed order, and no two units add to the same number, so that
//! results are the same to the bit on every run of a device.

#[cfg(feature = "every-kernel")]
mod every_kernel;
mod fold;
mod norm;
mod square_parts;
mod total;
mod units;

#[cfg(feature = "every-kernel")]
pub use every_kernel::every_kernel;
pub(crate) use fold::fold;
pub(crate) use norm::{NormBuffers, norm};
pub(crate) use square_parts::square_parts;
pub(crate) use units::{PARTS, run_on};
