//! The cost of each kernel for GPUs: its cubes, whose sizes the kernels read here, and the bytes and
//! operations that follow from a layer and a batch.
//!
//! It has the folders and files of `kernels::cube`, and is compiled without CubeCL.

pub(crate) mod bias_gradient;
pub(crate) mod convolution;
pub(crate) mod dense;
mod evaluation;
pub(crate) mod expanded;
mod grids;
mod kernel_cost;
mod layer;
mod pass;
pub(crate) mod scaler_gradient;
pub(crate) mod sparse;
pub(crate) mod tensor_cores;
pub(crate) mod tiles;

#[cfg(feature = "burn")]
pub(crate) use grids::MOST_EXTENDED_DEGREE;
#[cfg(feature = "cube")]
pub(crate) use grids::Unsupported;
pub(crate) use grids::unsupported;
pub use kernel_cost::{Cubes, KernelCost};
pub(crate) use layer::CubeLayer;
#[cfg(feature = "burn")]
pub(crate) use layer::MOST_DEGREE;
#[cfg(any(feature = "cube", feature = "every-kernel"))]
pub(crate) use layer::Spacing;
pub(crate) use pass::{Images, Pass};
