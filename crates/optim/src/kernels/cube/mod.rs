//! The steps as kernels for GPUs, in CubeCL, which compiles them for the device.
//!
//! A unit computes its numbers by itself, in f32, so that results are the same to the bit on every
//! run of a device. Compilers of shaders may fuse a product with a sum, so that they differ from
//! those of burn's operations by rounding.

mod adamw;
mod copy;
mod corrections;
#[cfg(feature = "every-kernel")]
mod every_kernel;
mod sgd;
mod units;

pub(crate) use adamw::{AdamWBuffers, adamw};
pub(crate) use copy::copy;
pub(crate) use corrections::{CONTROL, CorrectionBuffers, correct};
#[cfg(feature = "every-kernel")]
pub use every_kernel::every_kernel;
pub(crate) use sgd::{SgdBuffers, sgd, sgd_with_momentum};
pub(crate) use units::run_on;
