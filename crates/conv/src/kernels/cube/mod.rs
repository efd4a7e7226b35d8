//! Batch normalization as kernels for GPUs, in CubeCL, which compiles them for the device.
//!
//! They compute what `kernels::norm` does for batches, with sums in f32, and do not depend on burn. A
//! cube computes a part of a channel. A unit adds its numbers in a fixed order, the sums of units and
//! parts are added in a fixed order, and no two units write to the same number, so that results are
//! the same to the bit on every run. Nothing depends on the size of a plane.

mod apply;
#[cfg(feature = "every-kernel")]
mod every_kernel;
mod form;
mod function;
#[cfg(feature = "autodiff")]
mod gradient_sums;
#[cfg(feature = "autodiff")]
mod input_gradient;
mod line;
mod moments;
mod sizes;
mod sums;
mod tiles;

pub(crate) use apply::apply;
#[cfg(feature = "every-kernel")]
pub use every_kernel::every_kernel;
pub(crate) use form::{Form, Inputs};
#[cfg(feature = "autodiff")]
pub(crate) use gradient_sums::{ChannelGradients, gradient_sums};
#[cfg(feature = "autodiff")]
pub(crate) use input_gradient::input_gradient;
pub(crate) use moments::moments;
pub(crate) use sizes::Sizes;
pub(crate) use tiles::run_on;
